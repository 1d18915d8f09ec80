//! The executions of which a release leaves the stored form: some are over, the others stop in the middle.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Ask, Node};

/// The documents, by name.
pub const DOCUMENTS: [(&str, &str); 5] = [
    ("order", include_str!("documents/order.yaml")),
    ("nap", include_str!("documents/nap.yaml")),
    ("rounds", include_str!("documents/rounds.yaml")),
    ("tour", include_str!("documents/tour.yaml")),
    ("family", include_str!("documents/family.yaml")),
];

const DAY_MS: u64 = 86_400_000;

/// What a worker does with a task.
enum Act {
    Complete,
    Refuse(&'static str),
    Fail,
    Hold,
}

/// A worker of every task, over HTTP.
pub struct Worker {
    session: String,
}

impl Worker {
    pub async fn register(node: &Node) -> Self {
        let tasks = ["reserve", "release", "charge", "refund", "op", "undo"];
        let contract = |name: &&str| json!({"task_name": name, "contract_version": "1.0.0"});
        let contracts: Vec<_> = tasks.iter().map(contract).collect();
        let body = json!({"worker_id": "w", "runtime": "rust", "contracts": contracts});
        let answer = post(node, "/v1/workers/register", &body).await;
        Self { session: answer["worker_session_id"].as_str().unwrap().to_owned() }
    }

    /// Does as `act` says until nothing comes any more.
    async fn work(&self, node: &Node, act: impl Fn(&str, &str, &str) -> Act) {
        while let Some(task) = self.poll(node, 300).await {
            let word = |name: &str| task[name].as_str().unwrap();
            let token = word("token");
            let failure = |code: &str, retryable: bool| {
                json!({"token": token, "error_code": code, "error_message": "the story wants it",
                    "retryable": retryable})
            };
            match act(word("execution_id"), word("task_name"), word("step_id")) {
                Act::Complete => self.complete(node, &task).await,
                Act::Refuse(code) => drop(post(node, "/v1/tasks/fail", &failure(code, false)).await),
                Act::Fail => drop(post(node, "/v1/tasks/fail", &failure("NO_ANSWER", true)).await),
                Act::Hold => {}
            }
        }
    }

    /// Completes everything that comes.
    pub async fn finish(&self, node: &Node) {
        self.work(node, |_, _, _| Act::Complete).await;
    }

    async fn poll(&self, node: &Node, wait_ms: u64) -> Option<Value> {
        let body = json!({"worker_session_id": self.session, "wait_ms": wait_ms}).to_string();
        let answer = node.ask(Ask::new("POST", "/v1/workers/poll").json(&body)).await;
        (answer.status == 200).then(|| answer.json())
    }

