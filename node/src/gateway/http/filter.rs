//! Which executions are wanted: the parameters of a list, and the `filter` of a batch.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use chrono::DateTime;
use orbit_actors::api::{ListExecutions, StatusWord};
use orbit_actors::error::{Code, Error, Result};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::number::Number;

/// What a filter may name; behind `attr.` stands the name of an attribute.
const NAMES: [&str; 9] =
    ["status", "workflow", "version", "since", "until", "attention", "limit", "cursor", "attr.NAME"];

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidRequest, message)
}

/// As it was written, read by [`Filter::request`].
#[derive(Debug, Default)]
pub(super) struct Filter {
    status: Option<String>,
    workflow: Option<String>,
    version: Option<String>,
    since: Option<String>,
    until: Option<String>,
    attention: Option<String>,
    attributes: BTreeMap<String, String>,
    pub(super) limit: Option<Number>,
    pub(super) cursor: Option<String>,
}

impl Filter {
    pub(super) fn request(self) -> Result<ListExecutions> {
        let attention = match self.attention.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(invalid(format!("`attention` is {other:?}; it is true or false"))),
        };
        Ok(ListExecutions {
            status: self.status.as_deref().map(status).transpose()?,
            workflow: self.workflow,
            version: self.version,
            since_ms: self.since.as_deref().map(|text| moment("since", text)).transpose()?,
            until_ms: self.until.as_deref().map(|text| moment("until", text)).transpose()?,
            attention,
            attributes: self.attributes,
            limit: 0,
            cursor: self.cursor,
        })
    }
}

/// The statuses of executions.
const STATUSES: [StatusWord; 7] = ["RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT", "CONTINUED"];

/// A status in any case.
pub(crate) fn status(text: &str) -> Result<StatusWord> {
    let known = STATUSES.into_iter().find(|known| known.eq_ignore_ascii_case(text));
    known.ok_or_else(|| invalid(format!("`status` is {text:?}; it is one of {}", STATUSES.join(", "))))
}

/// Milliseconds since 1970, or RFC 3339.
fn moment(field: &str, text: &str) -> Result<u64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text.parse().unwrap_or(u64::MAX));
    }
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| {
        invalid(format!("`{field}` is {text:?}; write ms since 1970, or a time such as 2026-01-31T12:00:00Z"))
    })?;
    Ok(u64::try_from(time.timestamp_millis()).unwrap_or(0))
}

/// By hand, for serde cannot both refuse what is unknown and take any name behind `attr.`.
impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Filter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("filters by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Filter, A::Error> {
        let mut filter = Filter::default();
        while let Some(name) = members.next_key::<String>()? {
            let taken = match name.as_str() {
                "status" => once(&mut filter.status, members.next_value::<Word>()?.0),
                "workflow" => once(&mut filter.workflow, members.next_value::<Word>()?.0),
                "version" => once(&mut filter.version, members.next_value::<Word>()?.0),
                "since" => once(&mut filter.since, members.next_value::<Word>()?.0),
                "until" => once(&mut filter.until, members.next_value::<Word>()?.0),
                "attention" => once(&mut filter.attention, members.next_value::<Word>()?.0),
                "limit" => once(&mut filter.limit, members.next_value()?),
                "cursor" => once(&mut filter.cursor, members.next_value::<Word>()?.0),
                other => {
                    let Some(attribute) = other.strip_prefix("attr.") else {
                        return Err(de::Error::unknown_field(other, &NAMES));
                    };
                    let value = members.next_value::<Word>()?.0;
                    match filter.attributes.entry(attribute.to_owned()) {
                        Entry::Occupied(_) => false,
                        Entry::Vacant(place) => {
                            place.insert(value);
                            true
                        }
                    }
                }
            };
            if !taken {
                return Err(de::Error::custom(format_args!("duplicate field `{name}`")));
            }
        }
        Ok(filter)
    }
}

/// Puts a value where none is yet; tells whether it could.
fn once<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

/// A text, or a JSON number or truth value as the text that a query would have for it.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordReader)
    }
}

struct WordReader;

impl Visitor<'_> for WordReader {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true or false")
    }

    fn visit_str<E>(self, text: &str) -> Result<Word, E> {
        Ok(Word(text.to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Word, E> {
        Ok(Word(value.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Word, E> {
        // With its exponent, and with `.0` where it is whole.
        Ok(Word(format!("{number:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::read;
    use super::*;

    fn filter(query: &str) -> Result<ListExecutions> {
        read::<Filter>(&format!("/v1/executions?{query}").parse().unwrap())?.request()
    }

    #[test]
    fn filters_are_read() {
        let times = "since=5&until=1970-01-01T00:00:01Z";
        let query = format!("status=running&workflow=w&version=1.0.0&{times}&attention=true&attr.who=a+b&attr.n=");
        let all = filter(&query);
        let expected = ListExecutions {
            status: Some("RUNNING"),
            workflow: Some("w".into()),
            version: Some("1.0.0".into()),
            since_ms: Some(5),
            until_ms: Some(1_000),
            attention: true,
            attributes: [("who".into(), "a b".into()), ("n".into(), "".into())].into(),
            ..ListExecutions::default()
        };
        assert_eq!(all, Ok(expected));
        let page = read::<Filter>(&"/x?limit=99999999999999999999999&cursor=c".parse().unwrap()).unwrap();
        assert_eq!((page.limit, page.cursor.as_deref()), (Some(Number(u64::MAX)), Some("c")));
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (query, name) in [
            ("status=asleep", "status"),
            ("since=yesterday", "since"),
            ("until=", "until"),
            ("attention=yes", "attention"),
            ("limit=-1", "limit"),
            ("limit=1.5", "limit"),
            ("limit=", "limit"),
            ("colour=red", "colour"),
            ("status=RUNNING&status=FAILED", "status"),
            ("attr.a=1&attr.b=1&attr.a=2", "`attr.a`"),
            ("attr=1", "attr.NAME"),
        ] {
            let error = filter(query).unwrap_err();
            assert!(error.code == Code::InvalidRequest && error.message.contains(name), "{query}: {error}");
        }
    }

    #[test]
    fn as_json_a_filter_may_have_numbers_and_truth_values() {
        let read = |text: &str| serde_json::from_str::<Filter>(text);
        let filter = read(r#"{"since": 5, "attention": true, "attr.n": -7, "attr.x": 1.5, "attr.w": "a"}"#).unwrap();
        let attributes = [("n", "-7"), ("w", "a"), ("x", "1.5")].map(|(name, value)| (name.into(), value.into()));
        let expected = ListExecutions {
            since_ms: Some(5),
            attention: true,
            attributes: attributes.into(),
            ..ListExecutions::default()
        };
        assert_eq!(filter.request(), Ok(expected));
        for (text, said) in [
            (r#"{"status": null}"#, "a text, a number"),
            (r#"{"attr.a": [1]}"#, "a text, a number"),
            (r#"{"attr.a": 1, "attr.a": 1}"#, "`attr.a`"),
            (r#"["status"]"#, "filters by their names"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
