//! Speaks to a node over HTTP, on behalf of one who calls commands.
//!
//! - [`error`]: why a call gave nothing, and what is known about what it did
//! - [`call`]: one request
//! - [`patience`]: when a call is made again
//! - [`answers`]: what nodes answer
//!
//! A call is repeated while that cannot do harm and the time for it is not over: always when the node was not reached
//! or says that it did nothing, otherwise only when repeating it is the same as having been called once.

use std::time::Duration;

use reqwest::Url;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

pub(crate) mod answers;
mod call;
mod error;
mod patience;

pub(crate) use call::{Call, Harm};
pub(crate) use error::{Error, Refusal};
pub(crate) use patience::Patience;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// An answer beyond this is none of a node.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A node, or whatever stands before several.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
    retry_for: Duration,
}

/// What a node answered: JSON, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    /// What it says.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.text).map_err(|error| Error::NotUnderstood { why: error.to_string() })
    }
}

impl Client {
    /// `address`: `http://host:port`, also without `http://`.
    pub(crate) fn new(address: &str, token: Option<String>, retry_for: Duration) -> Result<Self, Error> {
        let bad = |why: &str| Error::Address { address: address.to_owned(), why: why.to_owned() };
        let full = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let base = Url::parse(&full).map_err(|error| bad(&error.to_string()))?;
        if base.scheme() != "http" || base.cannot_be_a_base() || !base.has_host() {
            return Err(bad("only http:// is spoken"));
        }
        // A proxy of the environment is for the outside world, not for a node.
        let http = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT).build();
        Ok(Self { http: http.map_err(|error| bad(&error.to_string()))?, base, token, retry_for })
    }

    /// Makes a call, again and again as far as that is harmless and there is time.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, Error> {
        let mut patience = Patience::new(Instant::now() + self.retry_for);
        // Once a try may have done something, a later one that did nothing does not make it undone.
        let mut doubt = None;
        loop {
            let error = match self.once(call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let again =
                if error.did_nothing() { error.may_pass() } else { call.harm == Harm::None && error.may_pass() };
            if !error.did_nothing() && !call.is_read() {
                doubt = Some(error.clone());
            }
            if !again || !patience.wait(error.retry_after()).await {
                return Err(match doubt {
                    Some(doubt) if error.may_pass() => doubt,
                    _ => error,
                });
            }
        }
    }

    /// Makes a call once.
    pub(crate) async fn once(&self, call: &Call) -> Result<Answer, Error> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(&call.path);
        }
        let mut request = self.http.request(call.method.clone(), url).timeout(call.timeout).query(&call.query);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some((media_type, body)) = &call.body {
            request = request.header("content-type", *media_type).body(body.clone());
        }
        let mut response = request.send().await.map_err(|error| self.broken(&error, call))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error, call))? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Error::NotUnderstood { why: "the answer has no end".to_owned() });
            }
            body.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        if status.is_success() {
            return Ok(Answer { status: status.as_u16(), text });
        }
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after = header("retry-after").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        Err(match Refusal::read(text, retry_after) {
            Some(refusal) => Error::from(refusal),
            None => Error::Foreign { address: self.address(), status: status.as_u16() },
        })
    }

    /// What a request that got no answer means.
    fn broken(&self, error: &reqwest::Error, call: &Call) -> Error {
        let (address, why) = (self.address(), innermost(error));
        if error.is_connect() || error.is_builder() {
            Error::Unreachable { address, why }
        } else if call.is_read() {
            Error::Silent { address, why }
        } else {
            Error::OutcomeUnknown { message: format!("{address} did not answer: {why}"), execution_id: None }
        }
    }

    fn address(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }
}

/// The sentence of the cause that all others wrap.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
