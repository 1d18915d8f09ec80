//! What goes wrong while an execution runs: each row of `bad_runs.toml` on a real node, and what needs a worker or
//! thousands of calls. Whatever happens, the execution says why with a code of its own, and nothing is lost.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use support::{Answer, Ask, Node, PATIENCE};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    ends: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    what: String,
    #[serde(default)]
    helpers: Vec<String>,
    #[serde(default)]
    before: Vec<Before>,
    document: String,
    input: Option<String>,
    cancel: Option<String>,
    status: String,
    code: String,
    place: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    workflow: String,
    id: String,
}

async fn deploy(node: &Node, document: &str) {
    let answer = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", document)).await;
    assert!(matches!(answer.status, 200 | 201), "{document}\n{}", answer.text());
}

async fn start(node: &Node, workflow: &str, version: Option<&str>, id: &str, input: &str) -> Answer {
    let input: Value = serde_json::from_str(input).unwrap();
    let body = json!({"workflow": workflow, "version": version, "execution_id": id, "input": input});
    node.ask(Ask::new("POST", "/v1/executions").json(&body.to_string())).await
}

async fn get(node: &Node, path: &str) -> Value {
    node.ask(Ask::new("GET", &format!("/v1/executions/{path}"))).await.json()
}

async fn post(node: &Node, path: &str, body: &str) -> Answer {
    node.ask(Ask::new("POST", &format!("/v1/executions/{path}")).json(body)).await
}

async fn ended(node: &Node, id: &str) -> Value {
    get(node, &format!("{id}/wait?timeout_ms={}", PATIENCE.as_millis())).await
}

