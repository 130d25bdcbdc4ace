//! The service, `tickwheel serve`, against the queue in it, and against Redis, PostgreSQL and
//! beanstalkd.
//!
//! The peers' servers and clients, the jobs and most of the workloads are those of `queue`.
//!
//! * `program`: builds, starts and stops the service
//! * `http`, `ours`: a plain client of its HTTP API
//! * `client`: the Rust client
//! * `measure`, `pending`: the workloads

mod client;
pub(crate) mod http;
mod measure;
pub(crate) mod ours;
mod pending;
pub(crate) mod program;

use anyhow::{Result, bail};
use clap::Arg;

use self::measure::{workload as measure, workload_ahead as measure_ahead};
use crate::queue::measure::time;
use crate::queue::ours::Ours;
use crate::queue::servers::{self, BeanstalkdServer, PostgresqlServer, RedisServer, Server as _};
use crate::suite::chart::Scale::{Linear, Logarithmic};
use crate::suite::goal::Of;
use crate::suite::options::Choice;
use crate::suite::unit::Unit::{
    Jobs, JobsPerSecond, Mebibytes, Megabytes, Milliseconds, PercentOfCore, Seconds,
};
use crate::suite::{
    Case, Outcome, Ready, Run, Section, Spec, Suite, Versus, figure, ours as own, panel, peer,
    workload,
};

pub(crate) struct Server;

const SERVICE: Of = Of("service");
const CLIENT: Of = Of("client");
const BEANSTALK: Of = Of("beanstalk");

static SPEC: Spec = Spec {
    name: "server",
    about: "The service against the queue in it and against Redis, PostgreSQL and beanstalkd",
    examples: "\
Examples: everything once and small; one workload of ours alone; the run whose results are kept
  cargo xtask bench server --quick
  cargo xtask bench server --peers none --workload put-batch --rounds 1
  cargo xtask bench server --save

The service is built from this repository, as `cargo build --release` builds it. The benchmark
installs the peers' servers with apt-get: Debian's redis-server, postgresql and beanstalkd. Each run
starts its own, on a free port of loopback, and stops it.",
    title: "The service, the queue in it, and its peers",
    sizes: None,
    stores: true,
    workloads: &[
        workload("put", 3, 6, "8 and 64 connections put single jobs, due in a week; 16 sent ahead"),
        workload("put-batch", 3, 5, "8 and 64 connections put batches of 100"),
        workload("lateness", 3, 7, "5,000 jobs a second, due 2 s later: how late they come"),
        workload("pending", 1, 35, "A million jobs due in a week: starts, memory, idling"),
    ],
    systems: &[
        own("service", "tickwheel serve", "`tickwheel serve` with an access log of errors only"),
        own(
            "client",
            "tickwheel serve, Rust client",
            "Tasks that share one `tickwheel_client::Client`",
        ),
        own("beanstalk", "tickwheel serve, beanstalk port", "Its port for the beanstalkd protocol"),
        own("embedded", "embedded queue", "The queue in it, as a library: `Durability::Sync`"),
        peer("redis", "redis", "Redis", "Redis with `appendfsync always`"),
        peer("postgresql", "postgresql", "PostgreSQL", "PostgreSQL with its defaults"),
        peer("beanstalkd", "beanstalkd", "beanstalkd", "beanstalkd with `-f0`"),
    ],
    figures: &[
        figure("put8", "put, 8 connections", JobsPerSecond),
        figure("put64", "put, 64 connections", JobsPerSecond),
        figure("put-ahead64", "put, 64 connections, 16 sent ahead on each", JobsPerSecond),
        figure("put-batch8", "put in batches of 100, 8 connections", JobsPerSecond),
        figure("put-batch64", "put in batches of 100, 64 connections", JobsPerSecond),
        figure("late-p50", "5k jobs/s: late, p50", Milliseconds),
        figure("late-p99", "5k jobs/s: late, p99", Milliseconds),
        figure("late-max", "5k jobs/s: late, at most", Milliseconds),
        figure("early", "5k jobs/s: early", Jobs),
        figure("start-after-kill", "first answer after a kill, 1M pending", Seconds),
        figure("start-after-stop", "first answer after a stop, 1M pending", Seconds),
        figure("memory", "memory, 1M pending", Mebibytes),
        figure("idle", "idle, 1M pending", PercentOfCore),
        figure("binary", "binary", Megabytes),
    ],
    sections: &[Section {
        heading: "Figures",
        systems: &[],
        versus: &[Versus::System("embedded"), Versus::BestPeer],
    }],
    goals: &[
        SERVICE.times("put-batch8", 0.6, "embedded"),
        SERVICE.times("put-batch64", 0.6, "embedded"),
        SERVICE.times("put64", 1.2, "redis"),
        SERVICE.times("put-ahead64", 1.5, "redis"),
        CLIENT.times("put64", 3.0, "service"),
        CLIENT.times("put64", 1.0, "redis"),
        BEANSTALK.times("put64", 1.5, "redis"),
        BEANSTALK.times("put64", 5.0, "beanstalkd"),
        BEANSTALK.times("put-ahead64", 1.0, "redis"),
        SERVICE.under("late-p99", 10.0),
        SERVICE.under("start-after-kill", 1.0),
        SERVICE.under("start-after-stop", 1.0),
        SERVICE.under("idle", 1.0),
        SERVICE.under("binary", 40.0),
        SERVICE.at_most("early", 0.0),
    ],
    subtitle: "On stable storage when answered.",
    legend: &[],
    panels: &[
        panel("single jobs: longer is better", Linear, &[], &["put8", "put64", "put-ahead64"]),
        panel("batches: longer is better", Linear, &[], &["put-batch8", "put-batch64"]),
        panel("lateness: shorter is better", Logarithmic, &[], &["late-p50", "late-p99"]),
    ],
    notes: include_str!("notes.md"),
};

