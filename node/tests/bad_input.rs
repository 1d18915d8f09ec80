//! What callers may send and no node takes: each row of `bad_input.toml` over every surface that can say it. After each
//! the node answers, and holds what it held.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::process::Command;

use orbit_proto::api::orbit_service_client::OrbitServiceClient;
use orbit_proto::api::{GetExecutionRequest, RegisterWorkflowsRequest, StartExecutionRequest};
use orbit_proto::worker::worker_service_client::WorkerServiceClient;
use orbit_proto::worker::{
    CompleteRequest, FailRequest, HeartbeatRequest, PollRequest, RegisterRequest, TaskContract, TaskHeartbeatRequest,
};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Ask, Node, ended};
use tonic::Status;
use tonic::transport::Channel;

/// What the node holds before.
const DOCUMENT: &str = "name: order
version: 1.0.0
tasks: {pay.charge: {version: 1.0.0}}
input: {type: object, required: [n], properties: {n: {type: integer}}}
signals: {tell: {type: object, required: [n], properties: {n: {type: integer}}}}
queries: {sum: input.n + 1, broken: input.n / 0}
steps: [{id: charge, task: pay.charge}]
";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    what: String,
    document: Option<String>,
    generator: Option<String>,
    format: Option<String>,
    start: Option<Start>,
    generator_start: Option<String>,
    look: Option<String>,
    worker: Option<Worker>,
    http: Option<Http>,
    status: u16,
    code: String,
    place: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    workflow: String,
    version: Option<String>,
    input: Option<String>,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Worker {
    call: String,
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Http {
    method: String,
    path: String,
    media_type: Option<String>,
    body: Option<String>,
    header: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    refused: Vec<Row>,
}

fn generated(name: &str) -> String {
    match name {
        "levels" => "[".repeat(10_000),
        "deep" => format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
        "three_mebibytes" => format!("\"{}\"", "x".repeat(3 << 20)),
        "five_mebibytes" => "x".repeat(5 << 20),
        "deep_expression" => format!(
            "name: a\nversion: 1.0.0\nresult: \"${{{}1{}}}\"\nsteps: [{{id: one, sleep: 1s}}]\n",
            "(".repeat(5_000),
            ")".repeat(5_000)
        ),
        "alias_bomb" => {
            let nine = |text: String| vec![text; 9].join(", ");
            let levels = (1..10).map(|level| format!("a{level}: &a{level} [{}]\n", nine(format!("*a{}", level - 1))));
            format!("a0: &a0 [{}]\n{}", nine("x".to_owned()), levels.collect::<String>())
        }
        _ => panic!("no generator {name}"),
    }
}

/// A node that holds a workflow and an execution, whose task a worker has.
struct Held {
    node: Node,
    channel: Channel,
    before: BTreeMap<u16, String>,
}

impl Held {
    async fn new() -> Self {
        // The worker stays silent, and nothing shall come of that.
        let node = Node::start_with(&[("limits.session_timeout_ms", "3600000")]).await;
        let deployed = node.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", DOCUMENT)).await;
        assert_eq!(deployed.status, 201, "{}", deployed.text());
        let start = json!({"workflow": "order", "execution_id": "o-1", "input": {"n": 1}}).to_string();
        assert_eq!(node.ask(Ask::new("POST", "/v1/executions").json(&start)).await.status, 201);
        let contract = json!({"task_name": "pay.charge", "contract_version": "1.0.0"});
        let register = json!({"worker_id": "w", "runtime": "rust", "contracts": [contract]}).to_string();
        let session = node.ask(Ask::new("POST", "/v1/workers/register").json(&register)).await.json();
        let poll = json!({"worker_session_id": session["worker_session_id"]}).to_string();
        let task = node.ask(Ask::new("POST", "/v1/workers/poll").json(&poll)).await.json();
        let alive = json!({"worker_session_id": session["worker_session_id"], "tokens": [task["token"]]}).to_string();
        assert_eq!(node.ask(Ask::new("POST", "/v1/workers/heartbeat").json(&alive)).await.status, 200);
        let channel = node.grpc().await;
        let before = node.server.state_hashes().unwrap();
        Self { node, channel, before }
    }

    /// The node answers, and holds what it held.
    async fn is_as_it_was(&self, what: &str) {
        assert_eq!(self.node.ask(Ask::new("GET", "/v1/health")).await.status, 200, "after {what}");
        assert_eq!(self.node.server.state_hashes().unwrap(), self.before, "after {what}");
        let workflows = self.node.ask(Ask::new("GET", "/v1/workflows")).await.json();
        assert_eq!(workflows["workflows"].as_array().map(Vec::len), Some(1), "after {what}");
    }

    async fn over_http(&self, row: &Row, ask: Ask) {
        let answer = self.node.ask(ask).await;
        assert_eq!((answer.status, answer.code()), (row.status, row.code.clone()), "{}: {}", row.what, answer.text());
        // As a reader of JSON sees it.
        let said = answer.json()["error"].to_string().replace("\\\"", "\"");
        assert!(said.contains(&row.place), "{}: {said}", row.what);
        self.is_as_it_was(&row.what).await;
    }

    /// The command line refuses some of it by itself: as wrong usage, with a word of its own.
    async fn over_the_command_line(&self, what: &str, (code, place): (&str, &str), arguments: &[&str]) {
        let mut arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        arguments.extend(["--address".to_owned(), format!("http://{}", self.node.http())]);
        let (exit, said) = tokio::task::spawn_blocking(move || orbit(&arguments)).await.unwrap();
        let refused = exit == 1 && said.contains(code) && said.contains(place);
        assert!(refused || exit == 2 && said.contains("error: "), "{what} by the command line: {exit} {said}");
        self.is_as_it_was(what).await;
    }

    async fn over_grpc<T: std::fmt::Debug>(&self, row: &Row, answer: Result<T, Status>) {
        let status = answer.expect_err(&row.what);
        let ended = ended(&status);
        assert_eq!(ended.orbit.as_deref(), Some(row.code.as_str()), "{} over gRPC: {status:?}", row.what);
        assert_eq!(ended.reason, ended.orbit, "{} over gRPC", row.what);
        assert!(status.message().contains(&row.place), "{} over gRPC: {status:?}", row.what);
        self.is_as_it_was(&row.what).await;
    }
}

/// Exit code and all that was printed.
fn orbit(arguments: &[String]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_orbit")).env_clear().args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().expect("no signal"), String::from_utf8_lossy(&said).into_owned())
}

fn percent(id: &str) -> String {
    id.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_documents() {
    let held = Held::new().await;
    let mut clients = OrbitServiceClient::new(held.channel.clone());
    let dir = tempfile::tempdir().unwrap();
    for row in rows() {
        let document = match (&row.document, &row.generator) {
            (None, None) => continue,
            (Some(document), _) => document.clone(),
            (None, Some(name)) => generated(name),
        };
        let format = row.format.clone().unwrap_or_else(|| "yaml".to_owned());
        let ask = Ask::new("POST", "/v1/workflows").body(&format!("application/{format}"), document.as_bytes());
        held.over_http(&row, ask).await;
        let request = RegisterWorkflowsRequest { source: document.clone(), format: format.clone() };
        held.over_grpc(&row, clients.register_workflows(request).await).await;
        let file = dir.path().join(format!("a.{format}"));
        std::fs::write(&file, &document).unwrap();
        // What is too long for a request is too long for a source, which a look at the file shows.
        let expected = match row.status {
            413 => ("INVALID_IR", "a source has at most"),
            _ => (row.code.as_str(), row.place.as_str()),
        };
        held.over_the_command_line(&row.what, expected, &["deploy", file.to_str().unwrap()]).await;
    }
    held.node.server.stop().await.unwrap();
}

/// A row of the compiler's own table; what else stands there is looked at there.
#[derive(Deserialize)]
struct Document {
    what: String,
    document: Option<String>,
    format: Option<String>,
    line: u32,
    column: u32,
    path: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_document_that_the_compiler_refuses() {
    #[derive(Deserialize)]
    struct Documents {
        refused: Vec<Document>,
    }
    let held = Held::new().await;
    let rows: Documents = toml::from_str(include_str!("../../workflow/tests/bad_documents.toml")).unwrap();
    for row in rows.refused {
        let Some(document) = row.document else { continue };
        let media_type = if row.format.as_deref() == Some("json") { "application/json" } else { "application/yaml" };
        let answer = held.node.ask(Ask::new("POST", "/v1/workflows").body(media_type, document)).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "INVALID_IR"), "{}: {}", row.what, answer.text());
        let fault = &answer.json()["error"]["details"]["faults"][0];
        let place = (&fault["line"], &fault["column"], &fault["path"]);
        assert_eq!(place, (&json!(row.line), &json!(row.column), &json!(row.path)), "{}: {fault}", row.what);
    }
    held.is_as_it_was("all of them").await;
    held.node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_starts() {
    let held = Held::new().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("input.json");
    let mut clients = OrbitServiceClient::new(held.channel.clone());
    for mut row in rows() {
        let mut start = match (row.start.take(), &row.generator_start) {
            (None, None) => continue,
            (Some(start), _) => start,
            (None, Some(name)) => {
                Start { workflow: "order".into(), version: None, input: Some(generated(name)), id: None }
            }
        };
        if let Some(count) = start.id.as_ref().and_then(|id| id.strip_prefix("x*")) {
            start.id = Some("x".repeat(count.parse().unwrap()));
        }
        let mut body = json!({"workflow": start.workflow});
        for (field, value) in [("version", &start.version), ("execution_id", &start.id)] {
            if let Some(value) = value {
                body[field] = json!(value);
            }
        }
        let mut body = body.to_string();
        if let Some(input) = &start.input {
            body.truncate(body.len() - 1);
            body += &format!(", \"input\": {input}}}");
        }
        held.over_http(&row, Ask::new("POST", "/v1/executions").json(&body)).await;
        let mut arguments = vec!["start", &start.workflow];
        for (flag, value) in [("--version", &start.version), ("--id", &start.id)] {
            arguments.extend(value.iter().flat_map(|value| [flag, value]));
        }
        std::fs::write(&file, start.input.as_deref().unwrap_or("{}")).unwrap();
        let input = format!("@{}", file.display());
        arguments.extend(["--input", &input]);
        held.over_the_command_line(&row.what, (&row.code, &row.place), &arguments).await;
        let request = StartExecutionRequest {
            workflow: start.workflow,
            version: start.version,
            input: start.input.unwrap_or_default().into(),
            execution_id: start.id,
            ..StartExecutionRequest::default()
        };
        held.over_grpc(&row, clients.start_execution(request).await).await;
    }
    held.node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_looks_and_what_only_http_can_say() {
    let held = Held::new().await;
    let mut clients = OrbitServiceClient::new(held.channel.clone());
    for row in rows() {
        if let Some(id) = &row.look {
            held.over_http(&row, Ask::new("GET", &format!("/v1/executions/{}", percent(id)))).await;
            let request = GetExecutionRequest { execution_id: id.clone(), run: None };
            held.over_grpc(&row, clients.get_execution(request).await).await;
            held.over_the_command_line(&row.what, (&row.code, &row.place), &["show", id]).await;
        }
        if let Some(http) = &row.http {
            let mut ask = Ask::new(&http.method, &http.path);
            if let Some(body) = &http.body {
                ask = ask.body(http.media_type.as_deref().unwrap_or("application/json"), body.as_bytes());
            }
            if let Some((name, value)) = http.header.as_ref().and_then(|header| header.split_once(": ")) {
                ask = ask.header(name, value);
            }
            held.over_http(&row, ask).await;
        }
    }
    held.node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_workers() {
    let held = Held::new().await;
    for row in rows() {
        let Some(Worker { call, body }) = &row.worker else { continue };
        let path = match call.as_str() {
            "Register" => "/v1/workers/register",
            "Poll" => "/v1/workers/poll",
            "Heartbeat" => "/v1/workers/heartbeat",
            "Complete" => "/v1/tasks/complete",
            "Fail" => "/v1/tasks/fail",
            "TaskHeartbeat" => "/v1/tasks/heartbeat",
            _ => panic!("no call {call}"),
        };
        held.over_http(&row, Ask::new("POST", path).json(body)).await;
        held.over_grpc(&row, call_of(&held.channel, call, &serde_json::from_str(body).unwrap()).await).await;
    }
    held.node.server.stop().await.unwrap();
}

/// The same call over gRPC.
async fn call_of(channel: &Channel, call: &str, body: &Value) -> Result<(), Status> {
    let mut client = WorkerServiceClient::new(channel.clone());
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let (token, worker_session_id) = (text("token"), text("worker_session_id"));
    match call {
        "Register" => {
            let contract = |contract: &Value| TaskContract {
                task_name: contract["task_name"].as_str().unwrap().to_owned(),
                contract_version: contract["contract_version"].as_str().unwrap().to_owned(),
            };
            let contracts = body["contracts"].as_array().unwrap().iter().map(contract).collect();
            let (worker_id, runtime) = (text("worker_id"), text("runtime"));
            client.register(RegisterRequest { worker_id, runtime, contracts, ..Default::default() }).await.map(drop)
        }
        "Poll" => client.poll(PollRequest { worker_session_id, ..PollRequest::default() }).await.map(drop),
        "Heartbeat" => client.heartbeat(HeartbeatRequest { worker_session_id, tokens: None }).await.map(drop),
        "Complete" => client.complete(CompleteRequest { token, ..CompleteRequest::default() }).await.map(drop),
        "Fail" => {
            let error_code = text("error_code");
            client.fail(FailRequest { token, error_code, ..FailRequest::default() }).await.map(drop)
        }
        _ => client.task_heartbeat(TaskHeartbeatRequest { token, details: None }).await.map(drop),
    }
}

fn rows() -> Vec<Row> {
    let rows: Rows = toml::from_str(include_str!("bad_input.toml")).unwrap();
    for row in &rows.refused {
        let ways = [
            row.document.is_some(),
            row.generator.is_some(),
            row.start.is_some(),
            row.generator_start.is_some(),
            row.look.is_some(),
            row.worker.is_some(),
            row.http.is_some(),
        ];
        assert_eq!(ways.into_iter().filter(|way| *way).count(), 1, "{}: one way each", row.what);
    }
    rows.refused
}
