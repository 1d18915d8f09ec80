//! A worker that polls over HTTP: one poll under way while it has a free slot, heartbeats and results beside it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::hands::{Answer, Done, Hands, Report, passes};
use super::{Nodes, PAUSE, SIGN_OF_LIFE, SILENCE_MAX, WELCOME_TIME_MAX, Worker};
use crate::{Addresses, Notebook};

/// How long a poll waits for work.
const WAIT: Duration = Duration::from_secs(2);

/// What came of a call.
enum Heard {
    Polled(Said),
    Beat(Said),
    Progress(Said),
    Reported(String, Said),
}

/// What a node said: status and body. `None`: it is lost.
type Said = Option<(u16, Value)>;

/// Why a node is left.
struct Leave;

struct Poll {
    hands: Hands,
    http: Client,
    /// Calls under way.
    calls: JoinSet<Heard>,
    polling: bool,
    beating: bool,
}

pub(super) async fn run(worker: Worker, notebook: Arc<Notebook>, mut nodes: Nodes) {
    let (hands, mut finished) = Hands::new(worker, notebook);
    let http = Client::builder().connect_timeout(SILENCE_MAX).no_proxy().build();
    let http = match http {
        Ok(http) => http,
        Err(error) => return hands.notebook.surprise(format!("no HTTP client: {error}")),
    };
    let mut poll = Poll { hands, http, calls: JoinSet::new(), polling: false, beating: false };
    while let Some(node) = nodes.next().await {
        if let Ok(()) = poll.register(&node).await {
            let Leave = poll.serve(&node, &mut finished).await;
            poll.calls.shutdown().await;
            (poll.polling, poll.beating) = (false, false);
            poll.hands.lost();
        }
        sleep(PAUSE).await;
    }
}

impl Poll {
    /// Resumes the session, or makes one, and lists everything held.
    async fn register(&mut self, node: &Addresses) -> Result<(), Leave> {
        let hands = &self.hands;
        let contract = |(name, version): &(String, String)| json!({"task_name": name, "contract_version": version});
        let contracts: Vec<_> = hands.worker.tasks.iter().map(contract).collect();
        let mut body = json!({"worker_id": hands.worker.id(), "runtime": "rust", "contracts": contracts,
            "tokens": hands.tokens()});
        if let Some(session) = &hands.session {
            body["worker_session_id"] = json!(session);
        }
        let said = call(self.http.clone(), url(node, "workers/register"), body, WELCOME_TIME_MAX).await;
        let answer = self.sort("register", said)?;
        self.hands.session = answer["worker_session_id"].as_str().map(ToOwned::to_owned);
        Ok(())
    }

    async fn serve(&mut self, node: &Addresses, finished: &mut mpsc::UnboundedReceiver<Done>) -> Leave {
        let mut beat = interval(SIGN_OF_LIFE);
        loop {
            self.ask(node);
            let heard = tokio::select! {
                Some(Ok(heard)) = self.calls.join_next() => self.hear(heard),
                Some((token, report)) = finished.recv() => {
                    self.hands.finish(&token, report);
                    Ok(())
                }
                _ = beat.tick() => {
                    self.beat(node);
                    Ok(())
                }
            };
            if let Err(leave) = heard {
                return leave;
            }
        }
    }

    fn spawn(
        &mut self,
        url: String,
        body: Value,
        patience: Duration,
        heard: impl FnOnce(Said) -> Heard + Send + 'static,
    ) {
        let http = self.http.clone();
        self.calls.spawn(async move { heard(call(http, url, body, patience).await) });
    }

    /// Sends a poll if there is a free slot and none is under way.
    fn ask(&mut self, node: &Addresses) {
        let free = self.hands.free();
        if free > 0 && !self.polling {
            self.polling = true;
            let body = json!({"worker_session_id": self.hands.session, "max_tasks": free,
                "wait_ms": u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX)});
            self.spawn(url(node, "workers/poll"), body, WAIT + SILENCE_MAX, Heard::Polled);
        }
    }

    /// All that is held, progress of what is long, and all results that are not on their way.
    fn beat(&mut self, node: &Addresses) {
        if !self.beating {
            self.beating = true;
            let body = json!({"worker_session_id": self.hands.session, "tokens": self.hands.tokens()});
            self.spawn(url(node, "workers/heartbeat"), body, SILENCE_MAX, Heard::Beat);
        }
        let details = self.hands.details();
        let signs: Vec<_> = self.hands.beating().map(|token| json!({"token": token, "details": details})).collect();
        for sign in signs {
            self.spawn(url(node, "tasks/heartbeat"), sign, SILENCE_MAX, Heard::Progress);
        }
        for (token, report) in self.hands.outgoing() {
            let (route, body) = match report {
                Report::Success(output) => ("tasks/complete", json!({"token": token, "output": output})),
                Report::Failure { code, retryable } => (
                    "tasks/fail",
                    json!({"token": token, "error_code": code,
                    "error_message": "as planned", "retryable": retryable}),
                ),
            };
            self.spawn(url(node, route), body, WELCOME_TIME_MAX, move |said| Heard::Reported(token, said));
        }
    }

    fn hear(&mut self, heard: Heard) -> Result<(), Leave> {
        match heard {
            Heard::Polled(said) => {
                self.polling = false;
                let answer = self.sort("poll", said)?;
                for task in answer["tasks"].as_array().into_iter().flatten() {
                    match serde_json::from_value(task.clone()) {
                        Ok(job) => self.hands.begin(job),
                        Err(error) => self.hands.notebook.surprise(format!("{task} is no task: {error}")),
                    }
                }
            }
            Heard::Beat(said) => {
                self.beating = false;
                let answer = self.sort("heartbeat", said)?;
                for token in answer["cancel"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    self.hands.cancel(token);
                }
            }
            Heard::Progress(said) => _ = self.sort("task heartbeat", said)?,
            Heard::Reported(token, said) => {
                let (status, body) = said.ok_or(Leave)?;
                let code = body["error"]["code"].as_str();
                let answer = match (code, body["accepted"].as_bool()) {
                    (None, Some(accepted)) => {
                        let reason = body["reason"].as_str().map(ToOwned::to_owned);
                        Answer::Decided { accepted, reason }
                    }
                    _ => Answer::Refused(code.map_or_else(|| format!("HTTP {status}"), ToOwned::to_owned)),
                };
                self.hands.answered(&token, answer);
            }
        }
        Ok(())
    }

    /// The body of a good answer. Anything else is a reason to go to another node.
    fn sort(&mut self, what: &str, said: Said) -> Result<Value, Leave> {
        let (status, body) = said.ok_or(Leave)?;
        if status < 300 {
            return Ok(body);
        }
        let code = body["error"]["code"].as_str().unwrap_or("none").to_owned();
        self.hands.notebook.refused(&format!("{what} {code}"));
        if code == "UNKNOWN_SESSION" {
            self.hands.session = None;
        } else if !passes(&code) {
            let id = self.hands.worker.id();
            self.hands.notebook.surprise(format!("{id}: {what} was answered with {status} {body}"));
        }
        Err(Leave)
    }
}

fn url(node: &Addresses, route: &str) -> String {
    format!("http://{}/v1/{route}", node.http)
}

async fn call(http: Client, url: String, body: Value, patience: Duration) -> Said {
    let request = http.post(url).header("content-type", "application/json").body(body.to_string()).timeout(patience);
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    let bytes = response.bytes().await.ok()?;
    // No content: there was nothing to do.
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).ok()? };
    Some((status, body))
}
