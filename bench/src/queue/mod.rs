//! The durable queue against systems that are used as one: Redis, PostgreSQL and beanstalkd.
//!
//! * `job`: the jobs that all systems are given
//! * `contender`, `ours`, `peers`: the systems
//! * `servers`: installs, starts and stops the peers' servers
//! * `measure`: the workloads

pub(crate) mod contender;
pub(crate) mod job;
pub(crate) mod measure;
pub(crate) mod ours;
pub(crate) mod peers;
pub(crate) mod servers;

use std::path::Path;

use anyhow::{Result, bail};
use clap::Arg;

use self::measure::pending;
use self::ours::Ours;
use self::servers::{BeanstalkdServer, PostgresqlServer, RedisServer, Server};
use crate::suite::chart::Scale::Logarithmic;
use crate::suite::goal::Of;
use crate::suite::options::{Choice, flag};
use crate::suite::unit::Unit::{Jobs, JobsPerSecond, Mebibytes, Milliseconds, Seconds};
use crate::suite::{
    Case, Figures, Outcome, Ready, Run, Section, Spec, Suite, Versus, figure, ours as own, panel,
    peer, workload,
};

pub(crate) struct Queue;

/// Systems whose confirmed jobs survive a power failure.
const SYNCED: &[&str] = &["tickwheel", "redis-always", "postgresql-on", "beanstalkd-f0"];
/// Systems that may lose the jobs confirmed last in a power failure.
const RELAXED: &[&str] =
    &["tickwheel-interval", "redis-everysec", "postgresql-off", "beanstalkd-f50"];
const WORK: &[&str] =
    &["put1", "put8", "put64", "put-batch1", "put-batch8", "put-batch64", "end-to-end", "cancel"];

const SYNC: Of = Of("tickwheel");
const INTERVAL: Of = Of("tickwheel-interval");

static SPEC: Spec = Spec {
    name: "queue",
    about: "The durable queue against Redis, PostgreSQL and beanstalkd",
    examples: "\
Examples: everything once and small; two workloads against one peer; the run whose results are kept
  cargo xtask bench queue --quick
  cargo xtask bench queue --peers redis --workload put,end-to-end --rounds 1
  cargo xtask bench queue --full --save

The benchmark installs the peers' servers with apt-get: Debian's redis-server, postgresql and
beanstalkd. Each run starts its own, on a free port of loopback, and stops it.",
    title: "The durable queue and its peers",
    sizes: None,
    stores: true,
    workloads: &[
        workload("put", 3, 4, "1, 8 and 64 callers put single jobs, due in a week"),
        workload("put-batch", 3, 4, "The same in batches of 100"),
        workload(
            "end-to-end",
            3,
            6,
            "32 callers put jobs due in a second, 32 workers work them off",
        ),
        workload("cancel", 3, 4, "64 callers cancel jobs by their key"),
        workload("lateness", 3, 6, "10,000 jobs a second, due 2 s later: how late they come"),
        workload("pending", 1, 25, "A million jobs due in a week: memory, and start after a kill"),
        workload("pending-many", 1, 150, "The same with ten million, ours alone; needs --full"),
    ],
    systems: &[
        own(
            "tickwheel",
            "tickwheel, sync",
            "Tickwheel's queue with its default `Durability::Sync`",
        ),
        peer("redis", "redis-always", "Redis, always", "Redis with `appendfsync always`"),
        peer("postgresql", "postgresql-on", "PostgreSQL, on", "PostgreSQL with its defaults"),
        peer("beanstalkd", "beanstalkd-f0", "beanstalkd, -f0", "beanstalkd with `-f0`"),
        own("tickwheel-interval", "tickwheel, interval", "The same with `Durability::Interval`"),
        peer("redis", "redis-everysec", "Redis, everysec", "Redis with `appendfsync everysec`"),
        peer("postgresql", "postgresql-off", "PostgreSQL, off", "`synchronous_commit = off`"),
        peer("beanstalkd", "beanstalkd-f50", "beanstalkd, -f50", "beanstalkd with `-f50`"),
    ],
    figures: &[
        figure("put1", "put, 1 caller", JobsPerSecond),
        figure("put8", "put, 8 callers", JobsPerSecond),
        figure("put64", "put, 64 callers", JobsPerSecond),
        figure("put-batch1", "put in batches of 100, 1 caller", JobsPerSecond),
        figure("put-batch8", "put in batches of 100, 8 callers", JobsPerSecond),
        figure("put-batch64", "put in batches of 100, 64 callers", JobsPerSecond),
        figure("end-to-end", "put, due, reserve, ack", JobsPerSecond),
        figure("cancel", "cancel by key, 64 callers", JobsPerSecond),
        figure("late-p50", "10k jobs/s: late, p50", Milliseconds),
        figure("late-p99", "10k jobs/s: late, p99", Milliseconds),
        figure("late-max", "10k jobs/s: late, at most", Milliseconds),
        figure("early", "10k jobs/s: early", Jobs),
        figure("memory", "memory, 1M put", Mebibytes),
        figure("memory-again", "memory, 1M, started again", Mebibytes),
        figure("restart", "start again with 1M", Seconds),
        figure("memory-many", "memory, 10M put", Mebibytes),
        figure("memory-many-again", "memory, 10M, started again", Mebibytes),
        figure("restart-many", "start again with 10M", Seconds),
    ],
    sections: &[
        Section {
            heading: "On stable storage when answered",
            systems: SYNCED,
            versus: &[Versus::BestPeer],
        },
        Section {
            heading: "On stable storage a moment later",
            systems: RELAXED,
            versus: &[Versus::BestPeer],
        },
    ],
    goals: &[
        SYNC.times_best("put64", 2.0, "put64"),
        SYNC.times_best("put-batch64", 2.0, "put-batch64"),
        SYNC.times_best("end-to-end", 2.0, "end-to-end"),
        INTERVAL.times_best("put64", 2.0, "put64"),
        INTERVAL.times_best("put-batch64", 2.0, "put-batch64"),
        INTERVAL.times_best("end-to-end", 2.0, "end-to-end"),
        SYNC.at_least("put-batch64", 100_000.0),
        INTERVAL.under("restart", 2.0),
        INTERVAL.under("restart-many", 5.0),
        SYNC.under("late-p99", 5.0),
        // 200 MiB plus the cache of 32 MiB.
        INTERVAL.at_most("memory-many", 232.0),
        INTERVAL.at_most("memory-many-again", 232.0),
        SYNC.at_most("early", 0.0),
    ],
    subtitle: "Logarithmic scales.",
    legend: &["tickwheel", "Redis", "PostgreSQL", "beanstalkd"],
    panels: &[
        panel("on stable storage when answered: longer is better", Logarithmic, SYNCED, WORK),
        panel("on stable storage a moment later: longer is better", Logarithmic, RELAXED, WORK),
        panel("lateness: shorter is better", Logarithmic, SYNCED, &["late-p50", "late-p99"]),
        panel("memory with 1M pending: shorter is better", Logarithmic, RELAXED, &["memory-again"]),
        panel("start with 1M pending: shorter is better", Logarithmic, RELAXED, &["restart"]),
    ],
    notes: include_str!("notes.md"),
};

