//! What bodies and payloads must look like.

use std::collections::HashSet;
use std::fmt;

use orbit_actors::error::{Code, Error, Result};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use workflow::value::Payload;

/// Reads a body that must be one JSON object.
pub(super) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Err(Error::new(Code::InvalidRequest, "the body is no JSON object"));
    }
    any(body)
}

/// Reads a body of any JSON.
pub(super) fn any<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let invalid = |error| Error::new(Code::InvalidRequest, format!("the body is not as expected: {error}"));
    serde_json::from_slice(body).map_err(invalid)
}

/// A payload of a client: kept byte for byte, and refused where two readers could understand it differently.
#[derive(Debug)]
pub(super) struct Input(pub(super) Payload);

impl Default for Input {
    fn default() -> Self {
        Self(Payload::parse("{}").unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        // First for its bounded depth.
        let payload = Payload::parse(raw.get()).map_err(de::Error::custom)?;
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        Unambiguous.deserialize(&mut reader).map_err(de::Error::custom)?;
        Ok(Self(payload))
    }
}

/// A payload that may be left out. Not an option of it: there `null` would be as if nothing was said.
pub(super) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Input::deserialize(deserializer).map(|Input(payload)| Some(payload))
}

/// Reads any JSON in which no object names a key twice.
struct Unambiguous;

impl<'de> DeserializeSeed<'de> for Unambiguous {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unambiguous {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Unambiguous)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = items.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(de::Error::custom(format_args!("the key {key:?} stands twice in one object")));
            }
            seen.insert(key);
            items.next_value_seed(Unambiguous)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(default)]
        input: Input,
    }

    fn refused(body: &str) -> String {
        let error = object::<Body>(body.as_bytes()).unwrap_err();
        assert_eq!(error.code, Code::InvalidRequest);
        error.message
    }

    #[test]
    fn a_payload_passes_bit_for_bit() {
        let text = r#"{ "n": 9007199254740993, "d": 1.10, "e": 1e2 }"#;
        let body: Body = object(format!(r#"{{"input": {text}}}"#).as_bytes()).unwrap();
        assert_eq!(body.input.0.as_str(), text);
        assert_eq!(object::<Body>(b"{}").unwrap().input.0.as_str(), "{}");
        assert_eq!(object::<Body>(br#"{"input": null}"#).unwrap().input.0.as_str(), "null");
    }

    #[test]
    fn a_body_may_be_a_payload_itself() {
        for text in ["null", "\"a\"", "9007199254740993", "[1.10]", "{ \"a\": 1e2 }"] {
            assert_eq!(any::<Input>(format!(" {text}\n").as_bytes()).unwrap().0.as_str(), text);
        }
        for text in ["1 2", "{\"a\": 1, \"a\": 2}", "nul", "", "1e999"] {
            assert_eq!(any::<Input>(text.as_bytes()).unwrap_err().code, Code::InvalidRequest, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_or_not_clear_is_refused() {
        assert!(refused("[1]").contains("no JSON object"));
        assert!(refused("").contains("no JSON object"));
        assert!(refused("{\"colour\": 1}").contains("unknown field `colour`"));
        assert!(refused("{\"input\": 1, \"input\": 2}").contains("duplicate field `input`"));
        assert!(refused("{\"input\": {\"a\": [{\"b\": 1, \"b\": 2}]}}").contains("\"b\" stands twice"));
        assert!(refused(&format!("{{\"input\": {}}}", "[".repeat(100_000))).contains("expected"), "cut off");
        let deep = format!("{{\"input\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(refused(&deep).contains("recursion limit"));
        assert!(refused("{\"input\": 1e999}").contains("number out of range"));
        assert!(refused("{} {}").contains("trailing"));
    }
}
