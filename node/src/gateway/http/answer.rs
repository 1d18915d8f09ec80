//! Answers and errors.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use orbit_actors::error::{Code, Error, Result};
use serde::Serialize;
use serde_json::Value;

use crate::gateway::status::{self, RETRY_AFTER_SECONDS};

#[derive(Serialize)]
struct Envelope<'a> {
    error: Inside<'a>,
}

#[derive(Serialize)]
struct Inside<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Value>,
}

/// An error as an answer.
pub(crate) fn refusal(error: &Error) -> Response {
    let inside = Inside { code: error.code.as_str(), message: &error.message, details: error.details.as_deref() };
    // Texts and JSON values can always be written.
    let text = serde_json::to_vec(&Envelope { error: inside }).unwrap_or_default();
    let mut response = raw(status::http(error.code), "application/json", text);
    if error.code == Code::Overloaded {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
    }
    response
}

/// A value as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response> {
    let text = serde_json::to_vec(value)
        .map_err(|error| Error::new(Code::Internal, format!("the answer cannot be written: {error}")))?;
    Ok(raw(status, "application/json", text))
}

/// A text of some media type.
pub(super) fn raw(status: StatusCode, media_type: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// No content.
pub(super) fn empty() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
