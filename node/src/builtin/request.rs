//! What a document asks for, read into what can be sent (L13). Whatever an author or an input may have written is
//! refused here if it would be more than a request: another protocol, a second request in a header, a host that the
//! connection does not go to.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use orbit_actors::api::Task;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;
use workflow::expression::text::parse_duration_ms;

use super::failure::Failure;
use super::secret::is_name;

/// How long a request may take when neither it nor its step says so.
const TIMEOUT: Duration = Duration::from_secs(30);
/// … and at most.
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// Longest URL.
const URL_BYTES_MAX: usize = 8 << 10;
/// Most headers, and their bytes in all.
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: usize = 32 << 10;
/// Most statuses in `accept`.
const ACCEPT_MAX: usize = 100;

const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Headers that say where one message ends and the next begins, whom it is for, or what only Orbit knows.
const RESERVED: [&str; 13] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "idempotency-key",
    "traceparent",
];

/// `input` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input<'i> {
    method: String,
    url: String,
    #[serde(default)]
    headers: Option<BTreeMap<String, Value>>,
    #[serde(default, borrow)]
    body: Option<&'i RawValue>,
    #[serde(default)]
    query: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    timeout: Option<Value>,
    #[serde(default)]
    accept: Option<Vec<u16>>,
}

/// A request that can be sent, but for its secrets.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: Url,
    /// Without secrets.
    pub(super) headers: HeaderMap,
    /// Headers by the names of their secrets.
    pub(super) secrets: Vec<(HeaderName, String)>,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
    /// Statuses that are no failure, and redirects that are not followed.
    pub(super) accept: Vec<u16>,
}

impl Call {
    /// Reads the input of a task.
    pub(super) fn of(task: &Task) -> Result<Self, Failure> {
        let input: Input<'_> = serde_json::from_str(task.input.as_str())
            .map_err(|error| Failure::input(format!("the input of orbit.http.request: {error}")))?;
        let method = method(&input.method)?;
        let url = url(&input.url, input.query.unwrap_or_default())?;
        let (mut headers, secrets) = headers(input.headers.unwrap_or_default())?;
        let body = body(input.body, &mut headers, secrets.iter().any(|(name, _)| *name == header::CONTENT_TYPE))?;
        let named = |value: &str| HeaderValue::from_str(value).ok();
        headers.extend(named(&task.idempotency_key).map(|key| (IDEMPOTENCY_KEY, key)));
        headers.extend(task.traceparent.as_deref().and_then(named).map(|parent| (TRACEPARENT, parent)));
        headers
            .entry(header::USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("orbit/", env!("CARGO_PKG_VERSION"))));
        // The engine ends the attempt at its own time-out; without one of its own the request has as long.
        let by_step = task.timeout_ms.map_or(TIMEOUT, |_| TIMEOUT_MAX);
        let timeout = input.timeout.map(|value| timeout(&value)).transpose()?.unwrap_or(by_step);
        let accept = input.accept.unwrap_or_default();
        let is_status = |status: &u16| (300..600).contains(status);
        if accept.len() > ACCEPT_MAX || !accept.iter().all(is_status) {
            return Err(Failure::input("`accept` lists statuses from 300 to 599, at most a hundred"));
        }
        Ok(Self { method, url, headers, secrets, body, timeout, accept })
    }

    /// Whether a status ends well.
    pub(super) fn accepts(&self, status: StatusCode) -> bool {
        status.as_u16() < 400 || self.accept.contains(&status.as_u16())
    }
}

fn method(text: &str) -> Result<Method, Failure> {
    let known = METHODS.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(text));
    known.ok_or_else(|| {
        Failure::input(format!("`method` is {text:?}; one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS is needed"))
    })
}

