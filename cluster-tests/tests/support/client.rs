//! Calls over HTTP, repeated while the node is away.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use orbit_cluster_tests::History;
use orbit_harness::Pages;
use reqwest::Method;
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

/// A client that finds the node again after each start.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    http: reqwest::Client,
}

impl Client {
    pub fn of(shared: &Arc<Shared>) -> Self {
        let http = reqwest::Client::builder().timeout(ANSWER_TIME_MAX).build().unwrap();
        Self { shared: Arc::clone(shared), http }
    }

    /// One attempt; `None`: nobody knows what became of it.
    async fn once(&self, method: &Method, path: &str, body: Option<&(&'static str, String)>) -> Option<Answer> {
        let mut at = self.shared.at.subscribe();
        let address = at.wait_for(|nodes| !nodes.is_empty()).await.unwrap()[0].http.clone();
        let mut request = self.http.request(method.clone(), format!("http://{address}{path}"));
        if let Some((media_type, text)) = body {
            request = request.header("content-type", *media_type).body(text.clone());
        }
        let response = request.send().await;
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                if error.is_timeout() && self.shared.at.borrow().first().is_some_and(|now| now.http == address) {
                    self.shared.surprise(format!("no answer to {method} {path} within {ANSWER_TIME_MAX:?}"));
                }
                return None;
            }
        };
        let status = response.status().as_u16();
        let text = response.bytes().await.ok()?;
        let body = serde_json::from_slice(&text);
        Some(Answer { status, body: body.unwrap_or_else(|error| panic!("{method} {path}: {status}, {error}")) })
    }

    /// Repeats a call until somebody answers who knows. What may be repeated, may be called like this.
    pub async fn call(&self, method: Method, path: &str, body: Option<(&'static str, String)>) -> Answer {
        let deadline = Instant::now() + 2 * PATIENCE;
        loop {
            if let Some(answer) = self.once(&method, path, body.as_ref()).await {
                match (answer.status, answer.code()) {
                    (503, "NO_LEADER" | "OUTCOME_UNKNOWN") | (429, "OVERLOADED") | (500, "STORAGE_ERROR") => {
                        self.shared.refused(answer.code());
                    }
                    _ => return answer,
                }
            }
            assert!(Instant::now() < deadline, "nobody answers {method} {path}");
            sleep(PAUSE).await;
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::POST, path, Some(("application/json", body.to_string()))).await
    }

    pub async fn deploy(&self, documents: &str) {
        let answer = self.call(Method::POST, "/v1/workflows", Some(("application/yaml", documents.to_owned()))).await;
        assert!([200, 201].contains(&answer.status), "{answer:?}");
    }

    /// A history, page by page; `None`: there is no such execution.
    pub async fn history(&self, id: &str) -> Option<History> {
        let mut pages = Pages::of(id);
        loop {
            let page = self.get(&pages.path()).await;
            match pages.add(page.status, &page.body).unwrap_or_else(|error| panic!("{error}")) {
                ControlFlow::Break(history) => return history,
                ControlFlow::Continue(more) => pages = more,
            }
        }
    }
}
