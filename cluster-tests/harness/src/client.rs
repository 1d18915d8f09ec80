//! A client whose every operation is recorded.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use orbit_cluster_tests::History;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::pages::Pages;
use crate::recorder::{Outcome, Recorder};
use crate::{Addresses, Error};

/// How long one answer may take unless it is said otherwise: longer than any wait that is asked for here.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);
/// After how long without a connection there is none.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// Between two attempts of [`Client::settle`].
const PAUSE: Duration = Duration::from_millis(20);

/// A request to one node.
#[derive(Debug, Clone)]
pub struct Request {
    name: String,
    key: String,
    method: Method,
    path: String,
    media_type: &'static str,
    body: Option<String>,
    input: Value,
}

impl Request {
    /// Reads. `name` is what the operation is to checkers (`read`), `key` what it is about: most often an execution id.
    #[must_use]
    pub fn get(name: &str, key: &str, path: &str) -> Self {
        let (path, media_type) = (path.to_owned(), "application/json");
        let (name, key) = (name.to_owned(), key.to_owned());
        Self { name, key, method: Method::GET, path, media_type, body: None, input: Value::Null }
    }

    /// Writes, with a body of JSON, which is recorded as its input.
    #[must_use]
    pub fn post(name: &str, key: &str, path: &str, body: Value) -> Self {
        let text = Some(body.to_string());
        Self { method: Method::POST, body: text, input: body, ..Self::get(name, key, path) }
    }

    /// Registers workflows, given as YAML.
    #[must_use]
    pub fn deploy(documents: &str) -> Self {
        let whole = Self::post("deploy", "", "/v1/workflows", json!(documents));
        Self { media_type: "application/yaml", body: Some(documents.to_owned()), ..whole }
    }

    /// Starts an execution.
    #[must_use]
    pub fn start(workflow: &str, execution_id: &str, input: &Value) -> Self {
        let body = json!({"workflow": workflow, "execution_id": execution_id, "input": input});
        Self::post("start", execution_id, "/v1/executions", body)
    }

    /// Waits for the end of an execution, for this long, and reads its state.
    #[must_use]
    pub fn wait(execution_id: &str, time: Duration) -> Self {
        let path = format!("/v1/executions/{execution_id}/wait?timeout_ms={}", time.as_millis());
        Self::get("wait", execution_id, &path)
    }
}

/// A client: one process at a time, so a call takes it for itself.
#[derive(Debug)]
pub struct Client {
    recorder: Arc<Recorder>,
    http: reqwest::Client,
    /// `None` while an operation is under way, and after one whose outcome is unknown: it may still be going on.
    process: Option<u64>,
}

impl Client {
    /// A client with process numbers of its own. Use it only within [`World::run`](crate::World::run).
    ///
    /// # Errors
    ///
    /// Those of the HTTP library.
    pub fn new(recorder: &Arc<Recorder>) -> Result<Self, Error> {
        Self::patient(recorder, ANSWER_TIME_MAX)
    }

    /// One that waits this long for an answer.
    ///
    /// # Errors
    ///
    /// Those of the HTTP library.
    pub fn patient(recorder: &Arc<Recorder>, answer_time_max: Duration) -> Result<Self, Error> {
        let http = reqwest::Client::builder().timeout(answer_time_max).connect_timeout(CONNECT_TIME_MAX).no_proxy();
        let http = http.build().map_err(|error| Error::system("an HTTP client")(std::io::Error::other(error)))?;
        Ok(Self { recorder: Arc::clone(recorder), http, process: None })
    }

