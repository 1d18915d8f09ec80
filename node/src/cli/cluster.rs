//! `orbit init`, `join`, `leave`, `drain`, `cluster`: the nodes of a cluster.

use serde::Deserialize;
use serde_json::json;

use super::print::Output;
use super::remote::{Asks, Remote};
use super::{Error, table, time};
use crate::client::{Call, Client, Harm};

/// Make a cluster of the node that is asked, unless it belongs to one already.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    #[command(flatten)]
    remote: Remote,
}

/// Tell a node without data which nodes it may join the cluster of.
#[derive(Debug, clap::Args)]
pub(crate) struct Join {
    /// host:port of a node of the cluster, as it advertises it to other nodes.
    #[arg(long = "seed", required = true)]
    seeds: Vec<String>,
    #[command(flatten)]
    remote: Remote,
}

/// Remove a node from the cluster for good; it is stopped by whoever runs it.
#[derive(Debug, clap::Args)]
pub(crate) struct Leave {
    /// Its number, as `orbit cluster` shows it.
    #[arg(long)]
    node: u64,
    /// It is lost, and need not answer.
    #[arg(long)]
    lost: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Let the node that is asked give its leaderships away, finish what it has, and end.
#[derive(Debug, clap::Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    remote: Remote,
}

/// List the nodes of the cluster, or raise its format.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    change: Option<Change>,
    #[command(flatten)]
    remote: Remote,
}

/// What is done to the cluster as a whole.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Change {
    Raise(Raise),
}

/// Raise the format of the cluster to the newest that the node which is asked knows. Older versions cannot open the
/// data any more.
#[derive(Debug, clap::Args)]
pub(crate) struct Raise {
    /// Only say whether it would be done.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Deserialize)]
struct Founded {
    cluster: String,
    node_id: u64,
}

#[derive(Debug, Deserialize)]
struct Nodes {
    cluster: String,
    format: u32,
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: u64,
    name: String,
    address: String,
    is_this: bool,
    leads: u64,
    joined_at_ms: u64,
    version: String,
    format: u32,
    #[serde(default)]
    leaving: bool,
    condition: Option<Condition>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    disk: String,
    disk_used_ratio: f64,
    clock_ahead_ms: Option<i64>,
    clock_off: bool,
}

impl Condition {
    fn disk(&self) -> String {
        let used = format!("{:.0} %", self.disk_used_ratio * 100.0);
        if self.disk == "ok" { used } else { format!("{used} ({})", self.disk) }
    }

    fn clock(&self) -> String {
        let off = if self.clock_off { " (off)" } else { "" };
        self.clock_ahead_ms.map_or_else(|| "-".to_owned(), |ahead| format!("{ahead:+} ms{off}"))
    }
}

#[derive(Debug, Deserialize)]
struct Raised {
    from: u32,
    to: u32,
    raised: bool,
}

fn list(output: &mut Output, nodes: Nodes) {
    output.line(format_args!("cluster {}, format {}", nodes.cluster, nodes.format));
    let row = |node: Node| {
        let this = if node.is_this { " (this one)" } else { "" };
        let leaving = if node.leaving { " (leaving)" } else { "" };
        let name = format!("{}{this}{leaving}", node.name);
        let said = |what: fn(&Condition) -> String| node.condition.as_ref().map_or_else(|| "?".to_owned(), what);
        let (disk, clock) = (said(Condition::disk), said(Condition::clock));
        let joined = if node.joined_at_ms == 0 { String::new() } else { time::seconds(node.joined_at_ms) };
        let knows = if node.format == 0 { String::new() } else { format!("{}, format {}", node.version, node.format) };
        vec![node.id.to_string(), name, node.address, node.leads.to_string(), disk, clock, knows, joined]
    };
    let rows = nodes.nodes.into_iter().map(row).collect();
    let head = ["NODE", "NAME", "ADDRESS", "LEADS SHARDS", "DISK", "CLOCK", "VERSION", "JOINED"];
    table::print(output, &head, rows, "no node");
}

impl Asks for Init {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let call = Call::post(["v1", "cluster", "init"], Harm::None).json(&json!({}));
        let answer = client.send(&call).await?;
        self.remote.show(&answer, output, |output, founded: Founded| {
            output.line(format_args!("node {} of cluster {}", founded.node_id, founded.cluster));
        })
    }
}

impl Asks for Join {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let call = Call::post(["v1", "cluster", "join"], Harm::None).json(&json!({ "seeds": self.seeds }));
        let answer = client.send(&call).await?;
        self.remote.show(&answer, output, |output, _: serde_json::Value| {
            output.line(format_args!("it asks {} to take it in", self.seeds.join(", ")));
        })
    }
}

impl Asks for Leave {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let body = json!({ "node_id": self.node, "lost": self.lost });
        let call = Call::post(["v1", "cluster", "leave"], Harm::None).json(&body);
        let answer = client.send(&call).await?;
        self.remote.show(&answer, output, list)
    }
}

impl Asks for Drain {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let call = Call::post(["v1", "cluster", "drain"], Harm::None).json(&json!({}));
        let answer = client.send(&call).await?;
        self.remote.show(&answer, output, |output, _: serde_json::Value| {
            output.line("it gives its leaderships away, finishes what it has, and ends");
        })
    }
}

impl Asks for Raise {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let body = json!({ "dry_run": self.dry_run });
        let call = Call::post(["v1", "cluster", "raise"], Harm::None).json(&body);
        let answer = client.send(&call).await?;
        self.remote.show(&answer, output, |output, Raised { from, to, raised }: Raised| {
            output.line(match (from == to, raised) {
                (true, _) => format!("the cluster has format {to} already, the newest that this node knows"),
                (false, true) => {
                    format!("the cluster has format {to} now; versions that know {from} only cannot go on")
                }
                (false, false) => format!("the format would be raised from {from} to {to}: every node knows it"),
            });
        })
    }
}

impl Cluster {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        match &self.change {
            Some(Change::Raise(raise)) => raise.run(output),
            None => Listed(self).run(output),
        }
    }
}

/// The nodes, listed.
struct Listed<'c>(&'c Cluster);

impl Asks for Listed<'_> {
    fn remote(&self) -> &Remote {
        &self.0.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let answer = client.send(&Call::get(["v1", "cluster"])).await?;
        self.remote().show(&answer, output, list)
    }
}
