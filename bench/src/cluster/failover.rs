//! How long a cluster acknowledges nothing after a fault.
//!
//! A client puts one job after the other at a node that the fault spares. The figure of a trial is
//! the longest time between two acknowledged puts, from the last one before the fault to the first
//! one that was sent when the process had ended. Then the process is started again, and the next
//! trial begins when all replicas have caught up.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::jetstream::JetStream;
use super::nodes::Cluster;
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::Job;
use crate::queue::measure::put::{BATCH, ensure_pending};
use crate::server::ours::Service;
use crate::suite::Figures;
use crate::suite::numbers::quantile;

/// How long nothing may be acknowledged before a trial has failed.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long the client puts before the fault.
const LEAD: Duration = Duration::from_millis(300);
/// Before a put that failed is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_millis(1);

/// What happens to a process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The node that owns the partition is killed.
    KillOwner,
    /// The server that leads the stream of the partition is killed.
    KillLeader,
    /// The node that owns the partition is asked to end.
    StopOwner,
}

impl Fault {
    /// The names of the median and of the longest pause.
    fn figures(self) -> [&'static str; 2] {
        match self {
            Self::KillOwner => ["takeover-p50", "takeover-max"],
            Self::KillLeader => ["leader-p50", "leader-max"],
            Self::StopOwner => ["hand-off-p50", "hand-off-max"],
        }
    }
}

/// Inflicts a fault several times on a cluster that has jobs, and returns the pauses in seconds.
pub(super) fn measure(
    binary: &Path,
    folder: &Path,
    partitions: Option<u64>,
    fault: Fault,
    jobs: u64,
    trials: u64,
) -> Result<Figures> {
    let mut cluster = Cluster::start(binary, folder, partitions)?;
    fill(&cluster.at_owner()?, jobs)?;
    let mut pauses = Vec::new();
    for number in 1..=trials {
        let pause = trial(&mut cluster, fault).with_context(|| format!("trial {number}"))?;
        eprintln!("trial {number}: {:.3} s", pause.as_secs_f64());
        pauses.push(pause.as_micros() as i64);
    }
    pauses.sort_unstable();
    let of = |share| quantile(&pauses, share) as f64 / 1e6;
    let [median, longest] = fault.figures();
    Ok(vec![(median, of(0.5)), (longest, of(1.0))])
}

fn fill(service: &Service, jobs: u64) -> Result<()> {
    let mut caller = service.caller()?;
    let numbers: Vec<u64> = (0..jobs).collect();
    for batch in numbers.chunks(10 * BATCH as usize) {
        caller.put(batch.iter().copied().map(Job::far).collect())?;
    }
    ensure_pending(service, jobs)
}

/// A put that was acknowledged.
#[derive(Clone, Copy)]
struct Acknowledged {
    sent: Instant,
    at: Instant,
}

fn trial(cluster: &mut Cluster, fault: Fault) -> Result<Duration> {
    let owner = cluster.await_rest()?;
    let leader = leader(cluster)?;
    let spared = (owner + 1) % cluster.nodes.len();
    let client = Service::of_nodes(vec![cluster.nodes[spared].port], 1);
    let (all, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let last = || all.lock().unwrap_or_else(PoisonError::into_inner).last().copied();
    let pause = thread::scope(|scope| {
        let putting = scope.spawn(|| put_until(&client, &all, &is_over));
        let outcome: Result<Duration> = (|| {
            sleep(LEAD);
            await_put(last, |_| true)?;
            let began = Instant::now();
            inflict(cluster, fault, owner, leader)?;
            let gone = Instant::now();
            await_put(last, |put: Acknowledged| put.sent > gone)?;
            let all = all.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(longest_pause(&all, began, gone))
        })();
        is_over.store(true, Ordering::SeqCst);
        putting.join().expect("the client does not panic");
        outcome
    })?;
    match fault {
        Fault::KillLeader => cluster.nats.restart(leader)?,
        Fault::KillOwner | Fault::StopOwner => cluster.nodes[owner].restart()?,
    }
    Ok(pause)
}

/// Returns the index of the server that leads the stream with the most records.
fn leader(cluster: &Cluster) -> Result<usize> {
    let streams = JetStream::connect(&cluster.nats)?;
    let states: Result<Vec<_>> = streams.names()?.iter().map(|name| streams.state(name)).collect();
    let largest = states?.into_iter().max_by_key(|state| state.bytes).context("no stream")?;
    let is_leader = |name: &str| name == largest.leader;
    let mut servers = cluster.nats.servers.iter();
    servers.position(|server| is_leader(&server.name)).context("the leader is unknown")
}

/// Returns when the process has ended.
fn inflict(cluster: &mut Cluster, fault: Fault, owner: usize, leader: usize) -> Result<()> {
    match fault {
        Fault::KillOwner => cluster.nodes[owner].kill()?,
        Fault::KillLeader => cluster.nats.kill(leader)?,
        Fault::StopOwner => {
            cluster.nodes[owner].process().terminate()?;
            let asked = Instant::now();
            while cluster.nodes[owner].is_running() {
                ensure!(asked.elapsed() < PATIENCE, "the node does not end");
                sleep(STEP);
            }
        }
    }
    Ok(())
}

/// Puts one job after the other, and remembers those that were acknowledged.
fn put_until(client: &Service, all: &Mutex<Vec<Acknowledged>>, is_over: &AtomicBool) {
    let mut caller = None;
    for number in 0.. {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let sent = Instant::now();
        let connected = caller.take().map_or_else(|| client.caller(), Ok);
        let put = connected.and_then(|mut it| it.put(vec![Job::far(number)]).map(|()| it));
        match put {
            Ok(connection) => {
                let acknowledged = Acknowledged { sent, at: Instant::now() };
                all.lock().unwrap_or_else(PoisonError::into_inner).push(acknowledged);
                caller = Some(connection);
            }
            // The outcome is unknown, or no node owns the partition.
            Err(_) => sleep(REPEAT_PAUSE),
        }
    }
}

/// Waits for a put that was acknowledged and is as asked for.
fn await_put(
    last: impl Fn() -> Option<Acknowledged>,
    is_it: impl Fn(Acknowledged) -> bool,
) -> Result<()> {
    let asked = Instant::now();
    while !last().is_some_and(&is_it) {
        ensure!(asked.elapsed() < PATIENCE, "nothing was acknowledged for a minute");
        sleep(STEP);
    }
    Ok(())
}

/// Returns the longest time without an acknowledgement, from the last one before `began` to the
/// first one of a put that was sent after `gone`.
fn longest_pause(all: &[Acknowledged], began: Instant, gone: Instant) -> Duration {
    let first = all.iter().rposition(|put| put.at <= began).unwrap_or(0);
    let end = all.iter().position(|put| put.sent > gone).map_or(all.len(), |index| index + 1);
    let window = &all[first..end.max(first)];
    let pauses = window.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at));
    pauses.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_that_between_acknowledgements_around_the_fault() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let put = |(sent, acked)| Acknowledged { sent: at(sent), at: at(acked) };
        // A pause of 90 ms before the fault, one of 48 ms by it, and one of 70 ms after it.
        let all = [(0, 2), (2, 92), (92, 95), (95, 97), (97, 145), (145, 147), (147, 217)].map(put);
        let of = |began, gone| longest_pause(&all, at(began), at(gone));
        assert_eq!(of(96, 98), Duration::from_millis(48));
        assert_eq!(of(96, 146), Duration::from_millis(70));
        assert_eq!(longest_pause(&[], start, start), Duration::ZERO);
    }
}