    /// One attempt at one node.
    pub async fn call(&mut self, node: &Addresses, request: &Request) -> Outcome {
        let Request { name, key, method, path, media_type, body, input } = request;
        let process = self.process.take().unwrap_or_else(|| self.recorder.process());
        let operation = self.recorder.call(process, name, key, &node.http, input.clone());
        let mut call = self.http.request(method.clone(), format!("http://{}{path}", node.http));
        if let Some(body) = body {
            call = call.header("content-type", *media_type).body(body.clone());
        }
        let outcome = match call.send().await {
            Ok(response) => {
                let status = response.status().as_u16();
                match response.bytes().await {
                    Ok(bytes) => outcome(status, &bytes),
                    Err(error) => Outcome::Unknown(format!("HTTP {status}, then: {error}")),
                }
            }
            Err(error) if error.is_connect() => Outcome::Refused(format!("no connection: {error}")),
            Err(error) => Outcome::Unknown(error.to_string()),
        };
        if !matches!(outcome, Outcome::Unknown(_)) {
            self.process = Some(process);
        }
        operation.end(outcome.clone());
        outcome
    }

    /// Goes round the nodes until one answers: status and body. Only for what may be repeated.
    ///
    /// # Errors
    ///
    /// When nobody answers within `patience`.
    pub async fn settle(
        &mut self,
        nodes: &[Addresses],
        request: &Request,
        patience: Duration,
    ) -> Result<(u16, Value), Error> {
        let deadline = Instant::now() + patience;
        for node in nodes.iter().cycle() {
            let why = match self.call(node, request).await {
                Outcome::Answered { status, output } => return Ok((status, output)),
                Outcome::Refused(why) | Outcome::Unknown(why) => why,
            };
            if Instant::now() >= deadline {
                let what = format!("{} {} at {} after {patience:?}", request.method, request.path, node.http);
                return Err(Error::system(what)(std::io::Error::new(std::io::ErrorKind::TimedOut, why)));
            }
            sleep(PAUSE).await;
        }
        Err(Error::name("", "are no nodes"))
    }

    /// The whole history of run 1 of an execution. `None`: there is no such execution.
    ///
    /// # Errors
    ///
    /// As for [`settle`](Self::settle), and when the answers are none.
    pub async fn history(
        &mut self,
        nodes: &[Addresses],
        id: &str,
        patience: Duration,
    ) -> Result<Option<History>, Error> {
        let mut pages = Pages::of(id);
        loop {
            let request = Request::get("history", id, &pages.path());
            let (status, body) = self.settle(nodes, &request, patience).await?;
            match pages.add(status, &body)? {
                ControlFlow::Break(history) => return Ok(history),
                ControlFlow::Continue(more) => pages = more,
            }
        }
    }
}

/// What an answer says of the operation.
fn outcome(status: u16, bytes: &[u8]) -> Outcome {
    let output: Value = match serde_json::from_slice(bytes) {
        _ if bytes.is_empty() => Value::Null,
        Ok(output) => output,
        Err(error) => return Outcome::Unknown(format!("HTTP {status}, and the body is no JSON: {error}")),
    };
    match (status, output["error"]["code"].as_str()) {
        (_, Some(code @ ("NO_LEADER" | "OVERLOADED"))) => Outcome::Refused(code.to_owned()),
        (500.., code) => Outcome::Unknown(code.map_or_else(|| format!("HTTP {status}"), ToOwned::to_owned)),
        _ => Outcome::Answered { status, output },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_surely_did_not_happen_is_told_from_what_nobody_knows() {
        let of = |status, code: &str| outcome(status, json!({"error": {"code": code}}).to_string().as_bytes());
        assert_eq!(of(503, "NO_LEADER"), Outcome::Refused("NO_LEADER".into()));
        assert_eq!(of(429, "OVERLOADED"), Outcome::Refused("OVERLOADED".into()));
        assert_eq!(of(503, "OUTCOME_UNKNOWN"), Outcome::Unknown("OUTCOME_UNKNOWN".into()));
        assert_eq!(of(500, "STORAGE_ERROR"), Outcome::Unknown("STORAGE_ERROR".into()));
        assert!(matches!(of(409, "EXECUTION_EXISTS"), Outcome::Answered { status: 409, .. }));
        assert_eq!(outcome(204, b""), Outcome::Answered { status: 204, output: Value::Null });
        assert!(matches!(outcome(200, b"{"), Outcome::Unknown(_)));
    }
}
