//! Workers that report what they should not: over HTTP, by single calls of gRPC, and on the stream. What is wrong is
//! answered; the execution comes to its end all the same.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use orbit_proto::worker::worker_service_client::WorkerServiceClient;
use orbit_proto::worker::{
    Ack, CompleteRequest, FailRequest, NodeMessage, RegisterRequest, Result as WorkerResult, TaskContract,
    WorkerMessage, result,
};
use serde_json::{Value, json};
use support::{Ask, Node, PATIENCE, ended};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

const DOCUMENT: &str = "name: order
version: 1.0.0
tasks: {pay.charge: {version: 1.0.0}}
steps: [{id: charge, task: pay.charge, timeout: 300ms, retry: {max_attempts: 1}}]
---
name: slow
version: 1.0.0
tasks: {pay.charge: {version: 1.0.0}}
steps: [{id: charge, task: pay.charge}]
---
name: once
version: 1.0.0
tasks: {pay.charge: {version: 1.0.0}}
steps: [{id: charge, task: pay.charge, retry: {max_attempts: 1}}]
";

/// What became of a result: accepted, why not, and the code of an error.
#[derive(Debug, PartialEq)]
struct Became {
    accepted: bool,
    reason: bool,
    code: Option<String>,
}

fn accepted() -> Became {
    Became { accepted: true, reason: false, code: None }
}

/// Answered, and not counted.
fn ignored() -> Became {
    Became { accepted: false, reason: true, code: None }
}

fn refused(code: &str) -> Became {
    Became { accepted: false, reason: true, code: Some(code.to_owned()) }
}

/// How results are reported.
enum Way {
    Http,
    Calls(WorkerServiceClient<Channel>),
    Stream(mpsc::Sender<WorkerMessage>, Streaming<NodeMessage>),
}

impl Way {
    async fn all(node: &Node) -> [(&'static str, Self); 3] {
        let calls = WorkerServiceClient::new(node.grpc().await);
        let contract = TaskContract { task_name: "none.such".into(), contract_version: "1.0.0".into() };
        let (worker_id, runtime, contracts) = ("reporter".into(), "rust".into(), vec![contract]);
        let hello = RegisterRequest { worker_id, runtime, contracts, ..RegisterRequest::default() };
        let (sender, messages) = mpsc::channel(4);
        sender.send(WorkerMessage { hello: Some(hello), ..WorkerMessage::default() }).await.unwrap();
        let mut stream = calls.clone().work(ReceiverStream::new(messages)).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().unwrap().welcome.is_some());
        [("HTTP", Self::Http), ("gRPC", Self::Calls(calls)), ("the stream", Self::Stream(sender, stream))]
    }

    async fn complete(&mut self, node: &Node, token: &str, output: &str) -> Became {
        let complete = CompleteRequest { token: token.into(), output: output.to_owned().into(), ..Default::default() };
        match self {
            Self::Http => {
                let body = format!("{{\"token\": {token:?}, \"output\": {output}}}");
                let answer = node.ask(Ask::new("POST", "/v1/tasks/complete").json(&body)).await;
                match answer.status {
                    200 => {
                        let answer = answer.json();
                        let reason = answer["reason"].is_string();
                        Became { accepted: answer["accepted"].as_bool().unwrap(), reason, code: None }
                    }
                    _ => refused(&answer.code()),
                }
            }
            Self::Calls(client) => match client.complete(complete).await {
                Ok(answer) => {
                    let answer = answer.into_inner();
                    Became { accepted: answer.accepted, reason: answer.reason.is_some(), code: None }
                }
                Err(status) => refused(&ended(&status).orbit.expect("a code")),
            },
            Self::Stream(..) => self.over_the_stream(token, result::Result::Complete(complete)).await,
        }
    }

    /// A failure of which nothing is said but its code and its message.
    async fn fail(&mut self, node: &Node, token: &str, error_code: &str, message: &str) -> Became {
        let fail = FailRequest {
            token: token.into(),
            error_code: error_code.into(),
            error_message: message.into(),
            ..FailRequest::default()
        };
        match self {
            Self::Http => {
                // With fields that a later version might have: they are ignored, and what is known counts.
                let body = json!({"token": token, "error_code": error_code, "error_message": message, "colour": "red"});
                let answer = node.ask(Ask::new("POST", "/v1/tasks/fail").json(&body.to_string())).await;
                if answer.status == 200 { accepted() } else { refused(&answer.code()) }
            }
            Self::Calls(client) => match client.fail(fail).await {
                Ok(_) => accepted(),
                Err(status) => refused(&ended(&status).orbit.expect("a code")),
            },
            Self::Stream(..) => self.over_the_stream(token, result::Result::Fail(fail)).await,
        }
    }

