//! What is said to an execution that is there, and what it is asked, through every surface.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use orbit_proto::api::orbit_service_client::OrbitServiceClient;
use orbit_proto::api::{
    PauseExecutionRequest, QueryExecutionRequest, RedriveExecutionRequest, ResumeExecutionRequest,
    SignalExecutionRequest, SignalStart,
};
use serde_json::{Value, json};
use support::{Answer, Ask, Node, PATIENCE, ended};

const DOCUMENT: &str = "name: ask
version: 1.0.0
input: {}
signals: {tell: {type: [object, string, integer]}, more: {type: integer}}
queries: {told: steps.wait.output, given: steps.odd.output, input: input, twice: '[input, input]'}
steps:
  - {id: odd, on_failure: suspend, compute: 'input.list[0] + 1'}
  - {id: wait, await: {signal: tell}}
result: {told: '${steps.wait.output}', odd: '${steps.odd.output}'}
";

/// Beyond what a double holds, and written in a way of its own.
const TEXT: &str = r#"{ "n":9007199254740993 }"#;

async fn started(id: &str) -> Node {
    let node = Node::start().await;
    let deployed = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", DOCUMENT)).await;
    assert_eq!(deployed.status, 201, "{}", deployed.text());
    let start = json!({"workflow": "ask", "execution_id": id}).to_string();
    assert_eq!(node.ask(Ask::new("POST", "/v1/executions").json(&start)).await.status, 201);
    node
}

async fn post(node: &Node, path: &str, body: &str) -> Answer {
    let ask = Ask::new("POST", &format!("/v1/executions/{path}"));
    node.ask(if body.is_empty() { ask } else { ask.json(body) }).await
}

