//! How each type stands in a field.
//!
//! As in proto3: a number that is 0, a flag that is false and a text that is empty are left out and read back as such.
//! Within an `Option` they are written, so that absent and empty differ. Payloads, words and messages have no such
//! value: one that is missing is damage.

use std::collections::BTreeMap;

use workflow::key::Key;
use workflow::value::{Payload, Value};

use super::error::{Fault, HistoryError};
use super::wire::{Length, Raw, Sink, Source};

/// A type of which one value stands in a field.
pub(super) trait One: Sized {
    /// Whether it need not be written where it is always there.
    fn is_left_out(&self) -> bool;

    /// What it means there when it was not written.
    fn left_out() -> Result<Self, HistoryError>;

    fn put<S: Sink>(&self, field: u32, sink: &mut S);

    fn get(raw: Raw<'_>) -> Result<Self, HistoryError>;
}

/// A type of a field: one value, perhaps one, or many.
pub(super) trait Field: Sized {
    fn write<S: Sink>(&self, field: u32, sink: &mut S);

    /// The field once more, after what was read of it before.
    fn read(before: Option<Self>, raw: Raw<'_>) -> Result<Self, HistoryError>;

    /// The field when it was not there.
    fn absent() -> Result<Self, HistoryError>;
}

impl<T: One> Field for T {
    fn write<S: Sink>(&self, field: u32, sink: &mut S) {
        if !self.is_left_out() {
            self.put(field, sink);
        }
    }

    fn read(_: Option<Self>, raw: Raw<'_>) -> Result<Self, HistoryError> {
        T::get(raw)
    }

    fn absent() -> Result<Self, HistoryError> {
        T::left_out()
    }
}

impl<T: One> Field for Option<T> {
    fn write<S: Sink>(&self, field: u32, sink: &mut S) {
        if let Some(value) = self {
            value.put(field, sink);
        }
    }

    fn read(_: Option<Self>, raw: Raw<'_>) -> Result<Self, HistoryError> {
        T::get(raw).map(Some)
    }

    fn absent() -> Result<Self, HistoryError> {
        Ok(None)
    }
}

impl<T: One> Field for Vec<T> {
    fn write<S: Sink>(&self, field: u32, sink: &mut S) {
        for value in self {
            value.put(field, sink);
        }
    }

    fn read(before: Option<Self>, raw: Raw<'_>) -> Result<Self, HistoryError> {
        let mut values = before.unwrap_or_default();
        values.push(T::get(raw)?);
        Ok(values)
    }

    fn absent() -> Result<Self, HistoryError> {
        Ok(Vec::new())
    }
}

/// A map is many messages of a name, 1, and the JSON of its value, 2; in the order of the names.
impl Field for BTreeMap<String, Value> {
    fn write<S: Sink>(&self, field: u32, sink: &mut S) {
        for (name, value) in self {
            let json = value.to_json();
            let mut length = Length::default();
            write_entry(name, &json, &mut length);
            sink.head(field, length);
            write_entry(name, &json, sink);
        }
    }

    fn read(before: Option<Self>, raw: Raw<'_>) -> Result<Self, HistoryError> {
        let mut entries = before.unwrap_or_default();
        let (mut name, mut json) = ("", None);
        for found in Source::new(raw.bytes()?) {
            match found? {
                (1, raw) => name = raw.text()?,
                (2, raw) => json = Some(raw.text()?),
                _ => {}
            }
        }
        let value = Value::from_json(json.ok_or(Fault::Missing)?).map_err(Fault::from)?;
        entries.insert(name.to_owned(), value);
        Ok(entries)
    }

