//! Errors with their code in `google.rpc.ErrorInfo` and in metadata.

use std::collections::HashMap;
use std::time::Duration;

use axum::response::Response;
use orbit_actors::error::{Code, Error};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code as Grpc, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::gateway::status::{RETRY_AFTER_SECONDS, grpc};

/// Where the code stands in metadata.
const CODE: &str = "orbit-error-code";
/// Whose codes these are.
const DOMAIN: &str = "orbit";
/// Statuses travel in headers, which have little room.
const MESSAGE_BYTES_MAX: usize = 2_048;
const DETAILS_BYTES_MAX: usize = 3_072;

/// An error as a status.
pub(super) fn status(error: &Error) -> Status {
    build(grpc(error.code), error)
}

fn build(code: Grpc, error: &Error) -> Status {
    let mut information = HashMap::new();
    if let Some(text) = error.details.as_ref().map(ToString::to_string).filter(|text| text.len() <= DETAILS_BYTES_MAX) {
        information.insert("details".to_owned(), text);
    }
    let mut details = ErrorDetails::new();
    details.set_error_info(error.code.as_str(), DOMAIN, information);
    if error.code == Code::Overloaded {
        details.set_retry_info(Some(Duration::from_secs(RETRY_AFTER_SECONDS)));
    }
    let mut metadata = MetadataMap::new();
    metadata.insert(CODE, MetadataValue::from_static(error.code.as_str()));
    Status::with_error_details_and_metadata(code, cut(&error.message), details, metadata)
}

fn cut(message: &str) -> String {
    match message.char_indices().find(|(at, _)| *at >= MESSAGE_BYTES_MAX) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}

/// Gives an answer that ends with an error of the library below — a frame that is none, a method that is not there —
/// the form that our own errors have.
pub(super) fn coded(response: Response) -> Response {
    match Status::from_header_map(response.headers()) {
        Some(below) if below.code() != Grpc::Ok && !response.headers().contains_key(CODE) => {
            from_below(&below).into_http()
        }
        _ => response,
    }
}

/// An error of the library below as one of ours.
pub(super) fn from_below(below: &Status) -> Status {
    if below.metadata().contains_key(CODE) {
        return below.clone();
    }
    let message = below.message();
    let (code, message) = match below.code() {
        Grpc::Unimplemented if message.is_empty() => (Code::MethodNotAllowed, "there is no such method".to_owned()),
        Grpc::Unimplemented => (Code::UnsupportedMediaType, format!("the message cannot be read: {message}")),
        Grpc::OutOfRange | Grpc::ResourceExhausted => {
            (Code::PayloadTooLarge, format!("the message is too large: {message}"))
        }
        Grpc::Cancelled => (Code::InvalidRequest, "the call was given up".to_owned()),
        // Nothing of ours answers without a code; so it is the library, and it speaks of what it was sent.
        _ => (Code::InvalidRequest, format!("the message cannot be read: {message}")),
    };
    status(&Error::new(code, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_code_stands_in_both_places() {
        let error = Error::new(Code::Overloaded, "later").with_details(json!({"a": 1}));
        let status = status(&error);
        assert_eq!(status.code(), Grpc::ResourceExhausted);
        assert_eq!(status.metadata().get(CODE).unwrap(), "OVERLOADED");
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("OVERLOADED", "orbit"));
        assert_eq!(info.metadata["details"], "{\"a\":1}");
        assert!(details.retry_info().is_some());
    }

    #[test]
    fn what_does_not_fit_into_headers_is_left_out() {
        let long = "ä".repeat(10_000);
        let error = Error::new(Code::InvalidIr, long.clone()).with_details(json!({"faults": long}));
        let status = status(&error);
        assert!(status.message().len() <= MESSAGE_BYTES_MAX + 4);
        assert!(status.get_error_details().error_info().unwrap().metadata.is_empty());
    }
}
