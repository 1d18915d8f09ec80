//! What may stand behind the question mark. What is not named here is refused.

use axum::extract::Query;
use axum::http::Uri;
use chrono::DateTime;
use orbit_actors::api::{ListExecutions, StatusWord};
use orbit_actors::error::{Code, Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::number::Number;

pub(super) fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T> {
    let read = Query::try_from_uri(uri).map(|Query(query)| query);
    read.map_err(|rejection| invalid(rejection.body_text()))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidRequest, message)
}

/// Nothing at all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    form: Option<String>,
}

impl Form {
    /// Whether the author's text is wanted.
    pub(super) fn is_source(&self) -> Result<bool> {
        match self.form.as_deref() {
            None | Some("ir") => Ok(false),
            Some("source") => Ok(true),
            Some(other) => Err(invalid(format!("`form` is {other:?}; it is `ir` or `source`"))),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    run: Option<Number>,
}

impl Run {
    pub(super) fn number(&self) -> Option<u32> {
        self.run.map(Number::small)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Units {
    pub(super) run: Option<Number>,
    #[serde(default)]
    pub(super) prefix: String,
    pub(super) cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    pub(super) run: Option<Number>,
    pub(super) from: Option<Number>,
    pub(super) limit: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    pub(super) timeout_ms: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dedup {
    pub(super) dedup_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    pub(super) wait_ms: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    status: Option<String>,
    workflow: Option<String>,
    version: Option<String>,
    since: Option<String>,
    until: Option<String>,
    attention: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(query: &str) -> Result<ListExecutions> {
        read::<Filter>(&format!("/v1/executions?{query}").parse().unwrap())?.request()
    }

    #[test]
    fn filters_are_read() {
        let all = filter("status=running&workflow=w&version=1.0.0&since=5&until=1970-01-01T00:00:01Z&attention=true");
        let expected = ListExecutions {
            status: Some("RUNNING"),
            workflow: Some("w".into()),
            version: Some("1.0.0".into()),
            since_ms: Some(5),
            until_ms: Some(1_000),
            attention: true,
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
        ] {
            let error = filter(query).unwrap_err();
            assert!(error.code == Code::InvalidRequest && error.message.contains(name), "{query}: {error}");
        }
    }
}
