//! The workloads, for any contender.
//!
//! Ground rules: callers are threads that begin together, and each waits for its answer before it
//! asks again. What the queue says it holds afterwards has to be what was acknowledged.

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
use super::figure::Figure;
use super::plan::Plan;
use super::workload::Workload;

/// What a run yields.
pub(super) type Figures = Vec<(Figure, f64)>;

/// Measures a workload that needs nothing but a queue.
pub(super) fn workload(contender: &impl Contender, plan: &Plan) -> Result<Figures> {
    match plan.workload {
        Workload::Put => put::single(contender, plan.time()),
        Workload::PutBatch => put::batches(contender, plan.time()),
        Workload::EndToEnd => end_to_end::measure(contender, plan.time()),
        Workload::Cancel => cancel::measure(contender, plan.jobs),
        Workload::Lateness => lateness::measure(contender, plan.time()),
        Workload::Pending | Workload::PendingMany => bail!("this starts the queue by itself"),
    }
}

/// Runs each caller's part on a thread of its own, all from the same moment, and gives what they
/// return with the time until the last was done. A part is told the number of its caller and when
/// they began.
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

/// Job numbers of different callers are apart.
fn first_number(caller: u64) -> u64 {
    caller << 40
}