/// Waits until something is true of the state of an execution.
async fn until(node: &Node, id: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let reached = async {
        loop {
            let state = get(node, id).await;
            if holds(&state) {
                return state;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{id}: no {what}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_run_ends_with_its_code() {
    let rows: Rows = toml::from_str(include_str!("bad_runs.toml")).unwrap();
    let node = Node::start().await;
    let mut wrong = Vec::new();
    for (number, row) in rows.ends.iter().enumerate() {
        let (id, version) = (format!("bad-{number}"), format!("1.0.{number}"));
        for helper in &row.helpers {
            deploy(&node, helper).await;
        }
        for Before { workflow, id: other } in &row.before {
            let other = other.replace("bad-ID", &id);
            assert_eq!(start(&node, workflow, None, &other, "{}").await.status, 201, "{}", row.what);
        }
        deploy(&node, &format!("name: bad\nversion: {version}\n{}", row.document)).await;
        let input = row.input.as_deref().unwrap_or("{}");
        let started = start(&node, "bad", Some(&version), &id, input).await;
        assert_eq!(started.status, 201, "{}: {}", row.what, started.text());
        if let Some(other) = &row.cancel {
            let other = other.replace("bad-ID", &id);
            until(&node, &other, "child", |state| state["status"] == "RUNNING").await;
            assert_eq!(post(&node, &format!("{other}/cancel"), "{}").await.status, 200, "{}", row.what);
        }
        let state = ended(&node, &id).await;
        let fits = state["status"] == row.status.as_str() && state["error"]["code"] == row.code.as_str();
        if !fits || !state["error"].to_string().contains(&row.place) {
            wrong.push(format!("{}: {} {}", row.what, state["status"], state["error"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    node.server.stop().await.unwrap();
}

const ATTRIBUTE: &str = "
name: typed
version: 1.0.0
attributes: {n: {type: integer, value: input.n}, broken: {type: number, value: '1 / coalesce(input.d, 1)'}}
steps: [{id: one, compute: '1'}]
";

#[tokio::test(flavor = "multi_thread")]
async fn an_attribute_of_another_type_refuses_the_start() {
    let node = Node::start().await;
    deploy(&node, ATTRIBUTE).await;
    for (input, place) in [(r#"{"n": "seven"}"#, "n"), (r#"{"n": 1.5}"#, "n"), (r#"{"n": 1, "d": 0}"#, "broken")] {
        let refused = start(&node, "typed", None, "t", input).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "INVALID_INPUT"), "{input}");
        assert!(refused.text().contains(place), "{}", refused.text());
    }
    assert_eq!(start(&node, "typed", None, "t", r#"{"n": 7}"#).await.status, 201);
    node.server.stop().await.unwrap();
}

const BUFFER: &str = "
name: buffer
version: 1.0.0
signals: {go: {type: object}, stop: {type: object}}
steps: [{id: wait, await: {signal: stop}}]
";

/// The 10 001st signal that nobody takes is refused; those before are all there, and one that is taken goes through.
#[tokio::test(flavor = "multi_thread")]
async fn the_ten_thousand_and_first_signal_is_refused() {
    use orbit_proto::api::SignalExecutionRequest;
    use orbit_proto::api::orbit_service_client::OrbitServiceClient;
    let node = Node::start().await;
    deploy(&node, BUFFER).await;
    start(&node, "buffer", None, "b", "{}").await;
    let client = OrbitServiceClient::new(node.grpc().await);
    let signal = |name: &str| {
        let (mut client, signal) = (client.clone(), name.to_owned());
        let payload = "{}".into();
        async move {
            let request = SignalExecutionRequest { execution_id: "b".into(), signal, payload, ..Default::default() };
            client.signal_execution(request).await
        }
    };
    for _ in 0..100 {
        let sent = futures::future::join_all((0..100).map(|_| signal("go"))).await;
        assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    }
    let refused = post(&node, "b/signals/go", "{}").await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "OVERLOADED"));
    let stopped = ended_after(&node, signal("stop")).await;
    assert_eq!(stopped["status"], "RUNNING", "it counts like any other while it waits: {stopped}");
    post(&node, "b/cancel", "{}").await;
    let state = ended(&node, "b").await;
    let last = get(&node, &format!("b/history?from={}", state["last_seq"])).await;
    assert_eq!(last["events"][0]["unconsumed_signals"], 10_000, "{last}");
    node.server.stop().await.unwrap();
}

async fn ended_after<T>(node: &Node, signal: impl Future<Output = Result<T, tonic::Status>>) -> Value {
    assert_eq!(signal.await.err().map(|status| status.code()), Some(tonic::Code::ResourceExhausted));
    get(node, "b").await
}

const KILLER: &str = "
name: killer
version: 1.0.0
tasks: {kill: {version: 1.0.0}}
steps: [{id: kill, task: kill, retry: {max_attempts: 1}}]
";

/// A task that its worker does not survive is handed over ten times, and then it is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_kills_its_worker_ten_times_fails() {
    let node =
        Node::start_with(&[("limits.session_timeout_ms", "1000"), ("limits.heartbeat_interval_ms", "200")]).await;
    deploy(&node, KILLER).await;
    start(&node, "killer", None, "k", "{}").await;
    for hand_over in 1..=10 {
        let contract = json!({"task_name": "kill", "contract_version": "1.0.0"});
        let register = json!({"worker_id": format!("w{hand_over}"), "runtime": "rust", "contracts": [contract]});
        let session = node.ask(Ask::new("POST", "/v1/workers/register").json(&register.to_string())).await.json();
        let poll = json!({"worker_session_id": session["worker_session_id"], "wait_ms": 60_000}).to_string();
        let task = tokio::select! {
            task = node.ask(Ask::new("POST", "/v1/workers/poll").json(&poll)) => task,
            () = heartbeats(&node, &session) => unreachable!("they go on for ever"),
        };
        assert_eq!(task.status, 200, "hand-over {hand_over}");
        assert_eq!((&task.json()["attempt"], &task.json()["redelivery"]), (&json!(1), &json!(hand_over > 1)));
        // It is never heard of again.
    }
    let state = ended(&node, "k").await;
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("FAILED"), &json!("WORKER_LOST")), "{state}");
    node.server.stop().await.unwrap();
}

/// A poll that waits is no sign of life: a worker that waits for as long as a session lasts says that it is there.
async fn heartbeats(node: &Node, session: &Value) {
    let every = Duration::from_millis(session["heartbeat_interval_ms"].as_u64().unwrap());
    let mut ticks = tokio::time::interval(every);
    let heartbeat = json!({"worker_session_id": session["worker_session_id"]}).to_string();
    loop {
        ticks.tick().await;
        node.ask(Ask::new("POST", "/v1/workers/heartbeat").json(&heartbeat)).await;
    }
}

const UNDO: &str = "
name: undo
version: 1.0.0
tasks: {nobody.undoes: {version: 1.0.0}}
steps:
  - id: book
    steps: [{id: one, compute: '1'}]
    compensate: {task: nobody.undoes}
  - {id: boom, after: [book], fail: {code: BOOM}}
";

/// An undo that no worker takes keeps its execution, which says so, until force ends it.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_without_a_worker_waits_until_force_ends_it() {
    let node = Node::start().await;
    deploy(&node, UNDO).await;
    start(&node, "undo", None, "u", "{}").await;
    let waits = |state: &Value| state["units"]["compensate:book"]["status"] == "SCHEDULED";
    let state = until(&node, "u", "undo", waits).await;
    assert_eq!(state["status"], "RUNNING");
    assert!(state["waiting_for"].to_string().contains("compensate:book"), "{state}");
    let forced = post(&node, "u/cancel", r#"{"force": true}"#).await.json();
    assert_eq!((&forced["status"], &forced["compensation"]), (&json!("CANCELLED"), &json!("failed")), "{forced}");
    node.server.stop().await.unwrap();
}