fn url(text: &str, query: BTreeMap<String, Value>) -> Result<Url, Failure> {
    let mut url = Url::parse(text).map_err(|error| Failure::input(format!("`url` is no URL: {error}")))?;
    {
        let mut pairs = url.query_pairs_mut();
        for (name, value) in &query {
            let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for value in values.iter().filter(|value| !value.is_null()) {
                let value = scalar(value).ok_or_else(|| {
                    Failure::input(format!("`query.{name}` is no text, number or boolean, and no list of them"))
                })?;
                pairs.append_pair(name, &value);
            }
        }
    }
    if url.query() == Some("") {
        url.set_query(None);
    }
    url.set_fragment(None);
    check(&url).map_err(|fault| Failure::input(format!("`url` {fault}")))?;
    Ok(url)
}

/// Whether a URL may be asked at all, also one of a redirect.
pub(super) fn check(url: &Url) -> Result<Uri, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("begins with {}:, not with http: or https:", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user or a password, which would be recorded; send them as a secret header".to_owned());
    }
    if url.port() == Some(0) || url.host().is_none() {
        return Err("has no host and port".to_owned());
    }
    if url.as_str().len() > URL_BYTES_MAX {
        return Err(format!("is longer than {URL_BYTES_MAX} bytes"));
    }
    url.as_str().parse().map_err(|error| format!("cannot be sent: {error}"))
}

type Headers = (HeaderMap, Vec<(HeaderName, String)>);

fn headers(written: BTreeMap<String, Value>) -> Result<Headers, Failure> {
    let (mut headers, mut secrets) = (HeaderMap::new(), Vec::new());
    let mut bytes = 0;
    for (text, value) in &written {
        let name = HeaderName::from_bytes(text.as_bytes())
            .map_err(|_| Failure::input(format!("`headers` has {text:?}, which is no name of a header")))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(Failure::input(format!("`headers.{text}` is set by Orbit itself; leave it out")));
        }
        if headers.contains_key(&name) || secrets.iter().any(|(known, _)| *known == name) {
            return Err(Failure::input(format!("`headers.{text}` is written twice, in upper and lower case")));
        }
        bytes += text.len();
        match value {
            Value::Null => {}
            Value::Object(object) => match (object.len(), object.get("secret").and_then(Value::as_str)) {
                (1, Some(secret)) if is_name(secret) => secrets.push((name, secret.to_owned())),
                _ => {
                    let message = format!("`headers.{text}` is neither a text nor {{secret: NAME}}");
                    return Err(Failure::input(message));
                }
            },
            value => {
                let line = scalar(value).and_then(|value| HeaderValue::from_str(&value).ok());
                let line = line.ok_or_else(|| {
                    Failure::input(format!("`headers.{text}` is no single line of text and no {{secret: NAME}}"))
                })?;
                bytes += line.len();
                headers.insert(name, line);
            }
        }
    }
    if written.len() > HEADERS_MAX || bytes > HEADER_BYTES_MAX {
        let message = format!("`headers` has more than {HEADERS_MAX} entries or {HEADER_BYTES_MAX} bytes");
        return Err(Failure::input(message));
    }
    Ok((headers, secrets))
}

/// A text as it is, everything else as JSON, each with its type unless the author names one.
fn body(raw: Option<&RawValue>, headers: &mut HeaderMap, has_type: bool) -> Result<Bytes, Failure> {
    let (media_type, body) = match raw.map(RawValue::get) {
        None | Some("null") => return Ok(Bytes::new()),
        Some(text) if text.starts_with('"') => {
            let text = serde_json::from_str::<String>(text).map_err(|error| Failure::input(error.to_string()))?;
            ("text/plain; charset=utf-8", text.into())
        }
        Some(json) => ("application/json", Bytes::copy_from_slice(json.as_bytes())),
    };
    if !has_type {
        headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static(media_type));
    }
    Ok(body)
}

fn timeout(value: &Value) -> Result<Duration, Failure> {
    let ms = value.as_u64().or_else(|| value.as_str().and_then(parse_duration_ms));
    match ms.map(Duration::from_millis) {
        Some(timeout) if !timeout.is_zero() && timeout <= TIMEOUT_MAX => Ok(timeout),
        _ => Err(Failure::input("`timeout` is a duration such as 5s, or a number of ms, and at most 1h")),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
#[path = "request_test.rs"]
mod tests;
