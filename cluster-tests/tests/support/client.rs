//! Calls over HTTP, recorded, and repeated at other nodes while one does not know.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use orbit_cluster_tests::History;
use orbit_harness::{Outcome, Pages, Request};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{PATIENCE, Shared};

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// How long one answer may take: longer than any wait that is asked for.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// What the node said.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }
}

/// A client that finds the nodes again after each start. It prefers one of them.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    http: orbit_harness::Client,
    home: usize,
}

impl Client {
    /// `home` says which node it asks first, when there are several.
    pub fn of(shared: &Arc<Shared>, home: usize) -> Self {
        let http = orbit_harness::Client::patient(&shared.recorder, ANSWER_TIME_MAX).unwrap();
        Self { shared: Arc::clone(shared), http, home }
    }

    /// One attempt; `None`: nobody knows what became of it, or it may be tried again.
    async fn once(&mut self, attempt: usize, request: &Request) -> Option<Answer> {
        let mut at = self.shared.at.subscribe();
        let nodes = at.wait_for(|nodes| !nodes.is_empty()).await.unwrap().clone();
        let node = &nodes[(self.home + attempt) % nodes.len()];
        let asked = Instant::now();
        match self.http.call(node, request).await {
            Outcome::Answered { status, output } => return Some(Answer { status, body: output }),
            Outcome::Refused(why) if why.starts_with("no connection") => {}
            Outcome::Refused(code) => self.shared.refused(&code),
            // What a node may say of itself; anything else of the kind is looked at.
            Outcome::Unknown(code) if ["OUTCOME_UNKNOWN", "STORAGE_ERROR"].contains(&code.as_str()) => {
                self.shared.refused(&code);
            }
            Outcome::Unknown(code) if code == "INTERNAL" || code.starts_with("HTTP ") => {
                self.shared.surprise(format!("{} answered {code} to {request:?}", node.http));
            }
            Outcome::Unknown(_) if asked.elapsed() >= ANSWER_TIME_MAX && self.shared.at.borrow().contains(node) => {
                self.shared.surprise(format!("{} has not answered {request:?} in {ANSWER_TIME_MAX:?}", node.http));
            }
            Outcome::Unknown(_) => {}
        }
        None
    }

    /// Repeats a call until somebody answers who knows. What may be repeated, may be called like this.
    pub async fn call(&mut self, request: &Request) -> Answer {
        let deadline = Instant::now() + 2 * PATIENCE;
        for attempt in 0.. {
            if let Some(answer) = self.once(attempt, request).await {
                return answer;
            }
            assert!(Instant::now() < deadline, "nobody answers {request:?}");
            sleep(PAUSE).await;
        }
        unreachable!("there is no last number")
    }

    pub async fn deploy(&mut self, documents: &str) {
        let answer = self.call(&Request::deploy(documents)).await;
        assert!([200, 201].contains(&answer.status), "{answer:?}");
    }

    /// A history, page by page; `None`: there is no such execution.
    pub async fn history(&mut self, id: &str) -> Option<History> {
        let mut pages = Pages::of(id);
        loop {
            let page = self.call(&Request::get("history", id, &pages.path())).await;
            match pages.add(page.status, &page.body).unwrap_or_else(|error| panic!("{error}")) {
                ControlFlow::Break(history) => return history,
                ControlFlow::Continue(more) => pages = more,
            }
        }
    }
}