impl Suite for Queue {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn options(&self) -> Vec<Arg> {
        let help = "Also measure ten million pending jobs of our own: three minutes, 5 GB of disk";
        vec![flag("full", help)]
    }

    /// Memory and restart time do not depend on when data is synced, so they are measured only for
    /// the systems that are quicker to fill. Lateness is measured for those that sync each answer,
    /// where it is harder to keep low.
    fn does(&self, system: &str, workload: &str) -> bool {
        match workload {
            "pending" => RELAXED.contains(&system),
            "pending-many" => system == "tickwheel-interval",
            "lateness" => SYNCED.contains(&system),
            _ => true,
        }
    }

    fn includes(&self, choice: &Choice, case: &Case) -> bool {
        let many = "pending-many";
        case.workload.name != many || choice.flag("full") || choice.names("workload", many)
    }

    fn set_up(&self, choice: &Choice) -> Result<Ready> {
        Ok(Ready { versions: servers::set_up(choice)?, ..Ready::default() })
    }

    fn settings(&self, choice: &Choice, case: &Case) -> Vec<(&'static str, u64)> {
        let (time_ms, jobs) = match (choice.quick(), case.workload.name) {
            (true, "pending-many") => (200, 40_000),
            (true, _) => (200, 4_000),
            (false, "end-to-end" | "lateness") => (3_000, 0),
            (false, "pending") => (0, 1_000_000),
            (false, "pending-many") => (0, 10_000_000),
            (false, _) => (1_000, 10_000),
        };
        vec![("time-ms", time_ms), ("jobs", jobs)]
    }

    fn run(&self, run: &Run) -> Result<Outcome> {
        let relaxed = RELAXED.contains(&run.system.name);
        let figures = match run.system.peer {
            None => ours(run, relaxed),
            Some("redis") => server::<RedisServer>(run, relaxed),
            Some("postgresql") => server::<PostgresqlServer>(run, relaxed),
            Some("beanstalkd") => server::<BeanstalkdServer>(run, relaxed),
            Some(other) => bail!("unknown peer {other}"),
        };
        Ok(figures?.into())
    }

    /// Fills our own queue.
    fn help(&self, run: &Run) -> Result<()> {
        pending::fill_ours(run.path("folder")?, run.number("jobs")?)
    }
}

fn is_pending(run: &Run) -> bool {
    matches!(run.workload.name, "pending" | "pending-many")
}

fn ours(run: &Run, relaxed: bool) -> Result<Figures> {
    if is_pending(run) {
        return pending::ours(run, &SPEC);
    }
    measure::workload(&Ours::open(run.path("folder")?, relaxed)?, run)
}

fn server<S: Server>(run: &Run, relaxed: bool) -> Result<Figures> {
    if is_pending(run) {
        return pending::server::<S>(run);
    }
    let folder: &Path = run.path("folder")?;
    let (_server, peer) = S::start(folder, relaxed)?;
    measure::workload(&peer, run)
}
