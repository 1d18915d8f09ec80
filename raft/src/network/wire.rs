//! Requests and answers of the consensus library as messages, converted by hand.

use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use orbit_proto::{peer, store};
use prost::Message;

use super::Error;
use crate::clock::{Reading, micros};
use crate::consensus::{
    RaftEntry, RaftLogId, RaftVote, Runtime, Types, entry_in, entry_out, log_id_in, log_id_out, vote_in, vote_out,
};
use crate::types::NodeId;

fn missing(what: &str) -> Error {
    Error::Protocol(format!("{what} is missing"))
}

/// Reads a message.
pub(super) fn read<M: Message + Default>(body: Bytes) -> Result<M, Error> {
    M::decode(body).map_err(|e| Error::Protocol(e.to_string()))
}

/// What the wall clock of this node says.
pub(super) fn clock_out(now: Reading) -> Bytes {
    peer::ClockReply { wall_us: micros(now.wall) }.encode_to_vec().into()
}

fn vote(vote: Option<store::Vote>) -> Result<RaftVote, Error> {
    vote.map(vote_in).ok_or_else(|| missing("the vote"))
}

pub(super) fn append_out(
    vote: &RaftVote,
    prev: Option<RaftLogId>,
    entries: &[RaftEntry],
    committed: Option<RaftLogId>,
) -> Bytes {
    let entries =
        entries.iter().map(|entry| peer::LogEntry { index: entry.log_id.index, record: Some(entry_out(entry)) });
    let message = peer::AppendRequest {
        vote: Some(vote_out(vote)),
        prev: prev.as_ref().map(log_id_out),
        entries: entries.collect(),
        committed: committed.as_ref().map(log_id_out),
    };
    message.encode_to_vec().into()
}

pub(super) fn append_in<RT: Runtime>(message: peer::AppendRequest) -> Result<AppendEntriesRequest<Types<RT>>, Error> {
    let entries = message.entries.into_iter().map(|entry| {
        let record = entry.record.ok_or_else(|| missing("an entry"))?;
        entry_in(entry.index, record).map_err(|e| Error::Protocol(e.to_string()))
    });
    Ok(AppendEntriesRequest {
        vote: vote(message.vote)?,
        prev_log_id: message.prev.map(log_id_in),
        entries: entries.collect::<Result<_, _>>()?,
        leader_commit: message.committed.map(log_id_in),
    })
}

fn matching(log_id: Option<RaftLogId>) -> peer::Matching {
    peer::Matching { log_id: log_id.as_ref().map(log_id_out) }
}

pub(super) fn append_reply_out<RT: Runtime>(
    reply: AppendEntriesResponse<Types<RT>>,
    prev: Option<RaftLogId>,
    last: Option<RaftLogId>,
) -> Bytes {
    use peer::append_reply::Outcome;
    let outcome = match reply {
        AppendEntriesResponse::Success => Outcome::Matching(matching(last)),
        AppendEntriesResponse::PartialSuccess(upto) => Outcome::Matching(matching(upto)),
        AppendEntriesResponse::Conflict => Outcome::Conflict(prev.as_ref().map(log_id_out).unwrap_or_default()),
        AppendEntriesResponse::HigherVote(vote) => Outcome::HigherVote(vote_out(&vote)),
    };
    peer::AppendReply { outcome: Some(outcome) }.encode_to_vec().into()
}

/// The answer to one append. `last` is the last entry asked to append.
pub(super) fn append_reply_in<RT: Runtime>(
    body: Bytes,
    last: Option<RaftLogId>,
) -> Result<AppendEntriesResponse<Types<RT>>, Error> {
    use peer::append_reply::Outcome;
    match read::<peer::AppendReply>(body)?.outcome.ok_or_else(|| missing("the outcome"))? {
        Outcome::Matching(m) => {
            let upto = m.log_id.map(log_id_in);
            Ok(if upto == last { AppendEntriesResponse::Success } else { AppendEntriesResponse::PartialSuccess(upto) })
        }
        Outcome::Conflict(_) => Ok(AppendEntriesResponse::Conflict),
        Outcome::HigherVote(vote) => Ok(AppendEntriesResponse::HigherVote(vote_in(vote))),
    }
}

