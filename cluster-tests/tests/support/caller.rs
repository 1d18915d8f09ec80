//! Somebody who starts executions one after the other and follows each to its end.

use std::sync::Arc;
use std::time::Duration;

use orbit_cluster_tests::ledger::Start;
use orbit_harness::Request;
use rand::Rng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::client::Client;
use super::{Shared, workload};

/// Starts, and now and then cancels or reads, until the run closes.
pub async fn run(shared: Arc<Shared>, number: usize, mut dice: SmallRng) {
    let mut client = Client::of(&shared, number);
    let mut count = 0;
    while !shared.closing() {
        let (workflow, input) = workload::pick(&mut dice);
        let id = format!("c{number}-{count}");
        count += 1;
        start(&shared, &mut client, &id, workflow, &input).await;
        if dice.random_ratio(1, 4) {
            match client.history(&id).await {
                Some(history) => shared.ledger().read.push(history),
                None => shared.surprise(format!("I20 {id}: its start was acknowledged, and a read did not find it")),
            }
        }
        if workflow == "log" {
            signals(&shared, &mut client, &id).await;
        }
        if ["nap", "tree"].contains(&workflow) && dice.random_ratio(1, 3) {
            sleep(Duration::from_millis(dice.random_range(0..500))).await;
            cancel(&shared, &mut client, &id).await;
        }
        follow(&shared, &mut client, &id).await;
    }
}

/// Starts executions with these ids that sleep, and follows each.
pub async fn crowd(shared: Arc<Shared>, number: usize, ids: Vec<String>, sleep_ms_max: u64) {
    let mut client = Client::of(&shared, number);
    for (place, id) in (0..).zip(&ids) {
        let input = json!({"ms": sleep_ms_max * (place + 1) / ids.len() as u64});
        start(&shared, &mut client, id, "nap", &input).await;
    }
    for id in &ids {
        follow(&shared, &mut client, id).await;
    }
}

pub async fn start(shared: &Shared, client: &mut Client, id: &str, workflow: &str, input: &Value) {
    let answer = client.call(&Request::start(workflow, id, input)).await;
    if ![200, 201].contains(&answer.status) || answer.body["execution_id"] != id || answer.body["run"] != 1 {
        return shared.surprise(format!("start of {id}: {answer:?}"));
    }
    let created = u32::from(answer.body["created"] == true);
    let start = Start { workflow: workflow.to_owned(), input: input.clone(), created };
    shared.ledger().starts.insert(id.to_owned(), start);
    shared.acknowledged();
}

/// Sends all signals that the execution waits for, each until it is answered, and some of them again.
async fn signals(shared: &Shared, client: &mut Client, id: &str) {
    for n in 0..workload::SIGNALS {
        let name = format!("{id}-{n}");
        shared.ledger().signals.entry(id.to_owned()).or_default().0.insert(name.clone());
        let path = format!("/v1/executions/{id}/signals/add?dedup_id={name}");
        let signal = Request::post("signal", id, &path, json!({"n": n}));
        let first = client.call(&signal).await;
        let again = if n % 3 == 0 { Some(client.call(&signal).await) } else { None };
        if first.status != 200 || again.is_some_and(|again| again.body != first.body) {
            return shared.surprise(format!("signal {name}: {first:?}"));
        }
        shared.ledger().signals.entry(id.to_owned()).or_default().1.push(name);
        shared.acknowledged();
    }
}

pub async fn cancel(shared: &Shared, client: &mut Client, id: &str) {
    let path = format!("/v1/executions/{id}/cancel");
    let answer = client.call(&Request::post("cancel", id, &path, json!({"reason": "a test"}))).await;
    match (answer.status, answer.code()) {
        (200, _) => _ = shared.ledger().cancels.insert(id.to_owned(), true),
        (409, "EXECUTION_FINISHED") => _ = shared.ledger().cancels.insert(id.to_owned(), false),
        _ => shared.surprise(format!("cancel of {id}: {answer:?}")),
    }
}

pub async fn follow(shared: &Shared, client: &mut Client, id: &str) {
    loop {
        let answer = client.call(&Request::wait(id, Duration::from_secs(10))).await;
        let end = match (answer.status, answer.body["status"].as_str().unwrap_or_default()) {
            (200, "RUNNING") => continue,
            (200, "COMPLETED") => "WorkflowCompleted",
            (200, "FAILED") => "WorkflowFailed",
            (200, "CANCELLED") => "WorkflowCancelled",
            _ => return shared.surprise(format!("I11 {id}: its start was acknowledged, then: {answer:?}")),
        };
        shared.acknowledged();
        shared.ledger().ends.insert(id.to_owned(), end.to_owned());
        return;
    }
}
