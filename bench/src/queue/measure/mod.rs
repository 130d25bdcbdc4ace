//! The workloads, for any contender.
//!
//! Ground rules: callers are threads that begin together, and each waits for its answer before it
//! asks again. Afterwards the queue must report as many jobs as were acknowledged.

mod cancel;
mod end_to_end;
pub(crate) mod lateness;
pub(crate) mod pending;
pub(crate) mod put;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::contender::Contender;
use crate::suite::{Figures, Run};

/// Jobs in a millisecond, for lateness.
const JOBS_PER_MS: u64 = 10;

/// Measures a workload that needs nothing but a queue.
pub(super) fn workload(contender: &impl Contender, run: &Run) -> Result<Figures> {
    match run.workload.name {
        "put" => put::single(contender, time(run)?),
        "put-batch" => put::batches(contender, time(run)?),
        "end-to-end" => end_to_end::measure(contender, time(run)?),
        "cancel" => cancel::measure(contender, run.number("jobs")?),
        "lateness" => lateness::measure(contender, time(run)?, JOBS_PER_MS),
        other => bail!("unknown workload {other}"),
    }
}

/// Returns how long callers put jobs.
pub(crate) fn time(run: &Run) -> Result<Duration> {
    run.number("time-ms").map(Duration::from_millis)
}

/// Runs each caller's part on a thread of its own, all from the same moment. Returns their results
/// and the time until the last was done. A part gets the number of its caller and the start.
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

fn callers<C: Contender>(contender: &C, number: usize) -> Result<Vec<C::Caller>> {
    (0..number).map(|_| contender.caller()).collect()
}

/// Returns the first job number of a caller; the ranges of callers do not overlap.
fn first_number(caller: u64) -> u64 {
    caller << 40
}