    async fn over_the_stream(&mut self, token: &str, result: result::Result) -> Became {
        let Self::Stream(sender, stream) = self else { panic!("no stream") };
        let results = vec![WorkerResult { result: Some(result) }];
        sender.send(WorkerMessage { results, ..WorkerMessage::default() }).await.unwrap();
        let message = tokio::time::timeout(PATIENCE, stream.message()).await.expect("an answer in time");
        let [Ack { token: of, accepted, reason, error_code }] =
            <[Ack; 1]>::try_from(message.unwrap().unwrap().acks).unwrap();
        assert_eq!(of, token);
        Became { accepted, reason: reason.is_some(), code: error_code }
    }
}

/// Starts an execution and takes its task.
async fn task(node: &Node, session: &str, workflow: &str, id: &str) -> Value {
    let start = json!({"workflow": workflow, "execution_id": id}).to_string();
    assert_eq!(node.ask(Ask::new("POST", "/v1/executions").json(&start)).await.status, 201);
    let poll = json!({"worker_session_id": session, "wait_ms": 30_000}).to_string();
    let task = node.ask(Ask::new("POST", "/v1/workers/poll").json(&poll)).await.json();
    assert_eq!(task["execution_id"], id, "{task}");
    task
}

async fn over(node: &Node, id: &str) -> Value {
    node.ask(Ask::new("GET", &format!("/v1/executions/{id}/wait?timeout_ms=30000"))).await.json()
}

