//! What events are made of: messages within them, and words.

use workflow::event::*;

use super::error::{Fault, HistoryError};
use super::field::{Field, Message, One, message};
use super::wire::{Raw, Sink, Source};

macro_rules! parts {
    ($($name:ident { $($number:literal $field:ident),* })*) => {
        message! { $($name { $($number $field),* })* }

        #[cfg(test)]
        pub(super) const PARTS: &[(&str, &[(i32, &str)])] =
            &[$((stringify!($name), &[$(($number, stringify!($field))),*])),*];
    };
}

parts! {
    Parent { 1 execution_id, 2 created_at_ms, 3 run, 4 step, 5 attempt }
    Queue { 1 task, 2 version, 3 language }
    Child { 1 id, 2 workflow, 3 version, 4 hash }
    SignalTarget { 1 execution, 2 name }
    Failure { 1 reason, 2 code, 3 message, 4 details }
    TaskError { 1 code, 2 message, 3 retryable, 4 details }
}

/// Words are numbers from 1; 0 is never written. A word that is forgotten here does not compile.
macro_rules! words {
    ($($name:ident { $($number:literal $word:ident),* })*) => {
        $(impl One for $name {
            fn is_left_out(&self) -> bool {
                false
            }

            fn left_out() -> Result<Self, HistoryError> {
                Err(Fault::Missing.into())
            }

            fn put<S: Sink>(&self, field: u32, sink: &mut S) {
                sink.number(field, match self { $(Self::$word => $number,)* });
            }

            fn get(raw: Raw<'_>) -> Result<Self, HistoryError> {
                match raw.number()? {
                    0 => Self::left_out(),
                    $($number => Ok(Self::$word),)*
                    word => Err(HistoryError::UnknownWord { place: "", word }),
                }
            }
        })*

        #[cfg(test)]
        pub(super) const WORDS: &[(&str, &[(i32, &str)])] =
            &[$((stringify!($name), &[$(($number, stringify!($word))),*])),*];
    };
}

words! {
    SkipReason { 1 When }
    CloseReason { 1 Done, 2 Deadline, 3 Continued, 4 Failed, 5 DeadlineFailed, 6 Cancelled, 7 Timeout }
    UncertainReason { 1 WorkerLost, 2 NotReceived, 3 NodeLost, 4 Unregistered, 5 Stopped }
    ResultKind { 1 Success, 2 Failure }
    RedriveAction { 1 Retry, 2 Resolve, 3 Fail }
    Compensation { 1 None, 2 Completed, 3 Failed }
}
