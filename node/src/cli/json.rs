//! JSON on its way to another format, with every number as it was written.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON text. Members keep their order; an integer beyond 128 bits becomes a text rather than another number.
pub(crate) struct Json<'a>(pub(crate) &'a str);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.trim();
        match text.as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(text).map_err(S::Error::custom)?;
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(&name, &Json(value.get()))?;
                }
                map.end()
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(S::Error::custom)?;
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Json(item.get()))?;
                }
                list.end()
            }
            Some(b'-' | b'0'..=b'9') => number(text, serializer),
            Some(b'n') => serializer.serialize_unit(),
            Some(b'"') => {
                let text: Cow<'_, str> = serde_json::from_str(text).map_err(S::Error::custom)?;
                serializer.serialize_str(&text)
            }
            _ => serializer.serialize_bool(serde_json::from_str(text).map_err(S::Error::custom)?),
        }
    }
}

fn number<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if let Ok(number) = text.parse() {
        return serializer.serialize_i64(number);
    }
    if let Ok(number) = text.parse() {
        return serializer.serialize_i128(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && text.contains(['.', 'e', 'E']) => serializer.serialize_f64(number),
        _ => serializer.serialize_str(text),
    }
}

/// The members of an object in their order, each as it was written.
///
/// # Errors
/// It is no object.
pub(crate) fn members(text: &str) -> serde_json::Result<Vec<(Cow<'_, str>, &RawValue)>> {
    serde_json::from_str(text).map(|Members(members)| members)
}

/// The members of an object in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn numbers_and_order_stay_as_they_were() {
        let text = r#"{"z":9007199254740993,"a":[18446744073709551616,-1,1.5,true,null,"é\n"],"m":{},"l":[]}"#;
        let yaml = serde_saphyr::to_string(&Json(text)).expect("YAML");
        assert_eq!(yaml.find("z: 9007199254740993"), Some(0), "{yaml}");
        for part in ["18446744073709551616", "1.5", "true", "null", "{}", "[]"] {
            assert!(yaml.contains(part), "{part} in {yaml}");
        }
    }
}
