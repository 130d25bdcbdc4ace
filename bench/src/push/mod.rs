//! Push delivery: how fast one target gets a backlog, what a delivery costs beside a worker that
//! does the same over HTTP, and whether a thousand targets keep their rates.
//!
//! * `target`: the HTTP target, a process of its own, which answers at once and counts.
//! * `backlog`: the backlog of one target, delivered by the server and by a worker.
//! * `rates`: many targets with a rate each.

mod backlog;
mod rates;
mod target;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use rustix::process::Signal;
use serde_json::Value;

use crate::queue::servers::process::{Process, free_port};
use crate::report::goal::{self, Goal};
use crate::scratch::Scratch;
use crate::server::http::Connection;
use crate::server::program;
pub(crate) use target::Run;
use target::Target;

/// How to measure push delivery.
#[derive(Args)]
pub(crate) struct Options {
    /// A short run, to see that everything works
    #[arg(long)]
    quick: bool,
    /// The binary to measure; built from this repository by default
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// How much work there is.
struct Scale {
    /// Jobs of the backlog.
    jobs: usize,
    /// Targets with a rate, and for how long they are watched.
    targets: usize,
    seconds: u64,
}

impl Options {
    fn scale(&self) -> Scale {
        if self.quick {
            Scale { jobs: 20_000, targets: 50, seconds: 5 }
        } else {
            Scale { jobs: 1_000_000, targets: 1_000, seconds: 60 }
        }
    }
}

/// Measures everything, and prints which goals are reached.
pub(crate) fn compare(options: &Options) -> Result<()> {
    let binary = options.binary.clone().map_or_else(program::build, Ok)?;
    let scale = options.scale();
    let folder = std::env::temp_dir().join(format!("tickwheel-bench-push-{}", std::process::id()));
    let _scratch = Scratch::new(&folder)?;
    let pushed = backlog::pushed(&binary, &folder.join("pushed"), scale.jobs)?;
    let worked = backlog::worked(&binary, &folder.join("worked"), scale.jobs)?;
    let rates = rates::measure(&binary, &folder.join("rates"), &scale)?;
    let micros = |cost: Duration| cost.as_secs_f64() * 1e6;
    let mebibytes = pushed.resident >> 20;
    let goals = [
        Goal {
            what: format!("deliveries of {} due jobs, concurrency 64", scale.jobs),
            wanted: "15,000/s".to_owned(),
            measured: format!("{:.0}/s", pushed.rate),
            reached: pushed.rate >= 15_000.0,
        },
        Goal {
            what: "memory of the server meanwhile".to_owned(),
            wanted: "150 MiB".to_owned(),
            measured: format!("{mebibytes} MiB"),
            reached: mebibytes < 150,
        },
        Goal {
            what: "processor time of a delivery, beside that by a worker loop".to_owned(),
            wanted: "half".to_owned(),
            measured: format!("{:.1} µs, {:.1} µs", micros(pushed.cost), micros(worked.cost)),
            reached: pushed.cost * 2 <= worked.cost,
        },
        Goal {
            what: format!("requests in any second, of {} targets at 10/s", scale.targets),
            wanted: "10".to_owned(),
            measured: rates.densest.to_string(),
            reached: rates.densest <= rates::STARTS,
        },
        Goal {
            what: format!("use of these rates in {} s", scale.seconds),
            wanted: "99 %".to_owned(),
            measured: format!("{:.1} %", 100.0 * rates.used),
            reached: rates.used >= 0.99,
        },
    ];
    println!("{}", goal::table(&goals));
    Ok(())
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

    /// Asks the server, and returns its answer.
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let text = body.to_string();
        let body = if body.is_null() { &b""[..] } else { text.as_bytes() };
        let answer = self.connection.ask(method, path, body)?;
        let status = answer.status;
        anyhow::ensure!(
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
            let item = serde_json::json!({ "queue": queue, "text": "an order of 42 things" });
            let items = vec![item; count];
            self.ask("POST", "/v1/jobs/batch", &serde_json::json!({ "items": items }))?;
            left -= count;
        }
        Ok(())
    }
}
