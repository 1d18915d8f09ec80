//! The OpenAPI document is true: every route is in it and no other, every answer of a node has the shape that stands
//! there, and every body takes the fields that stand there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;

use jsonschema::{Draft, Validator};
use orbit_actors::engine::membership;
use orbit_node::gateway::http::route::{ROUTES, Takes};
use orbit_raft::PeerAddress;
use orbit_raft::network::GrpcTransport;
use prost::Message;
use serde_json::{Value, json};
use support::{Answer, Ask, Node};
use uuid::Uuid;

const DOCUMENT: &str = "name: order
version: 1.0.0
description: Charges
attributes: {who: {type: string, value: input.who}}
tasks: {pay.charge: {version: 1.0.0}}
input: {type: object, properties: {who: {type: string, default: ann}}}
steps:
  - {id: charge, task: pay.charge, timeout: 1h, heartbeat_timeout: 1h, retry: {max_attempts: 2, initial_delay: 10ms}}
";

/// A node, its document, and the successes that were seen of all that stand there.
struct Held {
    node: Node,
    document: Value,
    seen: BTreeSet<(String, String)>,
}

/// Forbids what is not named, so that a field of an answer that stands nowhere is found.
fn close(shape: &mut Value) {
    match shape {
        Value::Object(members) => {
            if members.contains_key("properties") && !members.contains_key("additionalProperties") {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

impl Held {
    async fn new() -> Self {
        let node = Node::start().await;
        let document = node.ask(Ask::new("GET", "/v1/openapi.json")).await.json();
        Self { node, document, seen: BTreeSet::new() }
    }

    fn validator(&self, shape: &Value) -> Validator {
        let mut root = json!({"components": self.document["components"]});
        close(&mut root["components"]["schemas"]);
        root.as_object_mut().unwrap().extend(shape.as_object().unwrap().clone());
        jsonschema::options().with_draft(Draft::Draft202012).build(&root).unwrap()
    }

    /// Asks, and holds question and answer against the document.
    async fn ask(&mut self, method: &str, path: &str, target: &str, body: Option<Value>) -> Answer {
        let ask = Ask::new(method, target);
        let ask = body.as_ref().map_or(ask.clone(), |body| ask.json(&body.to_string()));
        let answer = self.node.ask(ask).await;
        let described = self.document["paths"][path][method.to_lowercase()].clone();
        let responses = described["responses"].as_object().unwrap();
        let status = answer.status.to_string();
        let response = responses.get(&status).unwrap_or_else(|| {
            assert!(answer.status >= 400, "{method} {target} answers {status}, which stands nowhere");
            &responses["default"]
        });
        if answer.status < 400 {
            self.seen.insert((format!("{method} {path}"), status));
            if let Some(body) = body {
                let shape = &described["requestBody"]["content"]["application/json"]["schema"];
                self.holds(&format!("the body of {method} {target}"), shape, &body);
            }
        }
        let media_type = answer.headers.get("content-type").map_or("", |text| text.split(';').next().unwrap());
        match &response["content"][media_type]["schema"] {
            Value::Null => assert!(answer.body.is_empty() && media_type.is_empty(), "{target}: {media_type:?}"),
            shape if media_type == "application/json" => self.holds(target, shape, &answer.json()),
            shape => assert_eq!(shape["type"], "string"),
        }
        answer
    }

    fn holds(&self, what: &str, shape: &Value, value: &Value) {
        let validator = self.validator(shape);
        let faults: Vec<_> = validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{what}: {faults:#?} in {value}");
    }

    async fn get(&mut self, path: &str, target: &str) -> Answer {
        self.ask("GET", path, target, None).await
    }

    async fn post(&mut self, path: &str, body: Value) -> Value {
        let answer = self.ask("POST", path, path, Some(body)).await;
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_in_the_shapes_that_stand_there() {
    let mut held = Held::new().await;
    workflows(&mut held).await;
    let start = json!({"workflow": "order", "version": "1.0.0", "execution_id": "o-1", "input": {}, "priority": 2});
    held.post("/v1/executions", start.clone()).await;
    held.post("/v1/executions", start).await;
    held.post("/v1/executions", json!({"workflow": "order", "input": {"who": "bob"}})).await;
    let refused = held.post("/v1/executions", json!({"workflow": "order", "input": {"who": 1}})).await;
    assert_eq!(refused["error"]["code"], "INVALID_INPUT");
    tasks(&mut held).await;
    executions(&mut held).await;
    commands(&mut held).await;
    many(&mut held).await;
    nodes(&mut held).await;
    let paths = held.document["paths"].as_object().unwrap();
    let mut all = BTreeSet::new();
    for (path, methods) in paths {
        for (method, described) in methods.as_object().unwrap() {
            let statuses = described["responses"].as_object().unwrap().keys().filter(|status| status.starts_with('2'));
            all.extend(statuses.map(|status| (format!("{} {path}", method.to_uppercase()), status.clone())));
        }
    }
    assert_eq!(held.seen, all, "each success that stands there was seen");
    held.node.server.stop().await.unwrap();
}

async fn nodes(held: &mut Held) {
    held.post("/v1/cluster/init", json!({})).await;
    held.post("/v1/admin/check", json!({"shard": 0})).await;
    // One that was given a number and never came.
    let (seed, nowhere) = (held.node.server.addresses.peer.to_string(), PeerAddress("127.0.0.1:1".to_owned()));
    let (seed, knows) = (PeerAddress(seed), orbit_actors::format::knows());
    let joined = membership::join(&GrpcTransport, &seed, "ghost", &nowhere, Uuid::from_u128(7), knows).await;
    let known = held.get("/v1/cluster", "/v1/cluster").await.json();
    assert_eq!(known["nodes"].as_array().unwrap().len(), 2);
    let last = held.post("/v1/cluster/leave", json!({"node_id": 1})).await;
    assert_eq!(last["error"]["code"], "INVALID_REQUEST", "no node would be left that answers");
    let left = held.post("/v1/cluster/leave", json!({"node_id": joined.unwrap().node.0, "lost": true})).await;
    assert_eq!(left["nodes"].as_array().unwrap().len(), 1, "{left}");
    held.post("/v1/cluster/raise", json!({"dry_run": true})).await;
    held.post("/v1/cluster/drain", json!({})).await;
}

async fn workflows(held: &mut Held) {
    for path in ["/v1/health", "/v1/metrics", "/v1/openapi.json"] {
        held.get(path, path).await;
    }
    let deploy = |source: &str| Ask::new("POST", "/v1/workflows").body("application/yaml", source);
    assert_eq!(held.node.ask(deploy(DOCUMENT)).await.status, 201);
    let two: Vec<Value> = ["a", "b"]
        .map(|name| json!({"name": name, "version": "1.0.0", "steps": [{"id": "s", "sleep": "1h"}]}))
        .into_iter()
        .collect();
    // A body of JSON is one document; several are YAML.
    held.post("/v1/workflows", two[0].clone()).await;
    held.post("/v1/workflows", two[0].clone()).await;
    let several = held.node.ask(deploy(&format!("{}\n---\n{}\n", two[0], two[1]))).await;
    held.holds("several", &json!({"$ref": "#/components/schemas/Registered"}), &several.json());
    assert_eq!(several.json()["workflows"].as_array().map(Vec::len), Some(2));
    held.get("/v1/workflows", "/v1/workflows").await;
    held.get("/v1/workflows/{name}", "/v1/workflows/order").await;
    held.get("/v1/workflows/{name}/{version}", "/v1/workflows/order/1.0.0?form=source").await;
    held.get("/v1/workflows/{name}/{version}", "/v1/workflows/order/1.0.0").await;
    assert_eq!(held.get("/v1/workflows/{name}", "/v1/workflows/none").await.status, 404);
}

async fn tasks(held: &mut Held) {
    let contracts = json!([{"task_name": "pay.charge", "contract_version": "1.0.0"}]);
    let register = json!({"worker_id": "w", "runtime": "rust", "sdk": "none", "slots": 3, "contracts": contracts});
    let session = held.post("/v1/workers/register", register).await["worker_session_id"].clone();
    let first = held.post("/v1/workers/poll", json!({"worker_session_id": session})).await;
    let second = held.post("/v1/workers/poll", json!({"worker_session_id": session, "max_tasks": 5})).await;
    let tokens = json!([first["token"], second["tasks"][0]["token"]]);
    held.post("/v1/workers/heartbeat", json!({"worker_session_id": session, "tokens": tokens})).await;
    held.get("/v1/workers", "/v1/workers").await;
    held.post("/v1/tasks/heartbeat", json!({"token": tokens[0], "details": {"at": 1}})).await;
    let fail = json!({"token": tokens[0], "error_code": "NO_MONEY", "error_message": "later", "retryable": true,
        "unknown": false, "details": [1]});
    held.post("/v1/tasks/fail", fail).await;
    let again = held.post("/v1/workers/poll", json!({"worker_session_id": session, "wait_ms": 30_000})).await;
    assert_eq!((&again["attempt"], &again["last_heartbeat_details"]), (&json!(2), &json!({"at": 1})), "{again}");
    let fail = json!({"token": again["token"], "error_code": "NO_MONEY", "retryable": false, "details": "none"});
    held.post("/v1/tasks/fail", fail).await;
    let complete = json!({"token": tokens[1], "output": {"ok": true}, "worker_session_id": session, "free_slots": 1});
    held.post("/v1/tasks/complete", complete.clone()).await;
    held.post("/v1/tasks/complete", json!({"token": tokens[1], "output": 2})).await;
    held.post("/v1/workers/poll", json!({"worker_session_id": session, "wait_ms": 1})).await;
    held.post("/v1/workers/unregister", json!({"worker_session_id": session})).await;
    let gone = held.post("/v1/workers/poll", json!({"worker_session_id": session})).await;
    assert_eq!(gone["error"]["code"], "UNKNOWN_SESSION");
}

async fn executions(held: &mut Held) {
    let state = held.get("/v1/executions/{id}/wait", "/v1/executions/o-1/wait?timeout_ms=30000").await.json();
    assert!(["FAILED", "COMPLETED"].contains(&state["status"].as_str().unwrap()), "{state}");
    held.post("/v1/executions", json!({"workflow": "a", "execution_id": "a-1"})).await;
    for path in ["", "/units", "/input", "/output", "/history", "/runs"] {
        for id in ["o-1", "a-1"] {
            held.get(&format!("/v1/executions/{{id}}{path}"), &format!("/v1/executions/{id}{path}")).await;
        }
    }
    held.get("/v1/executions/{id}/history", "/v1/executions/o-1/history?from=2&limit=2").await;
    let path = "/v1/executions/{id}/cancel";
    held.ask("POST", path, "/v1/executions/a-1/cancel", Some(json!({"reason": "enough", "force": true}))).await;
    held.ask("POST", path, "/v1/executions/o-1/cancel", None).await;
    let page = held.get("/v1/executions", "/v1/executions?limit=1").await.json();
    assert!(page["next_cursor"].is_string(), "{page}");
    held.get("/v1/executions", "/v1/executions?status=failed&workflow=order&version=1.0.0&since=0&attention=false")
        .await;
    held.get("/v1/executions:count", "/v1/executions:count?until=2100-01-01T00:00:00Z").await;
}

async fn commands(held: &mut Held) {
    let steps = json!([{"id": "s", "await": {"signal": "tell"}}, {"id": "f", "after": ["s"], "fail": {"code": "NO"}}]);
    let document = json!({"name": "ask", "version": "1.0.0", "signals": {"tell": {}},
        "queries": {"told": "steps.s.output"}, "steps": steps});
    held.post("/v1/workflows", document).await;
    let path = "/v1/executions/{id}/signals/{name}:start";
    let start = json!({"workflow": "ask", "version": "1.0.0", "input": {"a": 1}, "payload": {"n": 1}, "dedup_id": "d"});
    for _ in 0..2 {
        held.ask("POST", path, "/v1/executions/s-1/signals/tell:start", Some(start.clone())).await;
    }
    held.post("/v1/executions", json!({"workflow": "ask", "execution_id": "s-2"})).await;
    let told = "/v1/executions/{id}/queries/{name}";
    held.get(told, "/v1/executions/s-2/queries/told").await;
    let path = |what: &str| (format!("/v1/executions/{{id}}/{what}"), format!("/v1/executions/s-2/{what}"));
    for what in ["pause", "resume"] {
        let (path, target) = path(what);
        held.ask("POST", &path, &target, Some(json!({}))).await;
        held.ask("POST", &path, &target, None).await;
    }
    let tell = ("/v1/executions/{id}/signals/{name}", "/v1/executions/s-2/signals/tell");
    held.ask("POST", tell.0, &format!("{}?dedup_id=d", tell.1), Some(json!("now"))).await;
    let answer = held.get(told, "/v1/executions/s-2/queries/told?wait_ms=30000").await.json();
    assert_eq!(answer, json!({"execution_id": "s-2", "query": "told", "value": "now"}));
    held.get("/v1/executions/{id}/wait", "/v1/executions/s-2/wait?timeout_ms=30000").await;
    let (path, target) = path("redrive");
    let steps = json!({"steps": ["s"], "action": "retry"});
    assert_eq!(held.ask("POST", &path, &target, Some(steps)).await.code(), "NOT_REDRIVABLE");
    let state = held.ask("POST", &path, &target, None).await;
    assert_eq!(state.status, 200, "{}", state.text());
}

async fn many(held: &mut Held) {
    held.get("/v1/executions", "/v1/executions?attr.who=ann").await;
    held.get("/v1/executions:count", "/v1/executions:count?attr.who=ann").await;
    let batch = "/v1/executions:batch";
    let filter = json!({"workflow": "order", "since": 0, "attention": false, "attr.who": "ann"});
    let cancel = json!({"filter": filter, "action": "cancel", "reason": "enough", "force": true, "dry_run": true});
    assert_eq!(held.post(batch, cancel).await, json!({"total": 1}));
    let signal = json!({"filter": {"workflow": "ask"}, "action": "signal", "signal": "tell", "payload": {"n": 1}});
    let id = held.post(batch, signal).await["batch_id"].as_str().expect("an id").to_owned();
    let mut state = json!(null);
    while state["status"] != "DONE" {
        state = held.get("/v1/batches/{id}", &format!("/v1/batches/{id}")).await.json();
    }
    assert_eq!((&state["done"], &state["failed"]), (&json!(0), &json!(2)), "both are over: {state}");
    held.ask("POST", "/v1/batches/{id}/stop", &format!("/v1/batches/{id}/stop"), None).await;
    let redrive = json!({"filter": {"status": "failed"}, "action": "redrive", "steps": ["s"],
        "redrive_action": "resolve", "output": null, "dry_run": true});
    held.post(batch, redrive).await;
    assert_eq!(held.ask("DELETE", "/v1/executions/{id}", "/v1/executions/a-1", None).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_its_parameters_and_its_fields_stand_there_and_no_others() {
    let held = Held::new().await;
    let paths = held.document["paths"].as_object().unwrap();
    assert_eq!(paths.values().map(|methods| methods.as_object().unwrap().len()).sum::<usize>(), ROUTES.len());
    let set = prost_types::FileDescriptorSet::decode(orbit_proto::DESCRIPTORS).unwrap();
    for route in ROUTES {
        let what = format!("{} {}", route.method, route.path);
        let described = &paths[route.path][route.method.to_lowercase()];
        let target = route.path.replace(['{', '}'], "");
        let mut ask = Ask::new(route.method, &format!("{target}?colour=1"));
        if route.takes == Takes::Document {
            ask = ask.json("{}");
        }
        let known = named(&held.node.ask(ask).await);
        let refer = |parameter: &Value| resolve(&held.document, parameter);
        let parameters = described["parameters"].as_array().into_iter().flatten().map(refer);
        let query: BTreeSet<_> = parameters.filter(|p| p["in"] == "query").map(|p| text(&p["name"])).collect();
        // A filter has a limit that a count refuses.
        let known: BTreeSet<_> = match route.path {
            "/v1/executions:count" => known.into_iter().filter(|name| name != "limit" && name != "cursor").collect(),
            _ => known,
        };
        assert_eq!(query, known, "{what}");
        let shape = &described["requestBody"]["content"]["application/json"]["schema"];
        let fields = |shape: &Value| -> BTreeSet<String> {
            resolve(&held.document, shape)["properties"].as_object().unwrap().keys().cloned().collect()
        };
        match route.takes {
            Takes::Json => {
                let answer = held.node.ask(Ask::new(route.method, &target).json("{\"colour\": 1}")).await;
                assert_eq!(fields(shape), named(&answer), "{what}");
            }
            // Unknown fields are ignored there; but the fields are those of gRPC.
            Takes::WorkerJson => {
                let name = shape["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
                let file = set.file.iter().find(|file| file.package() == "orbit.worker.v1").unwrap();
                let message = file.message_type.iter().find(|message| message.name() == name).expect(name);
                let names: BTreeSet<_> = message.field.iter().map(|field| field.name().to_owned()).collect();
                assert_eq!(fields(shape), names, "{what}");
            }
            Takes::Nothing | Takes::Document | Takes::Payload => {}
        }
    }
    held.node.server.stop().await.unwrap();
}

fn resolve<'a>(document: &'a Value, reference: &Value) -> &'a Value {
    document.pointer(reference["$ref"].as_str().unwrap().trim_start_matches('#')).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// What a refusal says is known: "expected `a` or `b`", "expected one of `a`, `b`".
fn named(answer: &Answer) -> BTreeSet<String> {
    assert_eq!(answer.status, 400, "{}", answer.text());
    let message = answer.json()["error"]["message"].clone();
    let known = message.as_str().unwrap().split_once("expected ").map_or("", |(_, known)| known);
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
