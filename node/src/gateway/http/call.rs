//! A request as operations see it, with its body read.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use orbit_actors::error::{Code, Error, Result};
use serde::de::DeserializeOwned;
use workflow::document::Format;
use workflow::value::Payload;

use super::json::Input;
use super::route::{Operation, Route, Takes};
use super::{json, query};
use crate::gateway::service::Limits;

/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// How much of a body that is too long is taken in and dropped, as a multiple of what is allowed: who is cut off in the
/// middle of sending may never see the answer.
const DROPPED_MAX: usize = 4;

/// A request whose body is read.
pub(super) struct Call {
    operation: Operation,
    parts: Parts,
    path: Vec<(String, String)>,
    body: Bytes,
    format: Format,
}

impl Call {
    /// Reads the body, if the route takes one.
    pub(super) async fn read(
        route: Route,
        path: Result<RawPathParams, RawPathParamsRejection>,
        request: Request,
        limits: Limits,
    ) -> Result<Self> {
        let path = path.map_err(|_| Error::new(Code::InvalidRequest, "the path is not UTF-8 behind its %-signs"))?;
        let mut path: Vec<_> = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut route = route;
        if let Some((_, last)) = path.last_mut() {
            let (found, name) = route.behind(last);
            (route, *last) = (found, name.to_owned());
        }
        let (parts, body) = request.into_parts();
        let mut call = Self { operation: route.operation, parts, path, body: Bytes::new(), format: Format::Json };
        if route.takes != Takes::Nothing {
            call.body = read_body(&call.parts.headers, body, limits.request_bytes_max).await?;
            // An absent body is `{}` and needs no media type.
            if !call.body.is_empty() {
                call.format = format(&call.parts.headers, route.takes)?;
            }
        }
        Ok(call)
    }

    /// What is asked for.
    pub(super) fn operation(&self) -> Operation {
        self.operation
    }

    /// A part of the path.
    pub(super) fn path(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// What stands behind the question mark. Every operation asks for it, be it to hear that nothing does.
    pub(super) fn query<T: DeserializeOwned>(&self) -> Result<T> {
        query::read(&self.parts.uri)
    }

    /// The body as a JSON object.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        json::object(if self.body.is_empty() { b"{}" } else { &self.body })
    }

    /// The body as a payload.
    pub(super) fn payload(&self) -> Result<Payload> {
        if self.body.is_empty() {
            return Ok(Input::default().0);
        }
        json::any(&self.body).map(|Input(payload)| payload)
    }

    /// The body as a source of workflows.
    pub(super) fn source(&self) -> Result<(&str, Format)> {
        if self.body.is_empty() {
            return Ok(("{}", Format::Json));
        }
        let text = std::str::from_utf8(&self.body);
        let text = text.map_err(|error| {
            Error::new(Code::InvalidRequest, format!("the body is not UTF-8 from byte {} on", error.valid_up_to()))
        })?;
        Ok((text, self.format))
    }

    /// The caller's trace context, if it is one.
    pub(super) fn traceparent(&self) -> Option<String> {
        let text = self.parts.headers.get("traceparent")?.to_str().ok()?;
        (text.len() == 55 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')).then(|| text.to_owned())
    }
}

async fn read_body(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<Bytes> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Error::new(Code::UnsupportedMediaType, "the body is compressed; send it as it is"));
    }
    let too_large = || {
        Error::new(
            Code::PayloadTooLarge,
            format!("a request has at most {bytes_max} bytes; store large data elsewhere"),
        )
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > bytes_max * DROPPED_MAX) {
        return Err(too_large());
    }
    let read = async {
        let mut body = Limited::new(body, bytes_max * DROPPED_MAX);
        let (mut taken, mut length) = (Vec::new(), 0_usize);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    return too_large();
                }
                Error::new(Code::InvalidRequest, "the body did not arrive as a whole; send it again")
            })?;
            if let Ok(data) = frame.into_data() {
                length += data.len();
                if length <= bytes_max {
                    taken.extend_from_slice(&data);
                } else {
                    taken = Vec::new();
                }
            }
        }
        if length > bytes_max { Err(too_large()) } else { Ok(Bytes::from(taken)) }
    };
    let late = |_| Error::new(Code::InvalidRequest, "the body took too long to arrive; send it again");
    tokio::time::timeout(BODY_TIME_MAX, read).await.map_err(late)?
}

fn format(headers: &HeaderMap, takes: Takes) -> Result<Format> {
    let written = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = written.split(';').map(|part| part.trim().to_ascii_lowercase());
    let essence = parts.next().unwrap_or_default();
    let utf8 = parts.all(|parameter| match parameter.strip_prefix("charset=") {
        Some(charset) => matches!(charset.trim_matches('"'), "utf-8" | "utf8"),
        None => true,
    });
    match (essence.as_str(), takes) {
        ("application/json", _) if utf8 => Ok(Format::Json),
        ("application/yaml", Takes::Document) if utf8 => Ok(Format::Yaml),
        _ => {
            let expected = match takes {
                Takes::Document => "application/yaml or application/json",
                _ => "application/json",
            };
            let message = format!("the content-type is {written:?}; send {expected} in UTF-8");
            Err(Error::new(Code::UnsupportedMediaType, message))
        }
    }
}