impl Suite for Server {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn options(&self) -> Vec<Arg> {
        vec![program::option()]
    }

    /// The suite `queue` measures a million pending jobs of the others. The Rust client differs from
    /// a plain one by sending single puts together. The beanstalkd protocol has
    /// no batches, and its delays are whole seconds.
    fn does(&self, system: &str, workload: &str) -> bool {
        match system {
            "service" => true,
            "client" | "beanstalk" => workload == "put",
            _ => workload != "pending",
        }
    }

    fn set_up(&self, choice: &Choice) -> Result<Ready> {
        let binary = program::binary(choice)?;
        Ok(Ready { versions: servers::set_up(choice)?, settings: vec![("binary", binary)] })
    }

    fn settings(&self, choice: &Choice, case: &Case) -> Vec<(&'static str, u64)> {
        let (time_ms, jobs) = match (choice.quick(), case.workload.name) {
            (true, _) => (200, 4_000),
            (false, "lateness") => (4_000, 0),
            (false, "pending") => (10_000, 1_000_000),
            (false, _) => (2_000, 0),
        };
        vec![("time-ms", time_ms), ("jobs", jobs)]
    }

    fn run(&self, run: &Run) -> Result<Outcome> {
        let (binary, folder) = (run.path("binary")?, run.path("folder")?);
        let figures = match run.system.name {
            "service" if run.workload.name == "pending" => pending::measure(run),
            "service" => {
                let (_program, service, _) = program::start(binary, folder, "sync")?;
                measure_ahead(&service, run)
            }
            "client" => {
                let (_program, service, _) = program::start(binary, folder, "sync")?;
                client::measure(&service, time(run)?)
            }
            "beanstalk" => {
                let (_program, client) = program::start_beanstalk(binary, folder)?;
                measure_ahead(&client, run)
            }
            "embedded" => measure(&Ours::open(folder, false)?, run),
            "redis" => {
                let (_server, peer) = RedisServer::start(folder, false)?;
                measure_ahead(&peer, run)
            }
            "postgresql" => {
                let (_server, peer) = PostgresqlServer::start(folder, false)?;
                measure(&peer, run)
            }
            "beanstalkd" => {
                let (_server, peer) = BeanstalkdServer::start(folder, false)?;
                measure_ahead(&peer, run)
            }
            other => bail!("unknown system {other}"),
        };
        Ok(figures?.into())
    }
}
