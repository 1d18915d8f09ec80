//! A server that answers as a test says, and the binary called against it.

#![allow(dead_code, clippy::expect_used)]

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::runtime::Runtime;

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// With its query.
    pub path: String,
    pub body: String,
    pub authorization: String,
    pub media_type: String,
    /// How many requests to this path came before.
    pub before: usize,
}

/// What it answers: the status and the body; `None` breaks the connection.
pub type Answer = Option<(u16, String)>;

/// A listening server; it ends when it is dropped.
pub struct Fake {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _runtime: Runtime,
}

impl Fake {
    /// Serves answers.
    pub fn new(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (seen, answer) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::new(answer));
        let list = Arc::clone(&seen);
        let handle = move |request: Request| {
            let (list, answer) = (Arc::clone(&list), Arc::clone(&answer));
            async move {
                let seen = record(request, &list).await;
                // Answers may block until something happened.
                let answered = tokio::task::spawn_blocking(move || answer(&seen)).await.expect("an answer");
                respond(answered)
            }
        };
        let router = axum::Router::new().fallback(handle);
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, seen, _runtime: runtime }
    }

    /// What came so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("a list").clone()
    }

    /// What came to paths that begin like this.
    pub fn seen_at(&self, path: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.path.starts_with(path)).collect()
    }

    /// `orbit` with arguments, to be run against this server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = orbit(arguments);
        command.env("ORBIT_ADDRESS", format!("http://{}", self.address));
        command
    }

    /// Runs `orbit`: stdout, stderr, exit code.
    pub fn orbit(&self, arguments: &[&str]) -> (String, String, i32) {
        run(&mut self.command(arguments))
    }
}

async fn record(request: Request, list: &Mutex<Vec<Seen>>) -> Seen {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    let header = |name: &str| head.headers.get(name).map(|value| value.to_str().expect("text").to_owned());
    let path = head.uri.to_string();
    let mut list = list.lock().expect("a list");
    let seen = Seen {
        method: head.method.to_string(),
        before: list.iter().filter(|seen| seen.path == path).count(),
        path,
        body: String::from_utf8(body.to_vec()).expect("UTF-8"),
        authorization: header("authorization").unwrap_or_default(),
        media_type: header("content-type").unwrap_or_default(),
    };
    list.push(seen.clone());
    seen
}

fn respond(answer: Answer) -> Response {
    let Some((status, body)) = answer else {
        // A body that fails before its first byte: the client sees a connection that breaks.
        let broken = tokio_stream::once(Err::<String, _>(std::io::Error::other("broken")));
        return Response::builder().header("content-length", "9").body(Body::from_stream(broken)).expect("broken");
    };
    let status = StatusCode::from_u16(status).expect("a status");
    Response::builder().status(status).body(Body::from(body)).expect("a response")
}

/// `orbit` with arguments and none of the caller's settings.
pub fn orbit(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orbit"));
    command.args(arguments).env_remove("ORBIT_ADDRESS").env_remove("ORBIT_TOKEN").stdin(Stdio::null());
    command
}

/// Runs a command: stdout, stderr, exit code.
pub fn run(command: &mut Command) -> (String, String, i32) {
    let output = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr), output.status.code().expect("an exit code"))
}

/// A process that is killed when the test ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An error as nodes answer it.
pub fn refusal(status: u16, code: &str, message: &str) -> Answer {
    Some((status, format!(r#"{{"error":{{"code":"{code}","message":"{message}"}}}}"#)))
}

/// A success.
pub fn ok(body: &str) -> Answer {
    Some((200, body.to_owned()))
}
