//! What this node answers the other nodes of the cluster.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use orbit_proto::engine::message::Body;
use orbit_proto::node::{
    Answer, Ask, Done, HashReplica, Propose, ProposeAnswer, Question, ReadIndex, ReadIndexAnswer, WatchReplica, answer,
    question,
};
use orbit_raft::network::Answers;
use orbit_raft::state_store::PartOutcome;
use orbit_raft::{Environment, Group, NodeId};
use prost::Message;
use workflow::definition::Definition;

use super::{Engine, Inner, Running, Shard, wait};
use crate::definitions::Definitions;
use crate::error::{Code, Error, Result};
use crate::failure::{going_away, of_proposal, of_read, of_storage};
use crate::remote::{Request, wire};

/// Answers as long as the engine is there.
pub(super) struct Answering<E: Environment>(pub(super) Weak<Inner<E>>);

impl<E: Environment> Answers for Answering<E> {
    fn call(&self, from: NodeId, question: Bytes) -> BoxFuture<'static, Bytes> {
        let engine = self.0.upgrade().map(Engine);
        async move {
            let answered = async { engine.ok_or_else(going_away)?.answer(from, asked(question)?).await };
            told(answered.await)
        }
        .boxed()
    }

    fn introduce(&self, question: Bytes) -> BoxFuture<'static, Bytes> {
        let engine = self.0.upgrade().map(Engine);
        async move {
            let answered = async { engine.ok_or_else(going_away)?.answer_stranger(asked(question)?).await };
            told(answered.await)
        }
        .boxed()
    }
}

fn asked(question: Bytes) -> Result<question::What> {
    let question = Question::decode(question).ok().and_then(|question| question.what);
    question.ok_or_else(|| Error::new(Code::InvalidRequest, "this node does not know the question"))
}

fn told(answer: Result<answer::What>) -> Bytes {
    let what = answer.unwrap_or_else(|error| answer::What::Fault(wire::fault(&error)));
    Answer { what: Some(what) }.encode_to_vec().into()
}

impl<E: Environment> Engine<E> {
    async fn answer(&self, from: NodeId, question: question::What) -> Result<answer::What> {
        let running = self.running()?;
        match question {
            question::What::ReadIndex(question) => read_index(&running, question).await.map(answer::What::ReadIndex),
            question::What::Propose(question) => propose(&running, question).await.map(answer::What::Propose),
            question::What::Ask(ask) => self.asked(&running, ask).await,
            question::What::Await(question) => {
                let shard = running.shard(&question.execution_id);
                wait::answer_when(&shard, question).await.map(|()| answer::What::Done(Done {}))
            }
            question::What::Workers(question) => self.answer_about_workers(&running, from, question).await,
            question::What::WatchReplica(WatchReplica { group: number, mark }) => {
                running.replicas.watch(&group(&running, number)?, &mark).map(answer::What::Replica)
            }
            question::What::HashReplica(HashReplica { group: number, mark }) => {
                running.replicas.answer(&group(&running, number)?, &mark).map(answer::What::Replica)
            }
            question @ (question::What::Standing(_) | question::What::Membership(_)) => {
                self.answer_stranger(question).await
            }
        }
    }

    async fn asked(&self, running: &Arc<Running<E>>, ask: Ask) -> Result<answer::What> {
        let Ask { execution_id: id, what } = ask;
        let what = what.ok_or_else(|| Error::new(Code::InvalidRequest, "nothing is asked"))?;
        let shard = running.shard(&id);
        let definitions = &running.definitions;
        let request = match wire::ask_in(what.clone(), &id, &Local(definitions)) {
            // It was registered a moment ago, at another node.
            Err(error) if error.code == Code::WorkflowNotFound => {
                definitions.be_current().await?;
                wire::ask_in(what, &id, &Local(definitions))?
            }
            request => request?,
        };
        if let Request::Messages(batch) = &request {
            self.know_children(running, batch.messages.iter().filter_map(|(_, message)| message.body.as_ref())).await?;
        }
        let response = self.request_here(running, &shard, &id, request).await?;
        Ok(answer::What::Ask(wire::response(response)))
    }

    /// Makes sure that this node knows every definition that a message may need, as far as it is registered.
    pub(super) async fn know_children<'b>(
        &self,
        running: &Running<E>,
        bodies: impl Iterator<Item = &'b Body>,
    ) -> Result<()> {
        for body in bodies {
            if let Body::Start(start) = body
                && running.definitions.local(&start.workflow, &start.version)?.is_none()
            {
                return running.definitions.be_current().await;
            }
        }
        Ok(())
    }
}

/// The definitions of this node's replica.
struct Local<'d, E: Environment>(&'d Definitions<E>);

impl<E: Environment> wire::Find for Local<'_, E> {
    fn find(&self, hash: &str) -> Result<Arc<Definition>> {
        let missing = || Error::new(Code::WorkflowNotFound, "the definition is not known here yet; repeat the call");
        self.0.by_hash(hash)?.ok_or_else(missing)
    }
}

async fn read_index<E: Environment>(running: &Running<E>, question: ReadIndex) -> Result<ReadIndexAnswer> {
    let group = group(running, question.group)?;
    let log_id = group.read_index().map_err(|error| of_read(&error)).await?;
    let broken = question.execution_id.and_then(|id| running.shard(&id).context.broken.message(&id));
    Ok(ReadIndexAnswer { index: log_id.index, broken })
}

async fn propose<E: Environment>(running: &Running<E>, question: Propose) -> Result<ProposeAnswer> {
    let group = group(running, question.group)?;
    let applied = group.propose(question.parts).await.map_err(|error| of_proposal("", &error))?;
    if let Some(shard) = shard_of_group(running, &group) {
        // It may be a batch.
        shard.context.batches.notify_one();
    }
    Ok(ProposeAnswer { applied: applied.outcomes.iter().map(|one| *one == PartOutcome::Applied).collect() })
}

fn group<E: Environment>(running: &Running<E>, number: u32) -> Result<Group<E>> {
    let shards = running.shards.iter().map(|shard| &shard.context.group);
    let mut groups = std::iter::once(running.definitions.meta()).chain(shards);
    let group = groups.find(|group| u32::from(group.id().get()) == number);
    group.cloned().ok_or_else(|| of_storage("there is no such group"))
}

fn shard_of_group<'r, E: Environment>(running: &'r Running<E>, group: &Group<E>) -> Option<&'r Arc<Shard<E>>> {
    running.shards.iter().find(|shard| shard.context.group.id() == group.id())
}
