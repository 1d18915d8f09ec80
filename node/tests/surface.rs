//! Work done through every surface: a document becomes an execution, its tasks reach workers, results come back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use orbit_node::server::{Exposure, Server};
use orbit_proto::api::orbit_service_client::OrbitServiceClient;
use orbit_proto::api::{GetHistoryRequest, RegisterWorkflowsRequest, StartExecutionRequest, WaitExecutionRequest};
use orbit_proto::worker::worker_service_client::WorkerServiceClient;
use orbit_proto::worker::{
    self as workers, NodeMessage, PollRequest, RegisterRequest, TaskContract, TaskHeartbeatRequest, Tokens,
    WorkerMessage,
};
use serde_json::{Value, json};
use support::{Ask, Node, PATIENCE, ended};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

const DOCUMENT: &str = "name: order
version: 1.0.0
tasks:
  pay.charge: {version: 1.0.0}
  ship.pack: {version: 1.0.0}
input: {}
steps:
  - {id: charge, task: pay.charge, input: {n: '${input.n}'}}
  - {id: pack, task: ship.pack, after: [charge]}
result: '${steps.charge.output}'
";

/// Beyond what a double holds.
const BIG: &str = "9007199254740993";

async fn post(node: &Node, path: &str, body: &Value) -> (u16, Value) {
    let answer = node.ask(Ask::new("POST", path).json(&body.to_string())).await;
    answer.is_stamped();
    (answer.status, if answer.body.is_empty() { Value::Null } else { answer.json() })
}

async fn get(node: &Node, path: &str) -> (u16, Value) {
    let answer = node.ask(Ask::new("GET", path)).await;
    answer.is_stamped();
    (answer.status, answer.json())
}

async fn deploy(node: &Node) {
    let answer = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", DOCUMENT)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["name"], "order");
}

async fn register(node: &Node, worker: &str) -> String {
    let contracts = [("pay.charge", "1.0.0"), ("ship.pack", "1.0.0")];
    let contracts = contracts.map(|(task, version)| json!({"task_name": task, "contract_version": version}));
    let body = json!({"worker_id": worker, "runtime": "rust", "contracts": contracts, "mood": "newer than the node"});
    let (status, answer) = post(node, "/v1/workers/register", &body).await;
    assert_eq!((status, &answer["accepted"]), (200, &json!(true)), "{answer}");
    answer["worker_session_id"].as_str().unwrap().to_owned()
}

async fn poll(node: &Node, session: &str, wait_ms: u64) -> Option<Value> {
    let body = json!({"worker_session_id": session, "wait_ms": wait_ms});
    let (status, task) = post(node, "/v1/workers/poll", &body).await;
    assert!(status == 200 || status == 204, "{status}: {task}");
    (status == 200).then_some(task)
}