    async fn complete(&self, node: &Node, task: &Value) {
        let output = json!({"receipt": task["step_id"], "was": task["input"]});
        let body = json!({"token": task["token"], "output": output});
        assert_eq!(post(node, "/v1/tasks/complete", &body).await["accepted"], true, "{task}");
    }
}

/// Deploys and plays everything.
pub async fn play(node: &Node) {
    for (_, document) in DOCUMENTS {
        let deployed = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", document)).await;
        assert_eq!(deployed.status, 201, "{}", deployed.text());
    }
    let worker = Worker::register(node).await;
    for id in ["done", "refused", "midway", "retry", "cancelled", "undoing"] {
        start(node, "order", &format!("order-{id}"), order(id)).await;
    }
    start(node, "rounds", "rounds-done", json!({"left": 3})).await;
    start(node, "tour", "tour-done", json!({})).await;
    worker.work(node, story).await;
    post(node, "/v1/executions/order-cancelled/cancel", &json!({"reason": "not wanted any more"})).await;
    worker.work(node, story).await;
    start(node, "nap", "nap-long", json!({"for_ms": 3_650 * DAY_MS})).await;
    start(node, "nap", "nap-due", json!({"for_ms": 20_000})).await;
    start(node, "order", "order-queued", order("queued")).await;
    since_0_2(node, &worker).await;
}

/// Children, signals and their names, attributes, an operator's work: some of it over, some in the middle.
async fn since_0_2(node: &Node, worker: &Worker) {
    for id in ["box-a", "box-b", "box-paused", "box-parked"] {
        start(node, "box", id, json!({})).await;
    }
    for id in ["box-parked", "box-paused"] {
        for n in 1..=3 {
            signal(node, id, n).await;
        }
    }
    signal(node, "box-b", 1).await;
    signal(node, "box-b", 2).await;
    post(node, "/v1/executions/box-paused/pause", &json!({})).await;
    start(node, "family", "family-done", json!({"customer": "a", "count": 3})).await;
    worker.work(node, story).await;
    start(node, "family", "family-midway", json!({"customer": "b", "count": 4})).await;
    start(node, "family", "family-stopped", json!({"customer": "none", "count": 2})).await;
    worker.work(node, story).await;
    post(node, "/v1/executions/family-stopped/cancel", &json!({"reason": "in the middle"})).await;
}

/// A signal whose name says which it is.
pub async fn signal(node: &Node, id: &str, n: u64) -> Value {
    post(node, &format!("/v1/executions/{id}/signals/add?dedup_id=n{n}"), &json!({"n": n})).await
}

/// The input of an order.
pub fn order(id: &str) -> Value {
    json!({"items": ["cup", "plate", "spoon"], "order": id})
}

fn story(execution: &str, task: &str, step: &str) -> Act {
    match (execution, task) {
        ("order-refused" | "order-undoing", "charge") => Act::Refuse("CARD_REFUSED"),
        ("order-retry", "charge") => Act::Fail,
        ("order-cancelled", "charge") | ("order-midway", "reserve") if step != "reserve[0]" => Act::Hold,
        ("order-undoing", "release") if step.ends_with("[0]") => Act::Hold,
        ("box-parked", "op") => Act::Refuse("NOT_TODAY"),
        (id, "op") if id.starts_with("family-midway.parts.2") || id.starts_with("family-stopped") => Act::Hold,
        _ => Act::Complete,
    }
}

/// How each is to end once a worker does everything and time has come; those that are not here go on.
pub fn ends() -> BTreeMap<&'static str, &'static str> {
    [
        ("order-done", "COMPLETED"),
        ("order-refused", "FAILED"),
        ("order-midway", "COMPLETED"),
        ("order-retry", "COMPLETED"),
        ("order-queued", "COMPLETED"),
        ("order-undoing", "FAILED"),
        ("order-cancelled", "CANCELLED"),
        ("rounds-done", "COMPLETED"),
        ("tour-done", "COMPLETED"),
        ("nap-due", "COMPLETED"),
    ]
    .into()
}

/// … and those that came with 0.2.0, after what [`crate::goes_on_since_0_2`] does.
pub fn ends_since_0_2() -> BTreeMap<&'static str, &'static str> {
    [
        ("family-done", "COMPLETED"),
        ("family-midway", "COMPLETED"),
        ("family-midway.parts.3", "COMPLETED"),
        ("family-stopped", "CANCELLED"),
        ("family-stopped.parts.0", "CANCELLED"),
        ("box-b", "COMPLETED"),
        ("box-paused", "COMPLETED"),
        ("box-parked", "COMPLETED"),
    ]
    .into()
}

/// Those that are over when the store is left.
pub const OVER: [&str; 4] = ["order-done", "order-refused", "rounds-done", "tour-done"];

pub async fn start(node: &Node, workflow: &str, id: &str, input: Value) -> Value {
    post(node, "/v1/executions", &json!({"workflow": workflow, "execution_id": id, "input": input})).await
}

pub async fn post(node: &Node, path: &str, body: &Value) -> Value {
    let answer = node.ask(Ask::new("POST", path).json(&body.to_string())).await;
    assert!((200..300).contains(&answer.status), "{path} {body}: {} {}", answer.status, answer.text());
    answer.json()
}

pub async fn get(node: &Node, path: &str) -> Value {
    let answer = node.ask(Ask::new("GET", path)).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}
