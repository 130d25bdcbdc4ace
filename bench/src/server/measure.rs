//! The workloads that need nothing but something that answers, as `queue` does them.

use std::time::Duration;

use anyhow::{Result, bail};

use super::figure::Figure;
use super::plan::Plan;
use super::workload::Workload;
use crate::queue::contender::{Caller, Contender, Pipelined};
use crate::queue::measure::lateness::{Late, late};
use crate::queue::measure::put::{BATCH, ensure_pending, rate};

/// What a run yields.
pub(super) type Figures = Vec<(Figure, f64)>;

/// How many commands are on their way on one connection: what redis-benchmark's manual tries.
const AHEAD: u64 = 16;
/// Jobs in a millisecond.
const JOBS: u64 = 5;

/// Measures a workload.
pub(super) fn workload(contender: &impl Contender, plan: &Plan) -> Result<Figures> {
    let time = plan.time();
    match plan.workload {
        Workload::Put => Ok(single(contender, time)?.1),
        Workload::PutBatch => {
            let numbers = [(8, Figure::PutBatch8), (64, Figure::PutBatch64)];
            Ok(put(contender, time, BATCH, numbers)?.1)
        }
        Workload::Lateness => lateness(contender, time),
        Workload::Pending => bail!("this starts the service by itself"),
    }
}

/// The same for somebody who can send commands ahead.
pub(super) fn workload_ahead<C: Contender>(contender: &C, plan: &Plan) -> Result<Figures>
where
    C::Caller: Pipelined,
{
    if plan.workload != Workload::Put {
        return workload(contender, plan);
    }
    let (all, mut figures) = single(contender, plan.time())?;
    let (count, rate) = rate(contender, plan.time(), AHEAD, 64, Pipelined::put_each)?;
    ensure_pending(contender, all + count)?;
    figures.push((Figure::PutAhead64, rate));
    Ok(figures)
}

fn single(contender: &impl Contender, time: Duration) -> Result<(u64, Figures)> {
    put(contender, time, 1, [(8, Figure::Put8), (64, Figure::Put64)])
}

/// How many jobs were put, and at which rates.
fn put(
    contender: &impl Contender,
    time: Duration,
    batch: u64,
    numbers: [(usize, Figure); 2],
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

fn lateness(contender: &impl Contender, time: Duration) -> Result<Figures> {
    let Late { p50, p99, max, early } = late(contender, time, JOBS)?;
    let names = [Figure::LateP50, Figure::LateP99, Figure::LateMax, Figure::Early];
    Ok(names.into_iter().zip([p50, p99, max, early]).collect())
}
