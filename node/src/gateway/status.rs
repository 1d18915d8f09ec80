//! What a code is in HTTP and in gRPC.

use axum::http::StatusCode;
use orbit_actors::error::Code;
use tonic::Code as Grpc;

/// After how many seconds to try again what was refused for load.
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// Both statuses of a code.
fn row(code: Code) -> (StatusCode, Grpc) {
    match code {
        Code::InvalidRequest
        | Code::InvalidIr
        | Code::InvalidInput
        | Code::InvalidExecutionId
        | Code::InvalidSignal
        | Code::ReservedTask => (StatusCode::BAD_REQUEST, Grpc::InvalidArgument),
        Code::ChildNotRegistered => (StatusCode::BAD_REQUEST, Grpc::FailedPrecondition),
        Code::Unauthenticated => (StatusCode::UNAUTHORIZED, Grpc::Unauthenticated),
        Code::Forbidden => (StatusCode::FORBIDDEN, Grpc::PermissionDenied),
        Code::NotFound | Code::WorkflowNotFound | Code::UnknownSession | Code::UnknownSignal | Code::UnknownQuery => {
            (StatusCode::NOT_FOUND, Grpc::NotFound)
        }
        Code::DefinitionConflict | Code::ExecutionExists | Code::ClusterExists | Code::DedupConflict => {
            (StatusCode::CONFLICT, Grpc::AlreadyExists)
        }
        Code::ClusterFormat | Code::ExecutionFinished | Code::ExecutionRunning | Code::NotRedrivable => {
            (StatusCode::CONFLICT, Grpc::FailedPrecondition)
        }
        Code::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, Grpc::Unimplemented),
        Code::PayloadTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, Grpc::OutOfRange),
        Code::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Grpc::InvalidArgument),
        Code::ExpressionError => (StatusCode::UNPROCESSABLE_ENTITY, Grpc::FailedPrecondition),
        Code::Overloaded => (StatusCode::TOO_MANY_REQUESTS, Grpc::ResourceExhausted),
        Code::Internal | Code::StorageError => (StatusCode::INTERNAL_SERVER_ERROR, Grpc::Internal),
        Code::NoLeader => (StatusCode::SERVICE_UNAVAILABLE, Grpc::Unavailable),
        // Not `Unavailable`: libraries repeat that by themselves, and this must not be repeated without an id.
        Code::OutcomeUnknown => (StatusCode::SERVICE_UNAVAILABLE, Grpc::Unknown),
    }
}

/// The status of a code in HTTP.
#[must_use]
pub fn http(code: Code) -> StatusCode {
    row(code).0
}

/// The status of a code in gRPC.
#[must_use]
pub fn grpc(code: Code) -> Grpc {
    row(code).1
}
