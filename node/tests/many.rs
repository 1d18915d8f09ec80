//! Executions found by their attributes, acted on together, and removed: through HTTP and gRPC.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use orbit_proto::api::orbit_service_client::OrbitServiceClient;
use orbit_proto::api::{
    Batch, DeleteExecutionRequest, ExecutionFilter, GetBatchRequest, ListExecutionsRequest, StartBatchRequest,
    StopBatchRequest,
};
use serde_json::{Value, json};
use support::{Ask, Node, PATIENCE, ended};
use tonic::transport::Channel;

const DOCUMENT: &str = "name: waiter
version: 1.0.0
input: {type: object, properties: {who: {type: string}, n: {type: integer}}}
attributes: {who: {type: string, value: input.who}, n: {type: integer, value: input.n}}
signals: {go: {type: object}}
steps: [{id: wait, await: {signal: go}}]
result: {told: '${steps.wait.output}'}
";

/// `a0`, `a1`, … of ann, one of bob.
async fn waiters(settings: &[(&'static str, &str)], count: usize) -> Node {
    let node = Node::start_with(settings).await;
    let deployed = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", DOCUMENT)).await;
    assert_eq!(deployed.status, 201, "{}", deployed.text());
    let of_ann = (0..count).map(|n| (format!("a{n}"), "ann", n));
    for (id, who, n) in of_ann.chain([("b0".to_owned(), "bob", 0)]) {
        let start = json!({"workflow": "waiter", "execution_id": id, "input": {"who": who, "n": n}});
        assert_eq!(post(&node, "/v1/executions", &start).await.0, 201);
    }
    node
}

async fn post(node: &Node, path: &str, body: &Value) -> (u16, Value) {
    let answer = node.ask(Ask::new("POST", path).json(&body.to_string())).await;
    (answer.status, answer.json())
}

async fn get(node: &Node, path: &str) -> Value {
    let answer = node.ask(Ask::new("GET", path)).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn count(node: &Node, filter: &str) -> u64 {
    get(node, &format!("/v1/executions:count?{filter}")).await["count"].as_u64().unwrap()
}

async fn begin(node: &Node, batch: &Value) -> String {
    let (status, started) = post(node, "/v1/executions:batch", batch).await;
    assert_eq!(status, 202, "{started}");
    started["batch_id"].as_str().unwrap().to_owned()
}

/// The state of a batch once it is done.
async fn done(node: &Node, id: &str) -> Value {
    let look = async {
        loop {
            let state = get(node, &format!("/v1/batches/{id}")).await;
            if state["status"] == "DONE" {
                return state;
            }
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the batch is done")
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_are_found_by_their_attributes() {
    let node = waiters(&[], 3).await;
    let ids = |page: &Value| -> Vec<String> {
        page["executions"].as_array().unwrap().iter().map(|e| e["execution_id"].as_str().unwrap().to_owned()).collect()
    };
    let page = get(&node, "/v1/executions?attr.who=ann&attr.n=1&status=running").await;
    assert_eq!(ids(&page), ["a1"]);
    assert_eq!(page["executions"][0]["attributes"], json!({"n": 1, "who": "ann"}));
    assert_eq!((count(&node, "attr.who=ann").await, count(&node, "attr.who=").await), (3, 0));
    // From page to page; a cursor of other attributes is refused.
    let first = get(&node, "/v1/executions?attr.who=ann&limit=2").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = get(&node, &format!("/v1/executions?attr.who=ann&limit=2&cursor={cursor}")).await;
    assert_eq!([ids(&first), ids(&second)].concat(), ["a2", "a1", "a0"]);
    let other = node.ask(Ask::new("GET", &format!("/v1/executions?attr.who=bob&cursor={cursor}"))).await;
    assert_eq!((other.status, other.code().as_str()), (400, "INVALID_REQUEST"));

    let mut clients = OrbitServiceClient::new(node.grpc().await);
    let attributes = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let of = |attributes| ListExecutionsRequest { attributes, ..ListExecutionsRequest::default() };
    let page = clients.list_executions(of(attributes("who", "bob"))).await.unwrap().into_inner();
    assert_eq!(page.executions.iter().map(|e| e.execution_id.as_str()).collect::<Vec<_>>(), ["b0"]);
    let refused = clients.list_executions(of(attributes("Who", "bob"))).await.unwrap_err();
    assert_eq!(ended(&refused).orbit.as_deref(), Some("INVALID_REQUEST"));
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_acts_on_all_that_fit_and_on_no_other() {
    let node = waiters(&[], 5).await;
    let filter = json!({"attr.who": "ann"});
    let trial = json!({"filter": filter, "action": "cancel", "dry_run": true});
    assert_eq!(post(&node, "/v1/executions:batch", &trial).await, (200, json!({"total": 5})));
    assert_eq!(count(&node, "status=running").await, 6, "they were only counted");
    let id = begin(&node, &json!({"filter": filter, "action": "pause"})).await;
    let state = done(&node, &id).await;
    assert_eq!((&state["action"], &state["total"], &state["done"]), (&json!("pause"), &json!(5), &json!(5)));
    assert_eq!((&state["failed"], &state["errors"], state.get("stopped")), (&json!(0), &json!([]), None));
    assert_eq!((count(&node, "status=paused").await, count(&node, "status=running").await), (5, 1));
    let id = begin(&node, &json!({"filter": {"status": "paused"}, "action": "resume"})).await;
    assert_eq!(done(&node, &id).await["done"], 5);

    // Those that cannot be signalled any more are named.
    assert_eq!(post(&node, "/v1/executions/a0/cancel", &json!({"force": true})).await.0, 200);
    let signal = json!({"filter": filter, "action": "signal", "signal": "go", "payload": {"n": 7}});
    let state = done(&node, &begin(&node, &signal).await).await;
    assert_eq!((&state["done"], &state["failed"]), (&json!(4), &json!(1)), "{state}");
    let error = &state["errors"][0];
    assert_eq!((&error["execution_id"], &error["code"]), (&json!("a0"), &json!("EXECUTION_FINISHED")));
    let state = get(&node, "/v1/executions/a4/wait?timeout_ms=30000").await;
    assert_eq!((&state["status"], &state["output"]["told"]), (&json!("COMPLETED"), &json!({"n": 7})), "{state}");

    let id = begin(&node, &json!({"filter": filter, "action": "delete"})).await;
    assert_eq!(done(&node, &id).await["done"], 5);
    assert_eq!((count(&node, "since=0").await, count(&node, "attr.who=bob").await), (1, 1));
    let again = node.ask(Ask::new("POST", &format!("/v1/batches/{id}/stop"))).await;
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("DONE")), "{}", again.text());
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_can_be_stopped() {
    // After fifty at once it rests for fifty seconds.
    let node = waiters(&[("limits.batch_rate", "1")], 60).await;
    let id = begin(&node, &json!({"filter": {"attr.who": "ann"}, "action": "pause"})).await;
    let look = async { while get(&node, &format!("/v1/batches/{id}")).await["done"] != 50 {} };
    tokio::time::timeout(PATIENCE, look).await.expect("fifty are done");
    let (status, stopped) = post(&node, &format!("/v1/batches/{id}/stop"), &json!({})).await;
    assert_eq!((status, &stopped["status"], &stopped["stopped"]), (200, &json!("DONE"), &json!(true)), "{stopped}");
    assert!(stopped["done"] == 50 && stopped["finished_at_ms"].is_u64(), "{stopped}");
    assert_eq!(count(&node, "status=paused").await, 50);
    node.server.stop().await.unwrap();
}

async fn finished(clients: &mut OrbitServiceClient<Channel>, id: &str) -> Batch {
    let look = async {
        loop {
            let state = clients.get_batch(GetBatchRequest { batch_id: id.to_owned() }).await.unwrap().into_inner();
            if state.status == "DONE" {
                return state;
            }
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the batch is done")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_over_grpc() {
    let node = waiters(&[], 3).await;
    let mut clients = OrbitServiceClient::new(node.grpc().await);
    let filter = ExecutionFilter {
        workflow: Some("waiter".to_owned()),
        attributes: BTreeMap::from([("who".to_owned(), "ann".to_owned())]),
        ..ExecutionFilter::default()
    };
    let batch = |action: &str| StartBatchRequest {
        filter: Some(filter.clone()),
        action: action.to_owned(),
        ..StartBatchRequest::default()
    };
    let trial = StartBatchRequest { dry_run: true, ..batch("delete") };
    let counted = clients.start_batch(trial).await.unwrap().into_inner();
    assert_eq!((counted.batch_id, counted.total), (None, 3));
    let early = clients.delete_execution(DeleteExecutionRequest { execution_id: "a0".into() }).await.unwrap_err();
    assert_eq!(
        (early.code(), ended(&early).orbit.as_deref()),
        (tonic::Code::FailedPrecondition, Some("EXECUTION_RUNNING"))
    );
    let cancel = StartBatchRequest { reason: Some("enough".into()), force: Some(true), ..batch("cancel") };
    let id = clients.start_batch(cancel).await.unwrap().into_inner().batch_id.unwrap();
    let state = finished(&mut clients, &id).await;
    assert_eq!((state.action.as_str(), state.done, state.failed), ("cancel", 3, 0));
    clients.delete_execution(DeleteExecutionRequest { execution_id: "a0".into() }).await.unwrap();
    let gone = clients.delete_execution(DeleteExecutionRequest { execution_id: "a0".into() }).await.unwrap_err();
    assert_eq!(ended(&gone).orbit.as_deref(), Some("NOT_FOUND"));
    let stopped = clients.stop_batch(StopBatchRequest { batch_id: id }).await.unwrap().into_inner();
    assert_eq!((stopped.status.as_str(), stopped.stopped), ("DONE", false), "it was done before");
    for bad in [
        batch("explode"),
        StartBatchRequest { filter: None, ..batch("pause") },
        StartBatchRequest { signal: Some("go".into()), ..batch("pause") },
        StartBatchRequest { signal: Some("x".repeat(201)), ..batch("signal") },
        StartBatchRequest { signal: Some("go".into()), payload: Some("{".into()), ..batch("signal") },
    ] {
        let refused = clients.start_batch(bad).await.unwrap_err();
        assert_eq!(ended(&refused).orbit.as_deref(), Some("INVALID_REQUEST"), "{refused:?}");
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_goes_after_its_retention() {
    let node = waiters(&[("retention", "1s")], 1).await;
    assert_eq!(post(&node, "/v1/executions/a0/cancel", &json!({})).await.0, 200);
    let removed = async {
        while !node.ask(Ask::new("GET", "/v1/metrics")).await.text().contains("\norbit_removed_runs_total 1\n") {}
    };
    tokio::time::timeout(PATIENCE, removed).await.expect("it is removed");
    assert_eq!(node.ask(Ask::new("GET", "/v1/executions/a0")).await.status, 404);
    assert_eq!(node.ask(Ask::new("GET", "/v1/executions/b0")).await.status, 200, "what runs stays");
    node.server.stop().await.unwrap();
}

/// A history that is full ends its execution, so whoever runs the node hears of it long before.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_grows_long_is_counted_once() {
    let node = waiters(&[], 1).await;
    let document = "{name: hoarder, version: 1.0.0, signals: {more: {type: string}, go: {}}, \
                    steps: [{id: wait, await: {signal: go}}]}";
    let deployed = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", document)).await;
    assert_eq!(deployed.status, 201, "{}", deployed.text());
    assert_eq!(post(&node, "/v1/executions", &json!({"workflow": "hoarder", "execution_id": "h"})).await.0, 201);
    let payload = json!("x".repeat(1 << 20));
    let counted = |text: &str| text.contains("\norbit_long_histories_total 1\n");
    for sent in 1..=60 {
        let (status, answer) = post(&node, "/v1/executions/h/signals/more", &payload).await;
        assert_eq!(status, 200, "{answer}");
        let is_long = counted(node.ask(Ask::new("GET", "/v1/metrics")).await.text());
        assert_eq!(is_long, sent >= 52, "after {sent} MiB");
    }
    node.server.stop().await.unwrap();
}

/// What the nodes of this process log for the audit.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_changes_what_is_written_down() {
    let filter = tracing_subscriber::EnvFilter::new("off,orbit::audit=info");
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).with_writer(|| Log).init();
    let node = waiters(&[], 3).await;
    post(&node, "/v1/executions/a0/cancel", &json!({})).await;
    post(&node, "/v1/executions/a1/cancel", &json!({"force": true})).await;
    node.ask(Ask::new("DELETE", "/v1/executions/a1")).await;
    node.ask(Ask::new("DELETE", "/v1/executions/a2")).await;
    let id = begin(&node, &json!({"filter": {"attr.n": 2}, "action": "cancel", "force": true})).await;
    post(&node, "/v1/executions:batch", &json!({"filter": {"attr.n": 2}, "action": "pause", "dry_run": true})).await;
    node.ask(Ask::new("POST", &format!("/v1/batches/{id}/stop"))).await;
    node.server.stop().await.unwrap();
    let text = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Other tests of this file write as well.
    let line = |action: &str, field: &str, id: &str| {
        let of = lines.iter().filter(|line| line["action"] == action && line[field] == id);
        let of: Vec<_> = of.filter(|line| line["outcome"] != "NOT_FOUND").collect();
        assert!(of.iter().all(|line| line["target"] == "orbit::audit" && line["caller"] == "open"), "{of:?}");
        of.iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(line("force-cancel", "execution_id", "a1"), ["DONE"], "{text}");
    assert_eq!(line("delete", "execution_id", "a1"), ["DONE"], "{text}");
    assert_eq!(line("delete", "execution_id", "a2"), ["EXECUTION_RUNNING"], "also what was refused: {text}");
    assert_eq!(line("batch-start", "batch_id", &id), ["DONE"], "{text}");
    assert_eq!(line("batch-stop", "batch_id", &id), ["DONE"], "{text}");
    assert!(text.contains(r#""of_each":"force-cancel""#), "{text}");
}
