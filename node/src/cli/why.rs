//! What an event's line leaves out and its reader asks next: why, by whom, when.
//!
//! Lines of events are what test cases are compared with, so they stay short and are not to be changed; this stands
//! beside them.

use workflow::case;
use workflow::event::{Event, Recorded, TaskError};

/// Reason, message, worker or time of an event; empty when there is none.
pub(crate) fn why(recorded: &Recorded) -> String {
    let until = |at_ms: u64| format!("in {}", case::duration(at_ms.saturating_sub(recorded.timestamp_ms)));
    match &recorded.event {
        Event::WorkflowCreated(e) => format!("{} {}", e.workflow, e.version),
        Event::StepDispatched(e) => match e.deadline_ms {
            Some(deadline_ms) => format!("to {}, times out {}", e.worker_id, until(deadline_ms)),
            None => format!("to {}", e.worker_id),
        },
        Event::StepAttemptFailed(e) if !e.error.retryable => both("not retryable", &e.error.message),
        Event::StepAttemptFailed(e) => e.error.message.clone(),
        Event::StepFailed(e) => e.error.message.clone(),
        Event::StepSuspended(e) => e.error.message.clone(),
        Event::CompensationFailed(e) => e.error.message.clone(),
        Event::WorkflowFailed(e) => e.error.message.clone(),
        Event::StepClosing(e) => e.error.as_ref().map(failed).unwrap_or_default(),
        Event::HandlerFinished(e) => e.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
        Event::HandlerStarted(e) => e.failure.as_ref().map_or_else(String::new, |failure| {
            let code = failure.code.as_deref().unwrap_or_default();
            let said = both(code, failure.message.as_deref().unwrap_or_default());
            both(failure.reason.as_str(), &said)
        }),
        Event::RetryScheduled(e) => format!("in {}", case::duration(e.delay_ms)),
        Event::TimerStarted(e) => until(e.fire_at_ms),
        Event::StepSkipped(e) => format!("because of its {}", e.reason.as_str()),
        Event::CancelRequested(e) => e.reason.clone(),
        Event::CompensationStarted(e) => e.reason.as_str().to_owned(),
        Event::SignalReceived(e) => e.dedup_id.as_ref().map(|id| format!("dedup_id {id}")).unwrap_or_default(),
        _ => String::new(),
    }
}

fn failed(error: &TaskError) -> String {
    both(&error.code, &error.message)
}

/// `code: message`, or what there is of the two.
fn both(first: &str, second: &str) -> String {
    let gap = if first.is_empty() || second.is_empty() { "" } else { ": " };
    format!("{first}{gap}{second}")
}

#[cfg(test)]
mod tests {
    use workflow::event::Recorded;

    use super::why;

    #[test]
    fn each_event_tells_what_its_reader_asks_next() {
        for (fields, said) in [
            (r#""CancelRequested","reason":"typo","force":false"#, "typo"),
            (r#""RetryScheduled","step":"a","next_attempt":2,"delay_ms":1500,"fire_at_ms":2500"#, "in 1s500ms"),
            (r#""StepAttemptFailed","step":"a","attempt":1,"unknown":false,"error":{"code":"E","message":"no"}"#, "no"),
            (
                r#""StepAttemptFailed","step":"a","attempt":1,"unknown":false,"error":{"code":"E","retryable":false}"#,
                "not retryable",
            ),
            (r#""StepClosing","step":"","reason":"failed","error":{"code":"E","message":"no"}"#, "E: no"),
            (
                r#""StepDispatched","step":"a","attempt":1,"token":"t","worker_id":"w1","worker_session":"s",
                "deadline_ms":31000"#,
                "to w1, times out in 30s",
            ),
            (r#""HandlerStarted","step":"on:exit","failure":{"reason":"cancelled"}"#, "cancelled"),
            (r#""StepSkipped","step":"a","reason":"when""#, "because of its when"),
            (r#""TimerStarted","step":"a","fire_at_ms":61000"#, "in 1m"),
            (r#""WorkflowStarted""#, ""),
        ] {
            let text = format!(r#"{{"seq":1,"timestamp_ms":1000,"type":{fields}}}"#);
            assert_eq!(why(&Recorded::from_json(&text).expect("an event")), said, "{text}");
        }
    }
}
