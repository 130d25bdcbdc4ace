//! The workloads of the suite `queue` that need only a running system.

use anyhow::{Result, bail};

use crate::queue::contender::{Contender, Pipelined};
use crate::queue::measure::put::{BATCH, ensure_pending, rate, rates};
use crate::queue::measure::{lateness, time};
use crate::suite::{Figures, Run};

/// Commands sent ahead on one connection; the manual of redis-benchmark uses this number.
const AHEAD: u64 = 16;
/// Jobs put in each millisecond of the workload `lateness`.
const JOBS_PER_MS: u64 = 5;

/// Numbers of connections and their figures.
const SINGLE: [(usize, &str); 2] = [(8, "put8"), (64, "put64")];
const BATCHES: [(usize, &str); 2] = [(8, "put-batch8"), (64, "put-batch64")];

/// Measures a workload.
pub(super) fn workload(contender: &impl Contender, run: &Run) -> Result<Figures> {
    let time = time(run)?;
    match run.workload.name {
        "put" => Ok(rates(contender, time, 1, &SINGLE)?.1),
        "put-batch" => Ok(rates(contender, time, BATCH, &BATCHES)?.1),
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
    let (all, mut figures) = rates(contender, time, 1, &SINGLE)?;
    let (count, rate) = rate(contender, time, AHEAD, 64, Pipelined::put_each)?;
    ensure_pending(contender, all + count)?;
    figures.push(("put-ahead64", rate));
    Ok(figures)
}
