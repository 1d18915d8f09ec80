//! What an answer means: an output, or a failure and whether another try may help (L13).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use workflow::event::TaskError;
use workflow::value::Payload;

use super::exchange::Answer;
use super::failure::Failure;
use super::request::Call;
use super::secret::Redactor;

/// An answer as it is recorded.
#[derive(Serialize)]
struct Record<'a> {
    status: u16,
    headers: &'a BTreeMap<String, String>,
    body: &'a RawValue,
    /// How a body that is no text is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    /// The body is longer than what is kept of a failure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    body_omitted: bool,
    /// How long the server asked not to be asked again; the engine waits for it before the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// What became of a call that was answered. `now` is for a server that names a time and does not say what time it is.
pub(super) fn outcome(answer: &Answer, call: &Call, redactor: &Redactor, now: SystemTime) -> Result<Payload, Failure> {
    let failed = !call.accepts(answer.status) || answer.too_many_redirects;
    let body = answer.body.as_deref().map(|body| redactor.bytes(body));
    if body.is_none() && !failed {
        let message = format!("{} answered {} with a body that is longer than a payload", short(call), answer.status);
        return Err(Failure::too_large(message));
    }
    let retryable = failed && is_retryable(answer.status);
    let retry_after_ms = if retryable { retry_after_ms(&answer.headers, now) } else { None };
    let headers = answer.headers.iter().map(|(name, value)| (name.clone(), redactor.text(value))).collect();
    let record = |json: bool| {
        let (body, encoding) = written(body.as_deref().unwrap_or_default(), json, redactor)?;
        let body_omitted = answer.body.is_none();
        let status = answer.status.as_u16();
        let record = Record { status, headers: &headers, body: &body, encoding, body_omitted, retry_after_ms };
        Payload::parse(&serde_json::to_string(&record).ok()?).ok()
    };
    // JSON that is deeper than a payload may be is kept as a text.
    let recorded = record(is_json(&answer.headers)).or_else(|| record(false)).unwrap_or_default();
    if !failed {
        return Ok(recorded);
    }
    let leads_on = if answer.too_many_redirects { ", and leads on too often" } else { "" };
    let message = format!("{} answered {}{leads_on}", short(call), answer.status);
    let error = TaskError { code: "HTTP_ERROR".to_owned(), message, retryable, details: Some(recorded) };
    Err(Failure { error, unknown: false })
}

/// The call without what may be private in it.
fn short(call: &Call) -> String {
    let mut url = call.url.clone();
    url.set_query(None);
    format!("{} {url}", call.method)
}

fn is_retryable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error()
}

/// A body as JSON, if it is to be and is; otherwise as a text, or what is no text in base64.
fn written(body: &[u8], json: bool, redactor: &Redactor) -> Option<(Box<RawValue>, Option<&'static str>)> {
    if body.is_empty() {
        return Some((to_raw_value(&()).ok()?, None));
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return Some((to_raw_value(&STANDARD.encode(body)).ok()?, Some("base64")));
    };
    let text = redactor.strings(text.strip_prefix('\u{feff}').unwrap_or(text));
    let parsed = if json { serde_json::from_str::<Box<RawValue>>(&text).ok() } else { None };
    Some((parsed.map_or_else(|| to_raw_value(&text).ok(), Some)?, None))
}

fn is_json(headers: &BTreeMap<String, String>) -> bool {
    let media_type = headers.get("content-type").map_or("", |value| value.split(';').next().unwrap_or_default());
    let media_type = media_type.trim().to_ascii_lowercase();
    media_type.ends_with("/json") || media_type.ends_with("+json")
}

/// `Retry-After`: seconds, or a time by the clock of the server, which `Date` tells.
fn retry_after_ms(headers: &BTreeMap<String, String>, now: SystemTime) -> Option<u64> {
    let text = headers.get("retry-after")?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok().map(|seconds| seconds.saturating_mul(1_000).min(i64::MAX as u64));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let now = headers.get("date").and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    let wait = at.duration_since(now).unwrap_or(Duration::ZERO);
    u64::try_from(wait.as_millis()).ok()
}

#[cfg(test)]
#[path = "response_test.rs"]
mod tests;