/// Waits until so many requests beside this one are under way.
async fn arrived(node: &Node, requests: usize) {
    let wanted = format!("orbit_http_requests_under_way {}\n", requests + 1);
    let look = async { while !node.ask(Ask::new("GET", "/v1/metrics")).await.text().contains(&wanted) {} };
    tokio::time::timeout(PATIENCE, look).await.expect("the requests arrive, or are given up");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http() {
    let node = Node::start().await;
    deploy(&node).await;
    let again = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", DOCUMENT)).await;
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)));
    let source = node.ask(Ask::new("GET", "/v1/workflows/order/1.0.0?form=source")).await;
    assert_eq!(source.text(), DOCUMENT);
    let (status, latest) = get(&node, "/v1/workflows/order").await;
    assert_eq!((status, &latest["name"]), (200, &json!("order")));
    assert_eq!(get(&node, "/v1/workflows").await.1["workflows"][0]["tasks"], json!(["pay.charge", "ship.pack"]));

    let start = format!("{{\"workflow\": \"order\", \"execution_id\": \"o-1\", \"input\": {{\"n\": {BIG}}}}}");
    let started = node.ask(Ask::new("POST", "/v1/executions").json(&start)).await;
    assert_eq!((started.status, started.json()), (201, json!({"execution_id": "o-1", "run": 1, "created": true})));
    let started = node.ask(Ask::new("POST", "/v1/executions").json(&start)).await;
    assert_eq!((started.status, &started.json()["created"]), (200, &json!(false)));
    let input = node.ask(Ask::new("GET", "/v1/executions/o-1/input")).await;
    assert!(input.text().contains(BIG), "{}", input.text());

    let session = register(&node, "w-1").await;
    let poll_once = Ask::new("POST", "/v1/workers/poll").json(&json!({"worker_session_id": session}).to_string());
    let answer = node.ask(poll_once).await;
    assert!(answer.text().contains(&format!("\"input\":{{\"n\":{BIG}}}")), "bit for bit: {}", answer.text());
    let task = answer.json();
    assert_eq!((&task["step_id"], &task["attempt"]), (&json!("charge"), &json!(1)));
    let token = task["token"].as_str().unwrap();
    let alive = post(&node, "/v1/tasks/heartbeat", &json!({"token": token, "details": {"at": 1}})).await;
    assert_eq!(alive, (200, json!({"accepted": true, "cancel": false})));
    let complete = format!(
        "{{\"token\": {token:?}, \"output\": {{\"id\": {BIG}}}, \"worker_session_id\": {session:?}, \"free_slots\": 1}}"
    );
    let answer = node.ask(Ask::new("POST", "/v1/tasks/complete").json(&complete)).await.json();
    assert_eq!(answer["accepted"], true, "{answer}");
    let next = match answer["tasks"].as_array().and_then(|tasks| tasks.first()) {
        Some(task) => task.clone(),
        None => poll(&node, &session, 10_000).await.expect("the next task"),
    };
    assert_eq!(next["step_id"], "pack");
    assert_eq!(post(&node, "/v1/tasks/complete", &json!({"token": next["token"]})).await.1["accepted"], true);

    let done = node.ask(Ask::new("GET", "/v1/executions/o-1/wait?timeout_ms=30000")).await;
    assert!(done.text().contains(&format!("\"output\":{{\"id\":{BIG}}}")), "{}", done.text());
    assert_eq!(done.json()["status"], "COMPLETED");
    assert_eq!(get(&node, "/v1/executions?status=completed").await.1["executions"][0]["execution_id"], "o-1");
    assert_eq!(get(&node, "/v1/executions:count?workflow=order").await.1, json!({"count": 1}));
    let (_, history) = get(&node, "/v1/executions/o-1/history").await;
    assert!(history["events"].as_array().unwrap().len() > 6, "{history}");
    assert_eq!(get(&node, "/v1/executions/o-1/runs").await.1["runs"][0]["status"], "COMPLETED");
    let (_, units) = get(&node, "/v1/executions/o-1/units?prefix=pa").await;
    assert_eq!(units["units"].as_object().unwrap().keys().collect::<Vec<_>>(), ["pack"], "{units}");
    let (status, late) = post(&node, "/v1/executions/o-1/cancel", &json!({})).await;
    assert_eq!((status, &late["error"]["code"]), (409, &json!("EXECUTION_FINISHED")));
    assert_eq!(get(&node, "/v1/workers").await.1["workers"][0]["worker_id"], "w-1");
    assert_eq!(
        post(&node, "/v1/workers/unregister", &json!({"worker_session_id": session})).await.1,
        json!({"accepted": true})
    );
    let (status, gone) = post(&node, "/v1/workers/poll", &json!({"worker_session_id": session})).await;
    assert_eq!((status, &gone["error"]["code"]), (404, &json!("UNKNOWN_SESSION")));
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_up_in_a_poll_takes_no_task_along() {
    let node = Node::start().await;
    deploy(&node).await;
    let (gone, stays) = (register(&node, "gone").await, register(&node, "stays").await);
    let body = json!({"worker_session_id": gone, "wait_ms": 60_000}).to_string();
    let address = node.http();
    for _ in 0..5 {
        let ask = Ask::new("POST", "/v1/workers/poll").json(&body);
        let stream = tokio::task::spawn_blocking(move || ask.only_send(address)).await.unwrap();
        arrived(&node, 1).await;
        drop(stream);
        arrived(&node, 0).await;
    }
    let (status, _) = post(&node, "/v1/executions", &json!({"workflow": "order", "input": {"n": 1}})).await;
    assert_eq!(status, 201);
    let task = poll(&node, &stays, 30_000).await.expect("the task");
    assert_eq!((&task["attempt"], &task["step_id"]), (&json!(1), &json!("charge")));
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_answered_when_the_node_goes_away() {
    let node = Node::start().await;
    deploy(&node).await;
    post(&node, "/v1/executions", &json!({"workflow": "order", "execution_id": "o", "input": {"n": 1}})).await;
    let session = register(&node, "w").await;
    poll(&node, &session, 10_000).await.expect("the task");
    let address = node.http();
    let wait = Ask::new("GET", "/v1/executions/o/wait?timeout_ms=300000");
    let poll = Ask::new("POST", "/v1/workers/poll")
        .json(&json!({"worker_session_id": session, "wait_ms": 60_000}).to_string());
    let waiting = [wait, poll].map(|ask| tokio::task::spawn_blocking(move || ask.only_send(address)));
    let streams = futures::future::join_all(waiting).await;
    arrived(&node, 2).await;
    node.server.stop().await.unwrap();
    for stream in streams {
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream.unwrap(), &mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(["200", "204"].contains(&status), "{answer}");
    }
}

fn hello() -> RegisterRequest {
    let contract = |name: &str| TaskContract { task_name: name.into(), contract_version: "1.0.0".into() };
    RegisterRequest {
        worker_id: "streamer".into(),
        runtime: "rust".into(),
        contracts: vec![contract("pay.charge"), contract("ship.pack")],
        ..RegisterRequest::default()
    }
}

async fn next(stream: &mut Streaming<NodeMessage>) -> NodeMessage {
    let message = tokio::time::timeout(PATIENCE, stream.message()).await.expect("a message in time");
    message.expect("no error").expect("no end")
}

async fn open(node: &Node, first: WorkerMessage) -> (mpsc::Sender<WorkerMessage>, Streaming<NodeMessage>) {
    let (sender, messages) = mpsc::channel(16);
    sender.send(first).await.unwrap();
    let mut client = WorkerServiceClient::new(node.grpc().await);
    (sender, client.work(ReceiverStream::new(messages)).await.unwrap().into_inner())
}

fn success(token: &str, output: &str) -> workers::Result {
    let complete =
        workers::CompleteRequest { token: token.into(), output: output.to_owned().into(), ..Default::default() };
    workers::Result { result: Some(workers::result::Result::Complete(complete)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_grpc() {
    let node = Node::start().await;
    let mut clients = OrbitServiceClient::new(node.grpc().await);
    let source = RegisterWorkflowsRequest { source: DOCUMENT.into(), format: "yaml".into() };
    assert!(clients.register_workflows(source).await.unwrap().into_inner().workflows[0].created);

    let first = WorkerMessage { hello: Some(hello()), slots: 4, ..WorkerMessage::default() };
    let (sender, mut stream) = open(&node, first).await;
    let welcome = next(&mut stream).await.welcome.expect("a welcome first");
    assert!(welcome.accepted && welcome.heartbeat_interval_ms == 5_000);

    let input = format!("{{\"n\": {BIG}}}");
    for id in ["g-1", "g-2", "g-3"] {
        let start = StartExecutionRequest {
            workflow: "order".into(),
            execution_id: Some(id.into()),
            input: input.clone().into(),
            ..StartExecutionRequest::default()
        };
        assert!(clients.start_execution(start).await.unwrap().into_inner().created);
    }
    let (mut done, mut acked) = (0, 0);
    while acked < 6 {
        let message = next(&mut stream).await;
        acked += message.acks.len();
        assert!(message.acks.iter().all(|ack| ack.accepted), "{message:?}");
        let tokens: Vec<_> = message.tasks.iter().map(|task| task.token.clone()).collect();
        let results = message.tasks.iter().map(|task| success(&task.token, std::str::from_utf8(&task.input).unwrap()));
        let results: Vec<_> = results.collect();
        done += results.len();
        // A slot for each result, in the same message: the next task rides on the commit.
        let slots = results.len() as u32;
        let life = TaskHeartbeatRequest { token: tokens.first().cloned().unwrap_or_default(), details: None };
        let heartbeat = Some(Tokens { tokens: tokens.clone() });
        let task_heartbeats = if tokens.is_empty() { vec![] } else { vec![life] };
        let message =
            WorkerMessage { slots, receipts: tokens, results, heartbeat, task_heartbeats, ..Default::default() };
        sender.send(message).await.unwrap();
    }
    assert_eq!((done, acked), (6, 6));
    for id in ["g-1", "g-2", "g-3"] {
        let wait = WaitExecutionRequest { execution_id: id.into(), timeout_ms: Some(30_000) };
        let state = clients.wait_execution(wait).await.unwrap().into_inner();
        assert_eq!(state.summary.unwrap().status, "COMPLETED");
        assert!(std::str::from_utf8(&state.state).unwrap().contains(BIG));
    }
    let history = GetHistoryRequest { execution_id: "g-1".into(), limit: Some(2), ..GetHistoryRequest::default() };
    let history = clients.get_history(history).await.unwrap().into_inner();
    assert_eq!((history.events.len(), history.next), (2, Some(3)));

    drop(sender);
    assert!(stream.message().await.unwrap().is_none_or(|last| last.acks.is_empty()), "it ends");
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_gives_back_what_it_had_not_received() {
    let node = Node::start().await;
    deploy(&node).await;
    let first = WorkerMessage { hello: Some(hello()), slots: 1, ..WorkerMessage::default() };
    let (sender, mut stream) = open(&node, first).await;
    assert!(next(&mut stream).await.welcome.is_some());
    post(&node, "/v1/executions", &json!({"workflow": "order", "input": {"n": 1}})).await;
    let lost = next(&mut stream).await.tasks.remove(0);
    drop((sender, stream));
    let session = register(&node, "another").await;
    let task = poll(&node, &session, 30_000).await.expect("the task again");
    assert_eq!((task["idempotency_key"].as_str(), &task["attempt"]), (Some(lost.idempotency_key.as_str()), &json!(1)));
    assert_ne!(task["token"], json!(lost.token), "another hand-over");
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_a_hello_and_has_one_only() {
    let node = Node::start().await;
    let mut client = WorkerServiceClient::new(node.grpc().await);
    let none = client.work(tokio_stream::iter([WorkerMessage { slots: 1, ..WorkerMessage::default() }])).await;
    assert_eq!(ended(&none.unwrap_err()).orbit.as_deref(), Some("INVALID_REQUEST"));
    let nameless = RegisterRequest { worker_id: " ".into(), ..hello() };
    let first = WorkerMessage { hello: Some(nameless), ..WorkerMessage::default() };
    let nameless = client.work(tokio_stream::iter([first])).await;
    assert_eq!(ended(&nameless.unwrap_err()).orbit.as_deref(), Some("INVALID_REQUEST"));

    let first = || WorkerMessage { hello: Some(hello()), ..WorkerMessage::default() };
    let (sender, mut stream) = open(&node, first()).await;
    assert!(next(&mut stream).await.welcome.is_some());
    sender.send(first()).await.unwrap();
    let refused = tokio::time::timeout(PATIENCE, stream.message()).await.unwrap().unwrap_err();
    assert_eq!(ended(&refused).orbit.as_deref(), Some("INVALID_REQUEST"));
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_hears_that_the_node_goes_away() {
    let node = Node::start().await;
    let first = WorkerMessage { hello: Some(hello()), slots: 1, ..WorkerMessage::default() };
    let (sender, mut stream) = open(&node, first).await;
    assert!(next(&mut stream).await.welcome.is_some());
    let stop = tokio::spawn(node.server.stop());
    assert!(next(&mut stream).await.drain);
    drop(sender);
    tokio::time::timeout(Duration::from_secs(20), stop).await.expect("it stops").unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_over_grpc_is_refused_without_a_session() {
    let node = Node::start().await;
    let mut client = WorkerServiceClient::new(node.grpc().await);
    let unknown = client.poll(PollRequest { worker_session_id: "nobody".into(), ..PollRequest::default() }).await;
    let ended = ended(&unknown.unwrap_err());
    assert_eq!((ended.code, ended.reason.as_deref()), (tonic::Code::NotFound, Some("UNKNOWN_SESSION")));
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_ready_yet_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let config = support::config(&dir, &[]);
    let server = Server::start_alone(&config, Exposure::Loopback).await.unwrap();
    server.stop().await.expect("nothing holds the data");
}