    fn absent() -> Result<Self, HistoryError> {
        Ok(BTreeMap::new())
    }
}

fn write_entry<S: Sink>(name: &str, json: &str, sink: &mut S) {
    if !name.is_empty() {
        sink.bytes(1, name.as_bytes());
    }
    sink.bytes(2, json.as_bytes());
}

macro_rules! numbers {
    ($($name:ty)*) => {$(
        impl One for $name {
            fn is_left_out(&self) -> bool {
                *self == 0
            }

            fn left_out() -> Result<Self, HistoryError> {
                Ok(0)
            }

            fn put<S: Sink>(&self, field: u32, sink: &mut S) {
                sink.number(field, u64::from(*self));
            }

            fn get(raw: Raw<'_>) -> Result<Self, HistoryError> {
                Ok(raw.number()?.try_into().map_err(|_| Fault::Range)?)
            }
        }
    )*};
}

numbers! { u8 u32 u64 }

impl One for bool {
    fn is_left_out(&self) -> bool {
        !self
    }

    fn left_out() -> Result<Self, HistoryError> {
        Ok(false)
    }

    fn put<S: Sink>(&self, field: u32, sink: &mut S) {
        sink.number(field, u64::from(*self));
    }

    fn get(raw: Raw<'_>) -> Result<Self, HistoryError> {
        Ok(raw.number()? != 0)
    }
}

macro_rules! texts {
    ($($name:ty)*) => {$(
        impl One for $name {
            fn is_left_out(&self) -> bool {
                self.is_empty()
            }

            fn left_out() -> Result<Self, HistoryError> {
                Ok(<$name>::from(""))
            }

            fn put<S: Sink>(&self, field: u32, sink: &mut S) {
                sink.bytes(field, self.as_bytes());
            }

            fn get(raw: Raw<'_>) -> Result<Self, HistoryError> {
                Ok(<$name>::from(raw.text()?))
            }
        }
    )*};
}

texts! { String Key }

impl One for Payload {
    fn is_left_out(&self) -> bool {
        false
    }

    fn left_out() -> Result<Self, HistoryError> {
        Err(Fault::Missing.into())
    }

    fn put<S: Sink>(&self, field: u32, sink: &mut S) {
        sink.bytes(field, self.as_str().as_bytes());
    }

    fn get(raw: Raw<'_>) -> Result<Self, HistoryError> {
        match raw.text()? {
            "" => Err(Fault::Missing.into()),
            text => Ok(Payload::stored(text)),
        }
    }
}

/// A type that is a message of its own; [`message!`] makes it one.
pub(super) trait Message: Sized {
    fn write_fields<S: Sink>(&self, sink: &mut S);

    fn read_fields(message: &[u8]) -> Result<Self, HistoryError>;
}

impl<T: Message> One for T {
    fn is_left_out(&self) -> bool {
        false
    }

    fn left_out() -> Result<Self, HistoryError> {
        Err(Fault::Missing.into())
    }

    fn put<S: Sink>(&self, field: u32, sink: &mut S) {
        let mut length = Length::default();
        self.write_fields(&mut length);
        sink.head(field, length);
        self.write_fields(sink);
    }

    fn get(raw: Raw<'_>) -> Result<Self, HistoryError> {
        T::read_fields(raw.bytes()?)
    }
}

/// Makes structs messages. A field that is forgotten here does not compile.
macro_rules! message {
    ($($name:ident { $($number:literal $field:ident),* })*) => {$(
        impl Message for $name {
            #[allow(unused_variables)] // some have no fields
            fn write_fields<S: Sink>(&self, sink: &mut S) {
                let Self { $($field),* } = self;
                $(Field::write($field, $number, sink);)*
            }

            fn read_fields(message: &[u8]) -> Result<Self, HistoryError> {
                $(let mut $field = None;)*
                for found in Source::new(message) {
                    #[allow(clippy::match_single_binding, unused_variables)] // some have no fields
                    match found.map_err(|fault| HistoryError::from(fault).at(stringify!($name)))? {
                        $(($number, raw) => {
                            let read = Field::read($field.take(), raw);
                            $field = Some(read.map_err(|e| e.at(concat!(stringify!($name), ".", stringify!($field))))?);
                        })*
                        _ => {}
                    }
                }
                Ok(Self {
                    $($field: match $field {
                        Some(read) => read,
                        None => Field::absent().map_err(|e| e.at(concat!(stringify!($name), ".", stringify!($field))))?,
                    },)*
                })
            }
        }
    )*};
}
pub(super) use message;