pub(super) fn vote_request_out<RT: Runtime>(request: &VoteRequest<Types<RT>>) -> Bytes {
    let message = peer::VoteRequest {
        vote: Some(vote_out(&request.vote)),
        last: request.last_log_id.as_ref().map(log_id_out),
        leadership_transfer: request.leadership_transfer,
    };
    message.encode_to_vec().into()
}

pub(super) fn vote_request_in<RT: Runtime>(body: Bytes) -> Result<VoteRequest<Types<RT>>, Error> {
    let message: peer::VoteRequest = read(body)?;
    let mut request = VoteRequest::new(vote(message.vote)?, message.last.map(log_id_in));
    request.leadership_transfer = message.leadership_transfer;
    Ok(request)
}

pub(super) fn vote_reply_out<RT: Runtime>(reply: &VoteResponse<Types<RT>>) -> Bytes {
    let message = peer::VoteReply {
        vote: Some(vote_out(&reply.vote)),
        granted: reply.vote_granted,
        last: reply.last_log_id.as_ref().map(log_id_out),
    };
    message.encode_to_vec().into()
}

pub(super) fn vote_reply_in<RT: Runtime>(body: Bytes) -> Result<VoteResponse<Types<RT>>, Error> {
    let message: peer::VoteReply = read(body)?;
    Ok(VoteResponse::new(vote(message.vote)?, message.last.map(log_id_in), message.granted))
}

pub(super) fn transfer_out<RT: Runtime>(request: &TransferLeaderRequest<Types<RT>>) -> Bytes {
    let message = peer::TransferRequest {
        from: Some(vote_out(request.from_leader())),
        to: request.to_node_id().0,
        last: request.last_log_id().map(log_id_out),
    };
    message.encode_to_vec().into()
}

pub(super) fn transfer_in<RT: Runtime>(body: Bytes) -> Result<TransferLeaderRequest<Types<RT>>, Error> {
    let message: peer::TransferRequest = read(body)?;
    Ok(TransferLeaderRequest::new(vote(message.from)?, NodeId(message.to), message.last.map(log_id_in)))
}

pub(super) fn transfer_reply_out<RT: Runtime>(reply: &TransferLeaderResponse<Types<RT>>) -> Bytes {
    use peer::transfer_reply::Outcome;
    let outcome = match reply {
        Ok(()) => Outcome::Accepted(store::Blank {}),
        Err(TransferLeaderError::VoteChanged { actual, .. }) => Outcome::VoteChanged(vote_out(actual)),
        Err(TransferLeaderError::LogNotFlushed { actual, .. }) => Outcome::LogNotFlushed(matching(*actual)),
    };
    peer::TransferReply { outcome: Some(outcome) }.encode_to_vec().into()
}

pub(super) fn transfer_reply_in<RT: Runtime>(
    body: Bytes,
    request: &TransferLeaderRequest<Types<RT>>,
) -> Result<TransferLeaderResponse<Types<RT>>, Error> {
    use peer::transfer_reply::Outcome;
    match read::<peer::TransferReply>(body)?.outcome.ok_or_else(|| missing("the outcome"))? {
        Outcome::Accepted(_) => Ok(Ok(())),
        Outcome::VoteChanged(actual) => {
            Ok(Err(TransferLeaderError::VoteChanged { expected: *request.from_leader(), actual: vote_in(actual) }))
        }
        Outcome::LogNotFlushed(actual) => Ok(Err(TransferLeaderError::LogNotFlushed {
            expected: request.last_log_id().copied(),
            actual: actual.log_id.map(log_id_in),
        })),
    }
}