async fn ready() -> (Node, String) {
    let node = Node::start().await;
    let deployed = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", DOCUMENT)).await;
    assert_eq!(deployed.status, 201, "{}", deployed.text());
    let contract = json!({"task_name": "pay.charge", "contract_version": "1.0.0"});
    let register = json!({"worker_id": "w", "runtime": "rust", "contracts": [contract]}).to_string();
    let session = node.ask(Ask::new("POST", "/v1/workers/register").json(&register)).await.json();
    (node, session["worker_session_id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_never_got() {
    let (node, session) = ready().await;
    let token = task(&node, &session, "slow", "mine").await["token"].as_str().unwrap().to_owned();
    // Another hand-over of the same execution: the last of its random bytes is another.
    let last = if token.ends_with('A') { "B" } else { "A" };
    let forged = format!("{}{last}", &token[..token.len() - 1]);
    let before = node.server.state_hashes().unwrap();
    for (what, mut way) in Way::all(&node).await {
        for token in [forged.as_str(), "abc", "AQAAAAEAAAAAAAAABK32oj7dm2Yeby0x", "ключ"] {
            let became = way.complete(&node, token, "1").await;
            assert_eq!(became, ignored(), "{token} over {what}");
        }
        assert_eq!(way.complete(&node, "", "1").await, refused("INVALID_REQUEST"), "no token over {what}");
        let long = "x".repeat(100_000);
        assert_eq!(way.complete(&node, &long, "1").await, refused("INVALID_REQUEST"), "a long one over {what}");
    }
    assert_eq!(node.server.state_hashes().unwrap(), before, "nothing of it was written");
    assert_eq!(Way::Http.complete(&node, &token, "1").await, accepted());
    assert_eq!(over(&node, "mine").await["status"], "COMPLETED");
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn twice() {
    let (node, session) = ready().await;
    for (what, mut way) in Way::all(&node).await {
        let id = format!("twice-{}", what.replace(' ', "-"));
        let token = task(&node, &session, "slow", &id).await["token"].as_str().unwrap().to_owned();
        assert_eq!(way.complete(&node, &token, "1").await, accepted(), "over {what}");
        assert_eq!(way.complete(&node, &token, "1").await, accepted(), "the same again over {what}");
        assert_eq!(way.complete(&node, &token, "2").await, ignored(), "something else over {what}");
        assert_eq!(over(&node, &id).await["units"]["charge"]["output"], 1, "the first counts");
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_end() {
    let (node, session) = ready().await;
    for (what, mut way) in Way::all(&node).await {
        let id = format!("late-{}", what.replace(' ', "-"));
        let token = task(&node, &session, "order", &id).await["token"].as_str().unwrap().to_owned();
        let state = over(&node, &id).await;
        assert_eq!((&state["status"], &state["error"]["code"]), (&json!("FAILED"), &json!("TIMEOUT")), "{state}");
        assert_eq!(way.complete(&node, &token, "1").await, ignored(), "after the time-out over {what}");

        let id = format!("cancelled-{}", what.replace(' ', "-"));
        let token = task(&node, &session, "slow", &id).await["token"].as_str().unwrap().to_owned();
        let cancel = Ask::new("POST", &format!("/v1/executions/{id}/cancel")).json("{\"force\": true}");
        assert_eq!(node.ask(cancel).await.status, 200);
        assert_eq!(over(&node, &id).await["status"], "CANCELLED");
        assert_eq!(way.complete(&node, &token, "1").await, ignored(), "after the cancel over {what}");
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much() {
    let (node, session) = ready().await;
    let much = format!("\"{}\"", "x".repeat(3 << 20));
    for (what, mut way) in Way::all(&node).await {
        let id = format!("much-{}", what.replace(' ', "-"));
        let token = task(&node, &session, "slow", &id).await["token"].as_str().unwrap().to_owned();
        let before = node.server.state_hashes().unwrap();
        if !matches!(way, Way::Http) {
            assert_eq!(way.complete(&node, &token, "{").await, refused("INVALID_REQUEST"), "no JSON over {what}");
        }
        assert_eq!(node.server.state_hashes().unwrap(), before, "nothing of it was written");
        // The work was done, so the attempt is over, and the same again is answered as the first time (language L5).
        for _ in 0..2 {
            assert_eq!(way.complete(&node, &token, &much).await, ignored(), "3 MiB over {what}");
        }
        let state = over(&node, &id).await;
        let error = &state["error"];
        assert_eq!((&state["status"], &error["code"]), (&json!("FAILED"), &json!("PAYLOAD_TOO_LARGE")), "{state}");
        assert_eq!(way.complete(&node, &token, "null").await, ignored(), "less comes too late, over {what}");
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_that_is_none() {
    let (node, session) = ready().await;
    for (what, mut way) in Way::all(&node).await {
        let id = format!("code-{}", what.replace(' ', "-"));
        let token = task(&node, &session, "once", &id).await["token"].as_str().unwrap().to_owned();
        let before = node.server.state_hashes().unwrap();
        for code in ["", "card_refused", "Card refused.", "404", "TIMEOUT"] {
            let became = way.fail(&node, &token, code, "no").await;
            assert_eq!(became, refused("INVALID_REQUEST"), "{code:?} over {what}");
        }
        assert_eq!(node.server.state_hashes().unwrap(), before, "nothing of it was written");
        assert_eq!(way.fail(&node, &token, "CARD_REFUSED", "no money").await, accepted(), "over {what}");
        let state = over(&node, &id).await;
        let error = &state["units"]["charge"]["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!("CARD_REFUSED"), &json!("no money")), "{state}");
        assert_eq!(error["retryable"], true, "what is not said is its default: {state}");
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expression_that_costs_too_much_ends_its_execution_alone() {
    let (node, session) = ready().await;
    let document = "name: costly\nversion: 1.0.0\nsteps:\n  - id: sum\n    compute: \
        \"range(2000).map(a, range(2000).map(b, a + b).size()).size()\"\n";
    let deployed = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", document)).await;
    assert_eq!(deployed.status, 201, "{}", deployed.text());
    let start = Ask::new("POST", "/v1/executions").json("{\"workflow\": \"costly\", \"execution_id\": \"c\"}");
    assert_eq!(node.ask(start).await.status, 201);
    let state = over(&node, "c").await;
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("FAILED"), &json!("EXPRESSION_ERROR")), "{state}");
    let token = task(&node, &session, "slow", "other").await["token"].as_str().unwrap().to_owned();
    assert_eq!(Way::Http.complete(&node, &token, "1").await, accepted());
    assert_eq!(over(&node, "other").await["status"], "COMPLETED");
    node.server.stop().await.unwrap();
}
