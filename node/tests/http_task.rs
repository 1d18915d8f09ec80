//! `orbit.http.request` on a node, against sites on loopback (language L5, L12, L13).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod site;
mod support;

use orbit_node::server::{Exposure, Server};
use serde_json::{Value, json};
use site::{Reply, Site, redirect};
use support::{Ask, Node};

const CALL: &str = "name: call
version: 1.0.0
input: {type: object, required: [request], properties: {request: {type: object}}}
steps:
  - id: get
    task: orbit.http.request
    input: '${input.request}'
    retry: {max_attempts: 3, initial_delay: 10ms, jitter: 0}
result: ${steps.get.output}
";

struct Orbit(Node);

impl Orbit {
    /// A node whose tasks may reach these sites.
    async fn start(sites: &[&Site], settings: &[(&'static str, &str)]) -> Self {
        let allowed: Vec<_> = sites.iter().map(|site| site.address.to_string()).collect();
        let allowed = allowed.join(",");
        let mut all = vec![("http_task.enabled", "true"), ("http_task.allow", allowed.as_str())];
        all.extend(settings);
        let orbit = Self(Node::start_with(&all).await);
        orbit.deploy(CALL).await;
        orbit
    }

    async fn deploy(&self, document: &str) {
        let answer = self.0.ask(Ask::new("POST", "/v1/workflows").body("application/yaml", document)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.json()["warnings"], json!([]), "nobody is missing: the node itself works for it");
    }

    /// A node that is only dropped may outlive the process that it is in, which then ends badly.
    async fn stop(self) {
        self.0.server.stop().await.unwrap();
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.0.ask(Ask::new("GET", path)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    async fn begin(&self, workflow: &str, input: Value) -> String {
        let body = json!({"workflow": workflow, "input": input}).to_string();
        let answer = self.0.ask(Ask::new("POST", "/v1/executions").json(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["execution_id"].as_str().unwrap().to_owned()
    }

    async fn end(&self, id: &str) -> Value {
        self.get(&format!("/v1/executions/{id}/wait?timeout_ms=60000")).await
    }

    /// The state in which a request ends.
    async fn call(&self, request: Value) -> Value {
        let id = self.begin("call", json!({"request": request})).await;
        self.end(&id).await
    }

    async fn history(&self, id: &str) -> Vec<Value> {
        let history = self.get(&format!("/v1/executions/{id}/history")).await;
        history["events"].as_array().unwrap().clone()
    }

    async fn events(&self, state: &Value, kind: &str) -> Vec<Value> {
        let id = state["execution_id"].as_str().unwrap();
        self.history(id).await.into_iter().filter(|event| event["type"] == kind).collect()
    }

    async fn cancel(&self, id: &str) {
        let answer = self.0.ask(Ask::new("POST", &format!("/v1/executions/{id}/cancel")).json("{}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

fn get(url: impl Into<String>) -> Value {
    json!({"method": "GET", "url": url.into()})
}

fn code(state: &Value) -> &str {
    state["error"]["code"].as_str().unwrap_or_else(|| panic!("{state}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_becomes_an_output() {
    let site = Site::open(|seen, _| match seen.target.as_str() {
        "/json" => site::json(201, r#"{"id": 12345678901234567, "at": "\u00e4"}"#),
        "/text" => site::text(200, "[1]"),
        "/empty" => Reply::Answer(204, Vec::new(), Vec::new()),
        "/gone" => site::text(404, "no such thing"),
        _ => site::json(200, &json!({"method": seen.method, "target": seen.target, "body": seen.body}).to_string()),
    })
    .await;
    let orbit = Orbit::start(&[&site], &[]).await;
    let output = async |request: Value| {
        let state = orbit.call(request).await;
        assert_eq!(state["status"], "COMPLETED", "{state}");
        state["output"].clone()
    };
    let created = output(get(site.url("/json"))).await;
    assert_eq!((&created["status"], &created["body"]), (&json!(201), &json!({"id": 12345678901234567_i64, "at": "ä"})));
    assert_eq!(created["headers"]["content-type"], "application/json");
    assert_eq!(output(get(site.url("/text"))).await["body"], "[1]");
    assert_eq!(output(get(site.url("/empty"))).await["body"], json!(null));
    let missing = output(json!({"method": "GET", "url": site.url("/gone"), "accept": [404]})).await;
    assert_eq!((&missing["status"], &missing["body"]), (&json!(404), &json!("no such thing")));
    let request = json!({
        "method": "POST", "url": site.url("/p?a=1"), "query": {"b": "x y"}, "headers": {"X-Own": "1"}, "body": {"n": 1},
    });
    let posted = output(request).await;
    assert_eq!(posted["body"], json!({"method": "POST", "target": "/p?a=1&b=x+y", "body": r#"{"n":1}"#}));
    let seen = site.seen();
    let last = seen.last().unwrap();
    assert_eq!(last.headers["host"], site.address.to_string());
    assert_eq!((&*last.headers["x-own"], &*last.headers["content-type"]), ("1", "application/json"));
    assert!(!last.headers.contains_key("accept-encoding"), "nothing compressed is asked for");
    assert_eq!(last.headers["idempotency-key"].len(), 32);
    assert!(seen.iter().all(|one| one.port == seen[0].port), "one connection for all, one after another");

    let state = orbit.call(get(site.url("/gone"))).await;
    assert_eq!(code(&state), "HTTP_ERROR");
    assert_eq!(state["error"]["details"]["body"], "no such thing");
    assert_eq!(orbit.events(&state, "RetryScheduled").await.len(), 0, "404 is no matter of patience");
    orbit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_tried_again_with_the_same_key_and_the_servers_patience() {
    let site = Site::open(|seen, number| match (seen.target.as_str(), number) {
        ("/flaky", 1) => site::text(500, "oops"),
        ("/busy", 3) => Reply::Answer(429, vec![("retry-after", "1".into())], Vec::new()),
        ("/busy", 4) => {
            let date = |seconds: u8| format!("Wed, 21 Oct 2015 07:28:{seconds:02} GMT");
            Reply::Answer(503, vec![("date", date(10)), ("retry-after", date(11))], Vec::new())
        }
        _ => site::text(200, "at last"),
    })
    .await;
    let orbit = Orbit::start(&[&site], &[]).await;
    let state = orbit.call(get(site.url("/flaky"))).await;
    assert_eq!(state["output"]["body"], "at last");
    let keys: Vec<_> = site.seen().iter().map(|seen| seen.headers["idempotency-key"].clone()).collect();
    assert_eq!(keys[0], keys[1]);
    let scheduled = &orbit.events(&state, "StepScheduled").await[0];
    assert_eq!(scheduled["idempotency_key"], *keys[0]);
    assert_eq!(scheduled["queue"], json!({"task": "orbit.http.request"}));
    let dispatched = orbit.events(&state, "StepDispatched").await;
    assert!(dispatched.iter().all(|event| event["worker_id"] == "orbit"), "{dispatched:?}");
    assert_eq!(dispatched[0]["worker_session"], dispatched[1]["worker_session"], "of one node");
    let failed = &orbit.events(&state, "StepAttemptFailed").await[0];
    assert_eq!(failed["error"]["details"]["status"], 500);
    assert_eq!(failed["unknown"], false);

    let state = orbit.call(get(site.url("/busy"))).await;
    assert_eq!(state["output"]["body"], "at last");
    let delays: Vec<_> = orbit.events(&state, "RetryScheduled").await.iter().map(|e| e["delay_ms"].clone()).collect();
    assert_eq!(delays, [1_000, 1_000]);
    orbit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_followed_a_few_times_and_never_where_the_request_may_not_go() {
    let forbidden = Site::open(|_, _| site::text(200, "inside")).await;
    let inside = forbidden.url("/");
    let site = Site::open(move |seen, _| match seen.target.as_str() {
        "/moved" => redirect(302, "/found?a=1#part"),
        "/kept" => redirect(307, "/found"),
        "/loop" => redirect(301, "/loop"),
        "/inside" => redirect(307, &inside),
        "/metadata" => redirect(302, "http://169.254.169.254/latest/meta-data/"),
        "/decimal" => redirect(302, "http://2130706433:1/"),
        "/file" => redirect(302, "file:///etc/passwd"),
        "/user" => redirect(302, "http://user:password@a.example/"),
        _ => site::json(200, &json!({"method": seen.method, "target": seen.target, "body": seen.body}).to_string()),
    })
    .await;
    let orbit = Orbit::start(&[&site], &[]).await;
    let post = |path: &str| json!({"method": "POST", "url": site.url(path), "body": "x"});
    let moved = orbit.call(post("/moved")).await;
    assert_eq!(moved["output"]["body"], json!({"method": "GET", "target": "/found?a=1", "body": ""}));
    let kept = orbit.call(post("/kept")).await;
    assert_eq!(kept["output"]["body"], json!({"method": "POST", "target": "/found", "body": "x"}));
    let mut shown = post("/moved");
    shown["accept"] = json!([302]);
    assert_eq!(orbit.call(shown).await["output"]["status"], 302, "the author asked to see it");
    let before = site.seen().len();
    let astray = orbit.call(post("/loop")).await;
    assert_eq!((code(&astray), &astray["error"]["details"]["status"]), ("HTTP_ERROR", &json!(301)));
    assert_eq!(site.seen().len() - before, 6, "the request and five redirects, once");
    for path in ["/inside", "/metadata", "/decimal"] {
        let state = orbit.call(post(path)).await;
        assert_eq!(code(&state), "ADAPTER_DISABLED", "{path}");
        let failed = &orbit.events(&state, "StepAttemptFailed").await[0];
        assert_eq!((&failed["unknown"], &failed["error"]["retryable"]), (&json!(true), &json!(false)), "{path}");
    }
    for path in ["/file", "/user"] {
        let state = orbit.call(post(path)).await;
        assert_eq!(code(&state), "INPUT_CONTRACT_VIOLATION", "{path}");
    }
    assert_eq!(forbidden.seen().len(), 0, "nobody came in");
    orbit.stop().await;
}

/// Whatever stands for an address of this machine or its network is refused, however it is spelt.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_inside_is_refused_unless_it_is_named() {
    let site = Site::open(|_, _| site::text(200, "inside")).await;
    let other = Site::open(|_, _| site::text(200, "inside")).await;
    let orbit = Orbit::start(&[&site], &[]).await;
    let port = other.address.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "2130706433",
        "0x7f.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "[fd00::1]",
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "192.168.0.1",
        "%31%32%37.0.0.1",
    ] {
        let state = orbit.call(get(format!("http://{host}:{port}/"))).await;
        assert_eq!(code(&state), "ADAPTER_DISABLED", "{host}");
        assert_eq!(state["error"]["details"]["reason"], "address", "{host}");
        let failed = &orbit.events(&state, "StepAttemptFailed").await[0];
        assert_eq!(failed["unknown"], false, "{host}: nothing was sent");
    }
    assert_eq!(other.seen().len(), 0);
    let state = orbit.call(get(format!("http://localhost:{}/", site.address.port()))).await;
    assert_eq!(state["output"]["body"], "inside", "the name leads to an address that is named");

    let named = format!("localhost:{port}");
    orbit.stop().await;
    let orbit = Orbit::start(&[], &[("http_task.allow", &named)]).await;
    assert_eq!(orbit.call(get(format!("http://localhost:{port}/"))).await["output"]["body"], "inside");
    assert_eq!(
        code(&orbit.call(get(other.url("/"))).await),
        "ADAPTER_DISABLED",
        "the name is allowed, not the address"
    );
    orbit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_longer_than_a_payload() {
    let site = Site::open(|seen, _| match seen.target.as_str() {
        "/announced" => site::text(200, &"x".repeat((2 << 20) + 1)),
        "/endless" => Reply::Endless,
        "/escaped" => site::text(200, &"\u{1}".repeat(1 << 20)),
        "/head" => Reply::Raw(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20)).into()),
        "/lines" => Reply::Raw(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(1_000)).into()),
        "/old" => Reply::Raw(b"<html>HTTP/0.9</html>".into()),
        _ => site::text(500, &"x".repeat(100_000)),
    })
    .await;
    let orbit = Orbit::start(&[&site], &[]).await;
    for path in ["/announced", "/endless", "/escaped"] {
        let state = orbit.call(get(site.url(path))).await;
        assert_eq!(code(&state), "PAYLOAD_TOO_LARGE", "{path}");
        let failed = orbit.events(&state, "StepAttemptFailed").await;
        assert_eq!((failed.len(), &failed[0]["unknown"]), (1, &json!(true)), "{path}: it was done, and once");
    }
    for path in ["/head", "/lines", "/old"] {
        let state = orbit.call(get(site.url(path))).await;
        assert_eq!(code(&state), "HTTP_UNREACHABLE", "{path}: {state}");
    }
    let state = orbit.call(get(site.url("/error"))).await;
    assert_eq!(code(&state), "HTTP_ERROR");
    let details = &state["error"]["details"];
    assert_eq!((&details["body"], &details["body_omitted"]), (&json!(null), &json!(true)));
    orbit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_in_time_is_unknown_and_frees_the_connection() {
    let site = Site::open(|_, _| Reply::Nothing).await;
    let nobody = Site::open(|_, _| Reply::Nothing).await;
    let orbit = Orbit::start(&[&site], &[("http_task.allow", "127.0.0.0/8")]).await;
    let state = orbit.call(json!({"method": "GET", "url": site.url("/"), "timeout": "50ms"})).await;
    assert_eq!(code(&state), "HTTP_UNREACHABLE");
    let failed = orbit.events(&state, "StepAttemptFailed").await;
    assert_eq!((failed.len(), &failed[0]["unknown"]), (3, &json!(true)), "it is tried again");
    site.until(|log| log.left == 3).await;

    let timed = CALL.replace("name: call", "name: timed").replace("    retry:", "    timeout: 50ms\n    retry:");
    orbit.deploy(&timed).await;
    let id = orbit.begin("timed", json!({"request": get(site.url("/"))})).await;
    assert_eq!(code(&orbit.end(&id).await), "TIMEOUT", "the step's own time-out is the engine's");
    site.until(|log| log.left == 6).await;

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = listener.local_addr().unwrap();
    drop((listener, nobody));
    let state = orbit.call(get(format!("http://{free}/"))).await;
    assert_eq!(code(&state), "HTTP_UNREACHABLE");
    let state = orbit.call(get("http://no-such-host.invalid/")).await;
    assert_eq!(code(&state), "HTTP_UNREACHABLE");
    orbit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_closes_the_connection_and_undoes_what_may_have_happened() {
    let site =
        Site::open(|seen, _| if seen.method == "PUT" { Reply::Nothing } else { site::text(200, "undone") }).await;
    let orbit = Orbit::start(&[&site], &[]).await;
    // Its own time-out, which closes the connection too, is far beyond the patience of this test.
    let request = json!({"method": "PUT", "url": site.url("/"), "timeout": "1h"});
    let id = orbit.begin("call", json!({"request": request})).await;
    site.until(|log| log.seen.len() == 1).await;
    orbit.cancel(&id).await;
    assert_eq!(orbit.end(&id).await["status"], "CANCELLED");
    site.until(|log| log.left == 1).await;
    assert!(!orbit.history(&id).await.iter().any(|event| event["type"] == "StaleResultIgnored"), "nothing is reported");

    let document = "name: saga
version: 1.0.0
input: {type: object, required: [url], properties: {url: {type: string}}}
cancel_grace: 10m
steps:
  - id: put
    task: orbit.http.request
    input: {method: PUT, url: '${input.url}'}
    compensate:
      task: orbit.http.request
      input: {method: DELETE, url: '${input.url}', headers: {x-undoes: '${idempotency_key}'}}
";
    orbit.deploy(document).await;
    let id = orbit.begin("saga", json!({"url": site.url("/")})).await;
    site.until(|log| log.seen.len() == 2).await;
    orbit.cancel(&id).await;
    let state = orbit.end(&id).await;
    assert_eq!((&state["status"], &state["compensation"]), (&json!("CANCELLED"), &json!("completed")), "{state}");
    let seen = site.seen();
    assert_eq!((&*seen[2].method, &seen[2].headers["x-undoes"]), ("DELETE", &seen[1].headers["idempotency-key"]));
    let uncertain = orbit.events(&state, "StepAttemptUncertain").await;
    assert_eq!(uncertain[0]["reason"], "stopped", "long before the grace is over: {uncertain:?}");
    orbit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_to_its_server_and_is_recorded_nowhere() {
    const SECRET: &str = "Bearer k3y/of\"the+kingdom=";
    let elsewhere = Site::open(|seen, _| site::json(200, &json!(seen.headers).to_string())).await;
    let to = elsewhere.url("/");
    let site = Site::open(move |seen, number| match seen.target.as_str() {
        "/away" => redirect(307, &to),
        "/fails" => {
            Reply::Answer(400, vec![("x-echo", seen.headers["authorization"].clone())], seen.target.clone().into())
        }
        _ => {
            let body = json!({"headers": seen.headers, "number": number}).to_string();
            let echo = seen.headers["authorization"].clone();
            Reply::Answer(200, vec![("content-type", "application/json".into()), ("x-echo", echo)], body.into())
        }
    })
    .await;
    let secrets = tempfile::tempdir().unwrap();
    std::fs::write(secrets.path().join("kingdom"), format!("{SECRET}\n")).unwrap();
    let orbit =
        Orbit::start(&[&site, &elsewhere], &[("http_task.secrets_dir", secrets.path().to_str().unwrap())]).await;
    let with = |path: &str, name: &str| {
        let headers = json!({"Authorization": {"secret": name}, "cookie": "a=b"});
        json!({"method": "GET", "url": site.url(path), "headers": headers})
    };
    let state = orbit.call(with("/echo", "kingdom")).await;
    assert_eq!(site.seen()[0].headers["authorization"], SECRET, "the server gets it");
    assert_eq!(state["output"]["body"]["headers"]["authorization"], "[secret]");
    assert_eq!(state["output"]["headers"]["x-echo"], "[secret]");
    let failed = orbit.call(with("/fails", "kingdom")).await;
    assert_eq!(failed["error"]["details"]["headers"]["x-echo"], "[secret]");
    let away = orbit.call(with("/away", "kingdom")).await;
    let there = &elsewhere.seen()[0].headers;
    assert!(!there.contains_key("authorization") && !there.contains_key("cookie"), "{there:?}");
    assert_eq!(away["status"], "COMPLETED");
    let absent = orbit.call(with("/echo", "queendom")).await;
    assert_eq!((code(&absent), &absent["error"]["details"]["reason"]), ("ADAPTER_DISABLED", &json!("secret")));

    for state in [&state, &failed, &away, &absent] {
        let id = state["execution_id"].as_str().unwrap();
        let history = serde_json::to_string(&orbit.history(id).await).unwrap();
        assert!(history.contains("kingdom") || history.contains("queendom"), "its name is recorded");
        assert!(!history.contains("k3y") && !state.to_string().contains("k3y"));
    }
    let Orbit(Node { server, dir }) = orbit;
    server.stop().await.unwrap();
    let mut files = vec![dir.path().to_owned()];
    let mut read = 0;
    while let Some(path) = files.pop() {
        match path.is_dir() {
            true => files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                read += bytes.len();
                assert!(!bytes.windows(9).any(|window| window == b"k3y/of\"th"), "{}", path.display());
            }
        }
    }
    assert!(read > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_send_says_so() {
    let site = Site::open(|_, _| site::text(200, "")).await;
    for settings in [&[("http_task.enabled", "false")][..], &[("http_task.enabled", "")]] {
        let orbit = Orbit::start(&[&site], settings).await;
        let state = orbit.call(get(site.url("/"))).await;
        assert_eq!((code(&state), &state["error"]["details"]["reason"]), ("ADAPTER_DISABLED", &json!("disabled")));
        assert_eq!(orbit.events(&state, "RetryScheduled").await.len(), 0);
        orbit.stop().await;
    }
    assert_eq!(site.seen().len(), 0);
}

/// The session of the node stands in every history: nobody else speaks for it.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_the_place_of_the_node() {
    let site = Site::open(|_, _| Reply::Nothing).await;
    let orbit = Orbit::start(&[&site], &[]).await;
    let id = orbit.begin("call", json!({"request": get(site.url("/"))})).await;
    site.until(|log| log.seen.len() == 1).await;
    let history = orbit.history(&id).await;
    let dispatched = history.iter().find(|event| event["type"] == "StepDispatched").unwrap();
    let session = dispatched["worker_session"].as_str().unwrap();
    let ask = async |route: &str, body: Value| {
        let answer = orbit.0.ask(Ask::new("POST", &format!("/v1/workers/{route}")).json(&body.to_string())).await;
        (answer.status, answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let unknown = (404, "UNKNOWN_SESSION".to_owned());
    assert_eq!(ask("heartbeat", json!({"worker_session_id": session, "tokens": []})).await, unknown);
    assert_eq!(ask("poll", json!({"worker_session_id": session, "wait_ms": 0})).await, unknown);
    assert_eq!(ask("unregister", json!({"worker_session_id": session})).await.0, 200, "as for any that is not there");
    let contracts = json!([{"task_name": "t", "contract_version": "1.0.0"}]);
    let named = json!({"worker_id": "orbit", "runtime": "x", "contracts": contracts, "worker_session_id": session});
    assert_eq!(ask("register", named).await, (400, "INVALID_REQUEST".to_owned()));
    let reserved = json!([{"task_name": "orbit.http.request", "contract_version": "1.0.0"}]);
    let builtin = json!({"worker_id": "w", "runtime": "x", "contracts": reserved});
    assert_eq!(ask("register", builtin).await, (400, "RESERVED_TASK".to_owned()));
    let other = json!({"worker_id": "w", "runtime": "x", "contracts": contracts, "worker_session_id": session});
    assert_eq!(ask("register", other).await.0, 200, "as a session of its own");
    assert_eq!(orbit.history(&id).await.len(), history.len(), "the request is under way as before");
    let workers = orbit.get("/v1/workers").await;
    assert_eq!(workers["workers"].as_array().unwrap().len(), 1, "the node is none that anybody runs: {workers}");
    assert_eq!(workers["workers"][0]["worker_id"], "w");
    orbit.stop().await;
}

/// A worker that shows no sign of life loses its task; the node shows that it lives while it waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_takes_long_is_no_silence() {
    let site = Site::open(|_, _| Reply::Nothing).await;
    let orbit = Orbit::start(&[&site], &[]).await;
    let patient = CALL.replace("name: call", "name: patient").replace("max_attempts: 3", "max_attempts: 1");
    orbit.deploy(&patient.replace("    retry:", "    heartbeat_timeout: 1500ms\n    retry:")).await;
    let request = json!({"method": "GET", "url": site.url("/"), "timeout": "4s"});
    let id = orbit.begin("patient", json!({"request": request})).await;
    assert_eq!(code(&orbit.end(&id).await), "HTTP_UNREACHABLE", "not HEARTBEAT_TIMEOUT, long before");
    orbit.stop().await;
}

/// A node that goes away waits for a moment, then leaves the request to whoever comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_gives_its_requests_back() {
    let site = Site::open(|_, number| if number == 1 { Reply::Nothing } else { site::text(200, "again") }).await;
    let orbit = Orbit::start(&[&site], &[]).await;
    let id = orbit.begin("call", json!({"request": get(site.url("/"))})).await;
    site.until(|log| log.seen.len() == 1).await;
    let Orbit(Node { server, dir }) = orbit;
    server.stop().await.unwrap();
    site.until(|log| log.left == 1).await;
    let allowed = site.address.to_string();
    let config = support::config(&dir, &[("http_task.enabled", "true"), ("http_task.allow", &allowed)]);
    let server = Server::start_alone(&config, Exposure::Loopback).await.unwrap();
    let orbit = Orbit(Node { server, dir });
    assert_eq!(orbit.end(&id).await["output"]["body"], "again");
    let seen = site.seen();
    assert_eq!(seen[0].headers["idempotency-key"], seen[1].headers["idempotency-key"]);
    orbit.stop().await;
}
