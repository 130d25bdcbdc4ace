//! The workloads, for any contender.
//!
//! Ground rules: callers are threads that begin together, and each waits for its answer before it
//! sends the next request. Afterwards the queue must report the number of jobs that it confirmed.

mod cancel;
pub(crate) mod end_to_end;
pub(crate) mod lateness;
pub(crate) mod pending;
pub(crate) mod put;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::contender::{Caller, Contender};
use super::job::{self, now_micros};
use crate::suite::{Figures, Run};

/// Jobs put in each millisecond of the workload `lateness`.
const JOBS_PER_MS: u64 = 10;
/// Numbers of callers and their figures.
const SINGLE: [(usize, &str); 3] = [(1, "put1"), (8, "put8"), (64, "put64")];
const BATCHES: [(usize, &str); 3] = [(1, "put-batch1"), (8, "put-batch8"), (64, "put-batch64")];

/// Measures a workload that needs nothing but a queue.
pub(super) fn workload(contender: &impl Contender, run: &Run) -> Result<Figures> {
    match run.workload.name {
        "put" => Ok(put::rates(contender, time(run)?, 1, &SINGLE)?.1),
        "put-batch" => Ok(put::rates(contender, time(run)?, put::BATCH, &BATCHES)?.1),
        "end-to-end" => end_to_end::measure(contender, time(run)?),
        "cancel" => cancel::measure(contender, run.number("jobs")?),
        "lateness" => lateness::measure(contender, time(run)?, JOBS_PER_MS),
        other => bail!("unknown workload {other}"),
    }
}

/// Returns the time for which callers put jobs.
pub(crate) fn time(run: &Run) -> Result<Duration> {
    run.number("time-ms").map(Duration::from_millis)
}

/// Runs each caller's part on a thread of its own; all begin together. Returns the results and the
/// time until the last part was done. A part gets the number of its caller and the time of the
/// start.
fn together<C: Send, T: Send>(
    callers: Vec<C>,
    part: impl Fn(u64, &mut C, Instant) -> Result<T> + Sync,
) -> Result<(Vec<T>, Duration)> {
    let barrier = Barrier::new(callers.len() + 1);
    thread::scope(|scope| {
        let start = |(number, mut caller): (u64, C)| {
            let (barrier, part) = (&barrier, &part);
            scope.spawn(move || {
                barrier.wait();
                part(number, &mut caller, Instant::now())
            })
        };
        let threads: Vec<_> = (0..).zip(callers).map(start).collect();
        barrier.wait();
        let began = Instant::now();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<T>>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let results: Result<Vec<T>> = threads.into_iter().map(join).collect();
        Ok((results?, began.elapsed()))
    })
}

/// Reserves and acknowledges up to `most` jobs at once until `is_over`, adds their number to
/// `acked`, and returns the result of `note` for each job. `note` gets the number of the job, its
/// due time and the time at which it came, both in microseconds.
fn work_off<T>(
    connection: &mut impl Caller,
    most: usize,
    acked: &AtomicU64,
    is_over: impl Fn() -> bool,
    note: impl Fn(u64, i64, i64) -> Result<T>,
) -> Result<Vec<T>> {
    let mut noted = Vec::new();
    while !is_over() {
        let (tickets, payloads): (Vec<_>, Vec<_>) = connection.reserve(most)?.into_iter().unzip();
        let now = now_micros().cast_signed();
        for payload in payloads {
            let (number, due) = job::read(&payload).context("a payload came back changed")?;
            noted.push(note(number, due.cast_signed() * 1_000, now)?);
        }
        let count = tickets.len() as u64;
        if count > 0 {
            connection.ack(tickets)?;
            acked.fetch_add(count, Ordering::SeqCst);
        }
    }
    Ok(noted)
}

fn callers<C: Contender>(contender: &C, number: usize) -> Result<Vec<C::Caller>> {
    (0..number).map(|_| contender.caller()).collect()
}

/// Returns the first job number of a caller; the ranges of callers do not overlap.
fn first_number(caller: u64) -> u64 {
    caller << 40
}
