//! Measures the cost of jobs that are due in a week: memory and restart time.
//!
//! The queue is filled, killed and restarted, and must then report all jobs. Another process fills
//! our own queue, so that the process that opens it is as fresh as a server.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{callers, first_number, together};
use crate::memory::resident;
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::Job;
use crate::queue::ours::Ours;
use crate::queue::servers::Server;
use crate::suite::{Figures, Run, Spec};

const CALLERS: u64 = 2;
const BATCH: u64 = 1_000;
/// The pause before memory is read: longer than any system takes to sync.
const CALM: Duration = Duration::from_secs(1);

/// Puts `jobs` jobs.
pub(crate) fn fill(contender: &impl Contender, jobs: u64) -> Result<()> {
    let share = jobs / CALLERS;
    together(callers(contender, CALLERS as usize)?, |caller, connection, _| {
        let (mut next, end) = (first_number(caller), first_number(caller) + share);
        while next < end {
            let batch = BATCH.min(end - next);
            connection.put((next..next + batch).map(Job::far).collect())?;
            next += batch;
        }
        Ok(())
    })?;
    sleep(CALM);
    Ok(())
}

/// Checks that no job is lost.
pub(crate) fn ensure_all(contender: &impl Contender, jobs: u64) -> Result<()> {
    let (pending, jobs) = (contender.pending()?, jobs / CALLERS * CALLERS);
    ensure!(pending == jobs, "{jobs} jobs were put, and after the restart there are {pending}");
    Ok(())
}

/// Measures a peer's server.
pub(in crate::queue) fn server<S: Server>(run: &Run) -> Result<Figures> {
    let (folder, jobs) = (run.path("folder")?, run.number("jobs")?);
    let (server, peer) = S::start(folder, true)?;
    fill(&peer, jobs)?;
    let before = server.resident()?;
    drop(peer);
    server.kill()?;
    let began = Instant::now();
    let (server, peer) = S::start(folder, true)?;
    let took = began.elapsed();
    let after = server.resident()?;
    ensure_all(&peer, jobs)?;
    Ok(figures(run, before, after, took))
}

/// Measures our own queue.
pub(in crate::queue) fn ours(run: &Run, spec: &Spec) -> Result<Figures> {
    let before = fill_elsewhere(run.helper(spec, "fill")?)?;
    let began = Instant::now();
    let ours = Ours::open(run.path("folder")?, true)?;
    let took = began.elapsed();
    ensure_all(&ours, run.number("jobs")?)?;
    let after = resident()?;
    Ok(figures(run, before, after, took))
}

/// Fills our queue in this process, prints its resident memory, and waits to be killed.
pub(in crate::queue) fn fill_ours(folder: &Path, jobs: u64) -> Result<()> {
    let ours = Ours::open(folder, true)?;
    fill(&ours, jobs)?;
    println!("{}", resident()?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    bail!("the process that fills the queue must be killed, not stopped");
}

/// Fills our queue in another process, kills that process, and returns its resident memory.
fn fill_elsewhere(mut command: Command) -> Result<u64> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Killed(command.spawn().with_context(|| format!("cannot start {command:?}"))?);
    let mut line = String::new();
    let output = child.0.stdout.take().context("the output is piped")?;
    BufReader::new(output).read_line(&mut line)?;
    line.trim().parse().context("the process that fills the queue failed; it says why above")
}

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may have ended with an error, which the reader of its output reports.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn figures(run: &Run, before: u64, after: u64, took: Duration) -> Figures {
    let names = match run.workload.name {
        "pending" => ["memory", "memory-again", "restart"],
        _ => ["memory-many", "memory-many-again", "restart-many"],
    };
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    names.into_iter().zip([mebibytes(before), mebibytes(after), took.as_secs_f64()]).collect()
}
