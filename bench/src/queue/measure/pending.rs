//! What jobs that are due in a week cost while they wait: memory, and time to start again.
//!
//! The queue is filled, killed and started again; what it says that it holds has to be all. Our
//! own is filled by a process of its own, so that what starts again is as fresh as a server.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Figures, callers, first_number, together};
use crate::memory::resident;
use crate::names::name;
use crate::queue::contender::{Caller, Contender};
use crate::queue::figure::Figure;
use crate::queue::job::Job;
use crate::queue::ours::Ours;
use crate::queue::plan::Plan;
use crate::queue::servers::Server;
use crate::queue::system::{Class, System};
use crate::queue::workload::Workload;

const CALLERS: u64 = 2;
const BATCH: u64 = 1_000;
/// How long all are left alone before they are looked at: longer than any of them takes to sync.
const CALM: Duration = Duration::from_secs(1);

/// Puts all jobs.
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

/// Whether all are there.
pub(crate) fn ensure_all(contender: &impl Contender, jobs: u64) -> Result<()> {
    let (pending, jobs) = (contender.pending()?, jobs / CALLERS * CALLERS);
    ensure!(pending == jobs, "{jobs} jobs were put, and after the restart there are {pending}");
    Ok(())
}

/// A peer's server.
pub(in crate::queue) fn server<S: Server>(folder: &Path, plan: &Plan) -> Result<Figures> {
    let (server, peer) = S::start(folder, true)?;
    fill(&peer, plan.jobs)?;
    let before = server.resident()?;
    drop(peer);
    server.kill()?;
    let began = Instant::now();
    let (server, peer) = S::start(folder, true)?;
    let took = began.elapsed();
    let after = server.resident()?;
    ensure_all(&peer, plan.jobs)?;
    figures(plan.workload, before, after, took)
}

/// Our own queue.
pub(in crate::queue) fn ours(plan: &Plan) -> Result<Figures> {
    let before = fill_elsewhere(plan)?;
    let began = Instant::now();
    let ours = Ours::open(&plan.folder, Class::Relaxed)?;
    let took = began.elapsed();
    ensure_all(&ours, plan.jobs)?;
    let after = resident()?;
    figures(plan.workload, before, after, took)
}

/// Fills our queue in this process, says how much memory that took, and waits to be killed.
pub(in crate::queue) fn fill_ours(plan: &Plan) -> Result<()> {
    let ours = Ours::open(&plan.folder, Class::Relaxed)?;
    fill(&ours, plan.jobs)?;
    println!("{}", resident()?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    bail!("nobody has killed this");
}

fn fill_elsewhere(plan: &Plan) -> Result<u64> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = Command::new(program);
    command.args(["queue-run", "--fill", "--system", &name(&System::TickwheelInterval)]);
    command.args(plan.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Killed(command.spawn().with_context(|| format!("cannot start {command:?}"))?);
    let mut line = String::new();
    let output = child.0.stdout.take().context("its output was asked for")?;
    BufReader::new(output).read_line(&mut line)?;
    line.trim().parse().context("the process that fills the queue failed; it says why above")
}

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself, with an error that is told elsewhere.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn figures(workload: Workload, before: u64, after: u64, took: Duration) -> Result<Figures> {
    let names = match workload {
        Workload::Pending => [Figure::Memory, Figure::MemoryAgain, Figure::Restart],
        Workload::PendingMany => [Figure::MemoryMany, Figure::MemoryManyAgain, Figure::RestartMany],
        other => bail!("{} leaves nothing pending", name(&other)),
    };
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let values = [mebibytes(before), mebibytes(after), took.as_secs_f64()];
    Ok(names.into_iter().zip(values).collect())
}
