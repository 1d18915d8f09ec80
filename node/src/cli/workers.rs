//! `orbit workers`: who works, and for which tasks.

use std::collections::BTreeMap;

use super::print::Output;
use super::remote::{Asks, Remote};
use super::{Error, table, time};
use crate::client::answers::{TaskVersion, Workers as Answer};
use crate::client::{Call, Client};

/// Show who works, and for which tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct Workers {
    #[command(flatten)]
    remote: Remote,
}

impl Asks for Workers {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let answer = client.send(&Call::get(["v1", "workers"])).await?;
        self.remote.show(&answer, output, print)
    }
}

fn print(output: &mut Output, answer: Answer) {
    let row = |worker: crate::client::answers::Worker| {
        vec![
            worker.worker_id,
            worker.runtime,
            if worker.online { "yes" } else { "no" }.to_owned(),
            worker.sessions.to_string(),
            worker.in_flight.to_string(),
            time::seconds(worker.last_seen_ms),
            tasks(worker.contracts),
        ]
    };
    let rows = answer.workers.into_iter().map(row).collect();
    let headings = ["WORKER", "RUNTIME", "ONLINE", "SESSIONS", "IN FLIGHT", "LAST SEEN", "TASKS"];
    table::print(output, &headings, rows, "no worker has come yet");
}

/// `a.do@1.0.0,1.1.0 b.do@1.0.0`.
fn tasks(contracts: Vec<TaskVersion>) -> String {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for TaskVersion { task_name, contract_version } in contracts {
        versions.entry(task_name).or_default().push(contract_version);
    }
    let each = versions.into_iter().map(|(name, versions)| format!("{name}@{}", versions.join(",")));
    each.collect::<Vec<_>>().join(" ")
}