async fn get(node: &Node, path: &str) -> Answer {
    node.ask(Ask::new("GET", &format!("/v1/executions/{path}"))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_passes_bit_for_bit_and_counts_once() {
    let node = started("a").await;
    let first = post(&node, "a/signals/tell?dedup_id=d", TEXT).await;
    assert_eq!((first.status, &first.json()["accepted"]), (200, &json!(true)), "{}", first.text());
    assert_eq!(first.json().get("created"), None);
    assert_eq!(post(&node, "a/signals/tell?dedup_id=d", TEXT).await.text(), first.text());
    let other = post(&node, "a/signals/tell?dedup_id=d", "\"other\"").await;
    assert_eq!((other.status, other.code().as_str()), (409, "DEDUP_CONFLICT"));
    let told = get(&node, "a/queries/told").await;
    assert!(told.text().contains(r#""value":{"n":9007199254740993}"#), "{}", told.text());
    let history = get(&node, "a/history").await;
    assert!(history.text().contains(&format!("\"payload\":{TEXT}")), "{}", history.text());
    // Nothing is an empty object, and JSON of any kind is a payload.
    for (body, kept) in [("", "{}"), ("\"text\"", "\"text\""), ("7", "7")] {
        let seq = post(&node, "a/signals/tell", body).await.json()["seq"].as_u64().unwrap();
        let event = get(&node, &format!("a/history?from={seq}&limit=1")).await;
        assert!(event.text().contains(&format!("\"payload\":{kept}")), "{}", event.text());
    }
    let long = format!("\"{}\"", "x".repeat(2 << 20));
    assert_eq!(post(&node, "a/signals/tell", &long).await.code(), "PAYLOAD_TOO_LARGE");
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_starts_what_is_not_there() {
    let node = started("other").await;
    let start = format!(r#"{{"workflow": "ask", "input": {TEXT}, "payload": "hello", "dedup_id": "d"}}"#);
    let first = post(&node, "a/signals/tell:start", &start).await;
    assert_eq!((first.status, &first.json()["created"]), (201, &json!(true)), "{}", first.text());
    let again = post(&node, "a/signals/tell:start", &start).await;
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)), "{}", again.text());
    assert_eq!(get(&node, "a/input").await.text(), TEXT);
    assert_eq!(get(&node, "a/queries/told").await.json()["value"], "hello");
    // A client that writes the colon in another way asks for the same.
    assert_eq!(post(&node, "b/signals/tell%3Astart", &start).await.status, 201);

    let mut clients = OrbitServiceClient::new(node.grpc().await);
    let start = SignalStart { workflow: "ask".into(), version: None, input: TEXT.into() };
    let signal = SignalExecutionRequest {
        execution_id: "c".into(),
        signal: "tell".into(),
        payload: TEXT.into(),
        dedup_id: None,
        start: Some(start),
    };
    let signalled = clients.signal_execution(signal.clone()).await.unwrap().into_inner();
    assert_eq!((signalled.seq, signalled.run, signalled.created), (2, 1, Some(true)));
    let plain = SignalExecutionRequest { start: None, payload: "".into(), ..signal };
    assert_eq!(clients.signal_execution(plain.clone()).await.unwrap().into_inner().created, None);
    let unknown = SignalExecutionRequest { signal: "shout".into(), ..plain };
    let refused = ended(&clients.signal_execution(unknown).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_deref()), (tonic::Code::NotFound, Some("UNKNOWN_SIGNAL")));
    let query = QueryExecutionRequest { execution_id: "c".into(), query: "told".into(), wait_ms: Some(30_000) };
    let told = clients.query_execution(query).await.unwrap().into_inner();
    assert_eq!((told.query.as_str(), told.value.as_ref()), ("told", &br#"{"n":9007199254740993}"#[..]));
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_units_are_moved() {
    let node = started("a").await;
    let state = get(&node, "a").await.json();
    assert_eq!((&state["attention"], &state["units"]["odd"]["status"]), (&json!(1), &json!("SUSPENDED")), "{state}");
    let resolve = format!(r#"{{"steps": ["odd"], "action": "resolve", "output": {TEXT}}}"#);
    let state = post(&node, "a/redrive", &resolve).await;
    assert_eq!((state.status, &state.json()["attention"]), (200, &json!(0)), "{}", state.text());
    assert!(state.text().contains(&format!("\"output\":{TEXT}")), "{}", state.text());
    let again = post(&node, "a/redrive", &resolve).await;
    assert_eq!((again.status, again.code().as_str()), (409, "NOT_REDRIVABLE"));

    let mut clients = OrbitServiceClient::new(node.grpc().await);
    let paused = clients.pause_execution(PauseExecutionRequest { execution_id: "a".into() }).await.unwrap();
    assert_eq!(paused.into_inner().summary.unwrap().status, "PAUSED");
    assert_eq!(post(&node, "a/signals/tell", "1").await.status, 200, "signals are taken");
    assert_eq!(get(&node, "a").await.json()["units"]["wait"]["status"], "WAITING", "and nothing is decided");
    assert_eq!(get(&node, "a/queries/given").await.json()["value"], json!({"n": 9_007_199_254_740_993_u64}));
    clients.resume_execution(ResumeExecutionRequest { execution_id: "a".into() }).await.unwrap();
    let state = get(&node, "a/wait?timeout_ms=30000").await.json();
    assert_eq!((&state["status"], &state["output"]["told"]), (&json!("COMPLETED"), &json!(1)), "{state}");
    let over = post(&node, "a/signals/tell", "").await;
    assert_eq!((over.status, over.code().as_str()), (409, "EXECUTION_FINISHED"));
    assert_eq!(post(&node, "a/pause", "").await.code(), "EXECUTION_FINISHED");
    let redrive = RedriveExecutionRequest { execution_id: "a".into(), ..RedriveExecutionRequest::default() };
    let refused = ended(&clients.redrive_execution(redrive).await.unwrap_err());
    assert_eq!(refused.reason.as_deref(), Some("NOT_REDRIVABLE"));
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_would_be_too_large_names_what_it_leaves_out() {
    let node = started("a").await;
    let start = json!({"workflow": "ask", "execution_id": "big", "input": {"text": "x".repeat(1_600_000)}});
    assert_eq!(node.ask(Ask::new("POST", "/v1/executions").json(&start.to_string())).await.status, 201);
    let once = get(&node, "big/queries/input").await;
    assert!(once.body.len() > 1_600_000 && once.json().get("omitted").is_none());
    let twice = get(&node, "big/queries/twice").await.json();
    assert_eq!(twice, json!({"execution_id": "big", "query": "twice", "omitted": ["value"]}));
    let mut clients = OrbitServiceClient::new(node.grpc().await);
    let query = QueryExecutionRequest { execution_id: "big".into(), query: "twice".into(), wait_ms: None };
    let twice = clients.query_execution(query).await.unwrap().into_inner();
    assert_eq!((twice.value.len(), twice.omitted), (0, vec!["value".to_owned()]));
    let shout = post(&node, "a/signals/shout", "").await;
    assert!(shout.text().contains("it has: more, tell"), "{}", shout.text());
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_query_is_answered_when_the_node_goes_away() {
    let node = started("a").await;
    let address = node.http();
    let ask = Ask::new("GET", "/v1/executions/a/queries/told?wait_ms=300000");
    let stream = tokio::task::spawn_blocking(move || ask.only_send(address)).await.unwrap();
    let arrived = async {
        while !node.ask(Ask::new("GET", "/v1/metrics")).await.text().contains("orbit_http_requests_under_way 2\n") {}
    };
    tokio::time::timeout(PATIENCE, arrived).await.expect("the query arrives");
    node.server.stop().await.unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut { stream }, &mut answer).unwrap();
    let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body, json!({"execution_id": "a", "query": "told", "value": null}), "{answer}");
}
