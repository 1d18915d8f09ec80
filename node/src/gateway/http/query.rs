//! What may stand behind the question mark. What is not named here is refused.

use axum::extract::Query;
use axum::http::Uri;
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
