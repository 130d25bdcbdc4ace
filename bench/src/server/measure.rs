//! The workloads that need nothing but a system that answers, as `queue` does them.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::queue::contender::{Caller, Contender, Pipelined};
use crate::queue::measure::put::{BATCH, ensure_pending, rate};
use crate::queue::measure::{lateness, time};
use crate::suite::{Figures, Run};

/// How many commands are on their way on one connection: a value of redis-benchmark's manual.
const AHEAD: u64 = 16;
/// Jobs in a millisecond, for lateness.
const JOBS_PER_MS: u64 = 5;

/// Measures a workload.
pub(super) fn workload(contender: &impl Contender, run: &Run) -> Result<Figures> {
    let time = time(run)?;
    match run.workload.name {
        "put" => Ok(single(contender, time)?.1),
        "put-batch" => Ok(put(contender, time, BATCH, [(8, "put-batch8"), (64, "put-batch64")])?.1),
        "lateness" => lateness::measure(contender, time, JOBS_PER_MS),
        other => bail!("unknown workload {other}"),
    }
}

/// Measures a workload by clients that can also send commands ahead.
pub(super) fn workload_ahead<C: Contender>(contender: &C, run: &Run) -> Result<Figures>
where
    C::Caller: Pipelined,
{
    if run.workload.name != "put" {
        return workload(contender, run);
    }
    let time = time(run)?;
    let (all, mut figures) = single(contender, time)?;
    let (count, rate) = rate(contender, time, AHEAD, 64, Pipelined::put_each)?;
    ensure_pending(contender, all + count)?;
    figures.push(("put-ahead64", rate));
    Ok(figures)
}

fn single(contender: &impl Contender, time: Duration) -> Result<(u64, Figures)> {
    put(contender, time, 1, [(8, "put8"), (64, "put64")])
}

/// Returns the number of jobs that were put, and their rates.
fn put(
    contender: &impl Contender,
    time: Duration,
    batch: u64,
    numbers: [(usize, &'static str); 2],
) -> Result<(u64, Figures)> {
    let (mut all, mut figures) = (0, Vec::new());
    for (number, figure) in numbers {
        let (count, rate) = rate(contender, time, batch, number, Caller::put)?;
        all += count;
        figures.push((figure, rate));
    }
    ensure_pending(contender, all)?;
    Ok((all, figures))
}
