//! `orbit bench`: measures a node.

use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::print::{Form, Output};
use super::remote::{block_on, duration};
use crate::bench::{self, Foreign, Hands, Options, Report, Shape, Spread, What};

/// Measure a node or a cluster: one that is started for it, each node a process of its own, or a node that is named.
///
/// Callers start executions and wait for their end, one after the other; a worker answers each task at once. The time
/// of an execution goes from the call that starts it to the answer that says that it is over. Exit code 1 when
/// anything failed or nothing was synced.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// How many executions run at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    callers: u32,
    /// How many tasks the worker takes at a time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    /// The worker asks for each task instead of getting them over a stream.
    #[arg(long)]
    poll: bool,
    /// Each execution is a chain of so many tasks; 5 if nothing else is asked for.
    #[arg(long, value_name = "TASKS", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    chain: Option<u32>,
    /// Each execution is so many tasks at a time.
    #[arg(long, value_name = "TASKS", conflicts_with = "chain")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    fan_out: Option<u32>,
    /// How much memory so many executions take that sleep for an hour.
    #[arg(long, value_name = "EXECUTIONS", conflicts_with_all = ["chain", "fan_out"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    sleepers: Option<u32>,
    /// How late so many timers fire.
    #[arg(long, value_name = "TIMERS", conflicts_with_all = ["chain", "fan_out", "sleepers"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    timers: Option<u32>,
    /// All timers are due within this time.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION", requires = "timers")]
    within: Duration,
    /// How long it is measured.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    time: Duration,
    /// How long it runs before.
    #[arg(long, default_value = "3s", value_parser = duration, value_name = "DURATION")]
    warm_up: Duration,
    /// A cluster of so many nodes is started; several numbers with commas: one after the other, and compared.
    #[arg(long, value_name = "COUNT", default_value = "1", value_delimiter = ',', conflicts_with = "address")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: Vec<u16>,
    /// How many shards what is started has, if not 16.
    #[arg(long, value_name = "COUNT", conflicts_with = "address")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// How often all of that is measured, by turns.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// The node to measure; one is started if none is named.
    #[arg(long, value_name = "URL", requires = "grpc_address")]
    address: Option<String>,
    /// Where that node speaks gRPC.
    #[arg(long, value_name = "HOST:PORT", requires = "address")]
    grpc_address: Option<String>,
    /// The process of that node, for what the kernel counts.
    #[arg(long, value_name = "PID", requires = "address")]
    server_pid: Option<u32>,
    /// Who is asking.
    #[arg(long, env = "ORBIT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Where the data of a started node lies for the time being; the place for temporary files if not given.
    #[arg(long, value_name = "DIR", conflicts_with = "address")]
    data_dir: Option<PathBuf>,
    /// How the result is shown.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

impl Bench {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let mut reports = Vec::new();
        for nodes in (0..self.rounds).flat_map(|_| &self.nodes) {
            let report = match block_on(bench::run(&self.options(), *nodes)) {
                Ok(Ok(report)) => report,
                Ok(Err(error)) => return vec![error.into()],
                Err(error) => return vec![error],
            };
            if self.output == Form::Table {
                print(&report, output);
                if let Some(first) = reports.first() {
                    compare(first, &report, output);
                }
                output.line("");
                output.flush();
            }
            reports.push(report);
        }
        match (self.output, &reports[..]) {
            (Form::Table, _) => {}
            (form, [report]) => output.value(form, report),
            (form, reports) => output.value(form, &reports),
        }
        reports.iter().filter_map(Report::fault).map(Error::Bench).collect()
    }

    fn options(&self) -> Options {
        let what = match (self.sleepers, self.timers, self.fan_out) {
            (Some(count), ..) => What::Sleepers(count),
            (None, Some(count), _) => What::Timers { count, within: self.within },
            (None, None, Some(tasks)) => What::Throughput(Shape::FanOut(tasks)),
            (None, None, None) => What::Throughput(Shape::Chain(self.chain.unwrap_or(5))),
        };
        let node = self.address.clone().zip(self.grpc_address.clone()).map(|(address, grpc_address)| {
            let token = self.token.clone().filter(|token| !token.is_empty());
            Foreign { address, grpc_address, token, pid: self.server_pid }
        });
        Options {
            what,
            callers: self.callers,
            slots: self.slots,
            hands: if self.poll { Hands::Poll } else { Hands::Stream },
            time: self.time,
            warm_up: self.warm_up,
            node,
            shards: self.shards,
            data_dir: self.data_dir.clone(),
        }
    }
}

fn print(report: &Report, output: &mut Output) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<22}{text}"));
    row("measured", report.what.clone());
    row("time", format!("{:.1} s", Duration::from_millis(report.time_ms).as_secs_f64()));
    row("executions", format!("{}, {:.1} per second", report.executions, report.executions_per_s));
    if let Some(tasks) = report.tasks_per_s {
        row("tasks", format!("{tasks:.1} per second"));
    }
    let spreads = [
        ("execution", &report.execution_ms),
        ("ready to worker", &report.ready_to_worker_ms),
        ("timer late", &report.timer_late_ms),
    ];
    for (name, spread) in spreads {
        if let Some(Spread { count, p50, p90, p99, max }) = spread {
            row(name, format!("p50 {p50:.2} ms, p90 {p90:.2}, p99 {p99:.2}, max {max:.2} (of {count})"));
        }
    }
    row("commits", format!("{}, {:.2} per execution", report.commits, report.commits_per_execution));
    row(
        "syncs",
        match (report.syncs, report.syncs_per_execution) {
            (Some(syncs), Some(each)) => {
                format!("{syncs}, {each:.2} per execution, counted by {}", report.syncs_counted_by)
            }
            _ => "not counted".to_owned(),
        },
    );
    if let Some(bytes) = report.written_bytes_per_execution {
        row("written", format!("{bytes:.0} bytes per execution"));
    }
    if let (Some(empty), Some(full), Some(each)) =
        (report.rss_empty_bytes, report.rss_bytes, report.rss_bytes_per_execution)
    {
        row("memory", format!("{empty} bytes empty, {full} full, {each:.0} per execution"));
    }
    if let Some(each) = report.cpu_ms_per_execution {
        row("processor", format!("{each:.3} ms per execution"));
    }
    row("busy answers", report.busy.to_string());
    row("failures", report.failures.to_string());
    let nodes = match &report.server_pids[..] {
        [] => "unknown".to_owned(),
        pids => pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
    };
    row("processes", format!("node {nodes}, load {}, on {} cores", report.load_pid, report.cores));
    row("build", format!("{} {}, node {}", report.build_profile, report.commit, report.server_version));
}

/// What a report is beside the first of its run.
fn compare(first: &Report, report: &Report, output: &mut Output) {
    let median = |report: &Report| report.execution_ms.as_ref().map(|spread| spread.p50);
    let ratios = [
        ("executions", Some(report.executions_per_s).zip(Some(first.executions_per_s))),
        ("p50", median(report).zip(median(first))),
        ("processor", report.cpu_ms_per_execution.zip(first.cpu_ms_per_execution)),
        ("written", report.written_bytes_per_execution.zip(first.written_bytes_per_execution)),
    ];
    let ratios = ratios.iter().filter_map(|(name, figures)| {
        let (this, first) = figures.filter(|(_, first)| *first > 0.0)?;
        Some(format!("{name} {:.2}", this / first))
    });
    output.line(format_args!("{:<22}{}", "times the first", ratios.collect::<Vec<_>>().join(", ")));
}
