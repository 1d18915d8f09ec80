//! `orbit admin check`: whether what the cluster stores is what it must be.

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::print::{Form, Output};
use super::remote::{Asks, Remote, duration};
use super::{Error, counted, table};
use crate::client::{Call, Client, Harm};

/// Look after what the cluster stores.
#[derive(Debug, clap::Args)]
pub(crate) struct Admin {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Check),
}

/// Check what is stored while the cluster works, shard by shard; nothing is changed.
#[derive(Debug, clap::Args)]
struct Check {
    /// Only this shard.
    #[arg(long, value_name = "N")]
    shard: Option<u16>,
    /// How long one shard may take.
    #[arg(long, default_value = "1h", value_parser = duration, value_name = "DURATION")]
    timeout: std::time::Duration,
    #[command(flatten)]
    remote: Remote,
}

impl Admin {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        match &self.command {
            Command::Check(check) => check.run(output),
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Report {
    findings_total: u64,
    shards: Vec<Shard>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Shard {
    shard: u16,
    node: u64,
    index: u64,
    executions: u64,
    runs: u64,
    events: u64,
    rows: u64,
    findings: Vec<Finding>,
    findings_total: u64,
    replicas: Vec<Replica>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Finding {
    rule: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<u32>,
    place: String,
    found: String,
    expected: String,
    advice: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Replica {
    node: u64,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_compared: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Health {
    shards: Vec<ShardHealth>,
}

#[derive(Debug, Deserialize)]
struct ShardHealth {
    id: u16,
}

impl Asks for Check {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let shards = match self.shard {
            Some(shard) => vec![shard],
            None => {
                let health: Health = client.send(&Call::get(["v1", "health"])).await?.read()?;
                health.shards.iter().map(|shard| shard.id).collect()
            }
        };
        let (mut report, total) = (Report::default(), shards.len());
        for (place, shard) in (1..).zip(shards) {
            let call = Call::post(["v1", "admin", "check"], Harm::None).json(&json!({ "shard": shard }));
            let answer = client.send(&call.within(self.timeout)).await?;
            let checked: Report = answer.read()?;
            for one in &checked.shards {
                output.note(format_args!("{place} of {total}: {}", progress(one)));
            }
            report.findings_total += checked.findings_total;
            report.shards.extend(checked.shards);
        }
        match self.remote.output {
            Form::Table => show(&report, output),
            form => output.value(form, &report),
        }
        match report.findings_total {
            0 => Ok(()),
            findings => Err(Error::Findings { findings: counted(findings as usize, "finding") }),
        }
    }
}

/// What is told of a shard as soon as it is checked.
fn progress(shard: &Shard) -> String {
    let compared = shard.replicas.iter().filter(|replica| replica.hash.is_some()).count();
    let mut told = format!(
        "shard {}, {}, {}, {compared} of {} compared, {}",
        shard.shard,
        counted(shard.executions as usize, "execution"),
        counted(shard.events as usize, "event"),
        counted(shard.replicas.len(), "replica"),
        counted(shard.findings_total as usize, "finding"),
    );
    for replica in &shard.replicas {
        if let Some(why) = &replica.not_compared {
            told.push_str(&format!("; node {} was not compared: {why}", replica.node));
        }
    }
    told
}

fn show(report: &Report, output: &mut Output) {
    let row = |shard: &Shard, finding: &Finding| {
        let run = finding.run.map_or_else(String::new, |run| run.to_string());
        let id = finding.execution_id.clone().unwrap_or_default();
        let what = format!("{}; expected: {}", finding.found, finding.expected);
        vec![shard.shard.to_string(), finding.rule.clone(), id, run, finding.place.clone(), what]
    };
    let findings = || report.shards.iter().flat_map(|shard| shard.findings.iter().map(move |one| (shard, one)));
    let rows = findings().map(|(shard, finding)| row(shard, finding)).collect();
    table::print(output, &["SHARD", "RULE", "EXECUTION", "RUN", "PLACE", "FOUND"], rows, "everything is as it must be");
    let mut advised: Vec<&str> = Vec::new();
    for (_, finding) in findings() {
        if !advised.contains(&finding.advice.as_str()) {
            advised.push(&finding.advice);
            output.line(format_args!("{}: {}", finding.rule, finding.advice));
        }
    }
    let listed = findings().count() as u64;
    if report.findings_total > listed {
        output.line(format_args!("and {} more", report.findings_total - listed));
    }
}
