//! `orbit.http.request` in a process of its own: one that is killed in the middle, and one that trusts a certificate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod site;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use site::{Reply, Site};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const DOCUMENT: &str = "name: call
version: 1.0.0
input: {type: object, required: [request], properties: {request: {type: object}}}
steps: [{id: get, task: orbit.http.request, input: '${input.request}', retry: {max_attempts: 1}}]
result: ${steps.get.output}
";

/// `orbit dev` and where it listens.
struct Dev {
    child: Child,
    http: SocketAddr,
    log: PathBuf,
}

impl Dev {
    fn start(dir: &Path, flags: &[(&str, &str)], variables: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orbit"));
        command.env_clear().arg("dev").stdin(Stdio::null()).stdout(Stdio::piped());
        // A file, because a pipe that nobody reads would stop the node.
        let log = std::fs::File::create(dir.join("log")).unwrap();
        command.stderr(log);
        command.args(["--data-dir".as_ref(), dir.join("data").as_os_str()]).args(["--cluster-shards", "2"]);
        for surface in ["http", "grpc", "peer", "health"] {
            command.args([format!("--{surface}-listen"), "127.0.0.1:0".to_owned()]);
        }
        for (flag, value) in flags {
            command.args([flag, value]);
        }
        let mut child = command.envs(variables.iter().copied()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.take_while(|line| !line.contains("Ctrl-C")).count() > 0, "it did not start");
        let addresses = std::fs::read(dir.join("data/addresses.json")).unwrap();
        let addresses: Value = serde_json::from_slice(&addresses).unwrap();
        let http = addresses["http"].as_str().unwrap().parse().unwrap();
        Self { child, http, log: dir.join("log") }
    }

    /// Ends it without a word, and says what it had logged.
    fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::fs::read_to_string(&self.log).unwrap()
    }

    async fn ask(&self, method: reqwest::Method, path: &str, body: Option<(&str, String)>) -> Value {
        let mut request = reqwest::Client::new().request(method, format!("http://{}{path}", self.http));
        if let Some((media_type, body)) = body {
            request = request.header("content-type", media_type).body(body);
        }
        let answer = request.send().await.unwrap().error_for_status().unwrap();
        answer.json().await.unwrap()
    }

    async fn deploy(&self) {
        let body = Some(("application/yaml", DOCUMENT.to_owned()));
        self.ask(reqwest::Method::POST, "/v1/workflows", body).await;
    }

    async fn begin(&self, id: &str, request: Value) {
        let body = json!({"workflow": "call", "execution_id": id, "input": {"request": request}}).to_string();
        self.ask(reqwest::Method::POST, "/v1/executions", Some(("application/json", body))).await;
    }

    async fn end(&self, id: &str) -> Value {
        self.ask(reqwest::Method::GET, &format!("/v1/executions/{id}/wait?timeout_ms=60000"), None).await
    }
}

/// Node lost under a built-in (L5): the same attempt, the same key, `redelivery`; at once, without a time-out between.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_killed_node_had_sent_is_sent_again_with_the_same_key() {
    let site = Site::open(|_, number| if number == 1 { Reply::Nothing } else { site::text(200, "again") }).await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kingdom"), "Bearer k3y-of-the-kingdom").unwrap();
    let allow = site.address.to_string();
    // Longer than any test has patience: nothing is taken back because a session was silent.
    let flags = [
        ("--http-task-allow", &*allow),
        ("--http-task-secrets-dir", dir.path().to_str().unwrap()),
        ("--limits-session-timeout-ms", "3600000"),
        ("--log-level", "trace,orbit_raft=info,openraft=info"),
    ];
    let dev = Dev::start(dir.path(), &flags, &[]);
    dev.deploy().await;
    let request = json!({"method": "POST", "url": site.url("/"), "headers": {"authorization": {"secret": "kingdom"}}});
    dev.begin("x", request).await;
    site.until(|log| log.seen.len() == 1).await;
    let log = dev.kill();
    assert!(!log.is_empty() && !log.contains("k3y-of"), "no level of the log tells a secret");

    let dev = Dev::start(dir.path(), &flags[..3], &[]);
    let state = dev.end("x").await;
    assert_eq!(state["output"]["body"], "again", "{state}");
    let seen = site.seen();
    assert_eq!(seen[0].headers["idempotency-key"], seen[1].headers["idempotency-key"]);
    assert_eq!(seen[1].headers["authorization"], "Bearer k3y-of-the-kingdom");
    let history = dev.ask(reqwest::Method::GET, "/v1/executions/x/history", None).await;
    let events = history["events"].as_array().unwrap();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let scheduled: Vec<_> =
        of("StepScheduled").iter().map(|e| (e["attempt"].clone(), e["redelivery"].clone())).collect();
    assert_eq!(scheduled, [(json!(1), json!(false)), (json!(1), json!(true))]);
    assert_eq!(of("StepAttemptUncertain").len(), 1);
    let sessions: Vec<_> = of("StepDispatched").iter().map(|event| event["worker_session"].clone()).collect();
    assert_eq!(sessions[0], sessions[1], "the incarnation of the node, in either process");
    dev.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_the_machine_trusts_is_trusted_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, roots) = (certified.cert.der().clone(), dir.path().join("roots.pem"));
    std::fs::write(&roots, certified.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![cert], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust us ends the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecure").await;
            let _ = stream.shutdown().await;
        }
    });
    let get = |host: &str| json!({"method": "GET", "url": format!("https://{host}:{port}/")});
    let flags = [("--http-task-allow", "127.0.0.1,localhost")];

    let dev = Dev::start(dir.path(), &flags, &[("SSL_CERT_FILE", &roots)]);
    dev.deploy().await;
    dev.begin("trusted", get("localhost")).await;
    assert_eq!(dev.end("trusted").await["output"]["body"], "secure");
    dev.begin("other-name", get("127.0.0.1")).await;
    assert_eq!(
        dev.end("other-name").await["error"]["code"],
        "HTTP_UNREACHABLE",
        "the certificate is not for the address"
    );
    dev.kill();

    let empty = dir.path().join("none.pem");
    std::fs::write(&empty, "").unwrap();
    let dev = Dev::start(dir.path(), &flags, &[("SSL_CERT_FILE", &empty)]);
    dev.begin("untrusted", get("localhost")).await;
    let state = dev.end("untrusted").await;
    assert_eq!(state["error"]["code"], "HTTP_UNREACHABLE", "{state}");
    dev.kill();
}
