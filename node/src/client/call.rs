//! One request.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use serde::Serialize;

/// How long an answer may take, unless the call says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a call does when it is made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The same as when it is made once.
    None,
    /// Possibly more.
    Possible,
}

/// A request to a node.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(super) method: Method,
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(Cow<'static, str>, String)>,
    pub(super) body: Option<(&'static str, Bytes)>,
    pub(super) harm: Harm,
    pub(super) timeout: Duration,
}

impl Call {
    fn new<'a>(method: Method, path: impl IntoIterator<Item = &'a str>, harm: Harm) -> Self {
        let path = path.into_iter().map(str::to_owned).collect();
        Self { method, path, query: Vec::new(), body: None, harm, timeout: TIMEOUT }
    }

    /// Asks for something. Each segment of the path is written so that it stays one.
    pub(crate) fn get<'a>(path: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(Method::GET, path, Harm::None)
    }

    /// Changes something.
    pub(crate) fn post<'a>(path: impl IntoIterator<Item = &'a str>, harm: Harm) -> Self {
        Self::new(Method::POST, path, harm)
    }

    /// Removes something. A second time it is not there any more, so this is not repeated blindly.
    pub(crate) fn delete<'a>(path: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(Method::DELETE, path, Harm::Possible)
    }

    /// Adds a parameter if there is a value for it.
    pub(crate) fn query(mut self, name: impl Into<Cow<'static, str>>, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name.into(), value.to_string())));
        self
    }

    /// With a body.
    pub(crate) fn body(mut self, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.body = Some((media_type, body.into()));
        self
    }

    /// With a body of JSON.
    pub(crate) fn json(self, body: &impl Serialize) -> Self {
        // What is sent are structures with text as keys: nothing that could fail.
        self.body("application/json", serde_json::to_vec(body).unwrap_or_default())
    }

    /// The answer may take this long.
    pub(crate) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether it changes nothing.
    pub(super) fn is_read(&self) -> bool {
        self.method == Method::GET
    }
}
