//! Push delivery: how fast one target gets a backlog, what a delivery costs beside a worker that
//! does the same over HTTP, and whether a thousand targets keep their rates.
//!
//! * `target`: the HTTP target, a process of its own, which answers at once and counts
//! * `backlog`: the backlog of one target, delivered by the server and by a worker
//! * `rates`: many targets with a rate each

mod backlog;
mod rates;
mod target;

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::Arg;
use rustix::process::Signal;
use serde_json::{Value, json};

use self::target::Target;
use crate::queue::servers::process::{Process, free_port};
use crate::server::http::Connection;
use crate::server::program;
use crate::suite::chart::Scale::Linear;
use crate::suite::goal::Of;
use crate::suite::options::Choice;
use crate::suite::unit::Unit::{JobsPerSecond, Mebibytes, Microseconds, PercentOfRate, Requests};
use crate::suite::{
    Case, Outcome, Ready, Run, Section, Spec, Suite, Versus, figure, ours, panel, peer, workload,
};

pub(crate) struct Push;

const PUSH: Of = Of("push");

static SPEC: Spec = Spec {
    name: "push",
    about: "Push delivery: its speed, its cost beside a worker, and the rates of many targets",
    examples: "\
Examples: everything small; the backlog alone; the run whose results are kept
  cargo xtask bench push --quick
  cargo xtask bench push --workload backlog
  cargo xtask bench push --save",
    title: "Push delivery",
    sizes: None,
    stores: true,
    workloads: &[
        workload("backlog", 1, 60, "A million due jobs for one target, 64 at a time"),
        workload("rates", 1, 70, "1,000 targets that allow 10 requests a second each"),
    ],
    systems: &[
        ours("push", "push", "The server delivers the jobs to the target"),
        peer("worker", "worker", "worker", "A worker reserves, posts and acknowledges over HTTP"),
    ],
    figures: &[
        figure("deliveries", "backlog: deliveries", JobsPerSecond),
        figure("delivery-cpu", "backlog: processor time of a delivery", Microseconds),
        figure("memory", "backlog: memory of the server", Mebibytes),
        figure("densest", "rates: most requests of a target in any second", Requests),
        figure("used", "rates: requests of those that were allowed", PercentOfRate),
    ],
    sections: &[Section { heading: "", systems: &[], versus: &[Versus::System("worker")] }],
    goals: &[
        PUSH.at_least("deliveries", 15_000.0),
        PUSH.under("memory", 150.0),
        PUSH.times("delivery-cpu", 2.0, "worker"),
        PUSH.at_most("densest", rates::STARTS as f64),
        PUSH.at_least("used", 99.0),
    ],
    subtitle: "One target, 64 requests at a time.",
    legend: &[],
    panels: &[
        panel("speed: longer is better", Linear, &[], &["deliveries"]),
        panel("processor time: shorter is better", Linear, &[], &["delivery-cpu"]),
    ],
    notes: include_str!("notes.md"),
};

impl Suite for Push {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn options(&self) -> Vec<Arg> {
        vec![program::option()]
    }

    /// A worker has no rates of targets.
    fn does(&self, system: &str, workload: &str) -> bool {
        system == "push" || workload == "backlog"
    }

    fn set_up(&self, choice: &Choice) -> Result<Ready> {
        let settings = vec![("binary", program::binary(choice)?)];
        Ok(Ready { settings, ..Ready::default() })
    }

    fn settings(&self, choice: &Choice, _case: &Case) -> Vec<(&'static str, u64)> {
        if choice.quick() {
            vec![("jobs", 20_000), ("targets", 50), ("seconds", 5)]
        } else {
            vec![("jobs", 1_000_000), ("targets", 1_000), ("seconds", 60)]
        }
    }

    fn run(&self, run: &Run) -> Result<Outcome> {
        let pair = Pair::start(run.path("binary")?, run.path("folder")?)?;
        let jobs = run.number("jobs")? as usize;
        let figures = match (run.workload.name, run.system.name) {
            ("backlog", "push") => backlog::pushed(pair, jobs),
            ("backlog", "worker") => backlog::worked(pair, jobs),
            ("rates", _) => {
                rates::measure(pair, run.number("targets")? as usize, run.number("seconds")?)
            }
            (other, _) => bail!("unknown workload {other}"),
        };
        Ok(figures?.into())
    }

    /// Serves as the target.
    fn help(&self, run: &Run) -> Result<()> {
        target::serve(u16::try_from(run.number("port")?)?)
    }
}

/// A server and a target, each a process of its own.
struct Pair {
    server: Process,
    target: Target,
    connection: Connection,
}

impl Pair {
    fn start(binary: &Path, folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let target = Target::start(folder)?;
        let port = free_port()?;
        let arguments = [
            "serve".to_owned(),
            format!("--listen=127.0.0.1:{port}"),
            format!("--data={}", folder.join("data").display()),
            "--push-allow=127.0.0.0/8".to_owned(),
            "--access-log=errors".to_owned(),
        ];
        let mut server = Process::start(&[], binary, &arguments, folder, Signal::KILL)?;
        let connection = server.await_client(|| {
            let mut connection = Connection::open(port)?;
            connection.ask("GET", "/readyz", b"")?.expect(200)?;
            Ok(connection)
        })?;
        Ok(Self { server, target, connection })
    }

    /// Sends a request to the server and returns its answer.
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let text = body.to_string();
        let body = if body.is_null() { &b""[..] } else { text.as_bytes() };
        let answer = self.connection.ask(method, path, body)?;
        let status = answer.status;
        ensure!(
            (200..300).contains(&status),
            "{method} {path} was answered with {status}: {}",
            String::from_utf8_lossy(answer.body)
        );
        serde_json::from_slice(answer.body).context("an answer is not JSON")
    }

    /// Puts jobs that are due at once.
    fn put(&mut self, queue: &str, jobs: usize) -> Result<()> {
        const BATCH: usize = 1_000;
        let mut left = jobs;
        while left > 0 {
            let count = left.min(BATCH);
            let item = json!({ "queue": queue, "text": "an order of 42 things" });
            let items = vec![item; count];
            self.ask("POST", "/v1/jobs/batch", &json!({ "items": items }))?;
            left -= count;
        }
        Ok(())
    }
}
