//! Measures how many jobs a second callers put, singly and in batches.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{callers, first_number, together};
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::Job;
use crate::suite::Figures;

pub(crate) const BATCH: u64 = 100;

/// Measures jobs a second, in batches of `batch`, for each number of callers in `figures`. Returns
/// the number of jobs that were put and the figures.
pub(crate) fn rates(
    contender: &impl Contender,
    time: Duration,
    batch: u64,
    figures: &[(usize, &'static str)],
) -> Result<(u64, Figures)> {
    let (mut all, mut outcome) = (0, Vec::new());
    for &(number, figure) in figures {
        let (count, rate) = rate(contender, time, batch, number, Caller::put)?;
        all += count;
        outcome.push((figure, rate));
    }
    ensure_pending(contender, all)?;
    Ok((all, outcome))
}

/// Lets `number` callers put batches for `time`. Returns the number of jobs, and jobs a second.
pub(crate) fn rate<C: Contender>(
    contender: &C,
    time: Duration,
    batch: u64,
    number: usize,
    put: impl Fn(&mut C::Caller, Vec<Job>) -> Result<()> + Sync,
) -> Result<(u64, f64)> {
    let (counts, took) = together(callers(contender, number)?, |caller, connection, began| {
        let mut count = 0;
        while began.elapsed() < time {
            let first = first_number(caller) + count;
            put(connection, (first..first + batch).map(Job::far).collect())?;
            count += batch;
        }
        Ok(count)
    })?;
    let count: u64 = counts.into_iter().sum();
    Ok((count, count as f64 / took.as_secs_f64()))
}

/// Checks that the queue holds all jobs that were put.
pub(crate) fn ensure_pending(contender: &impl Contender, all: u64) -> Result<()> {
    let pending = contender.pending()?;
    ensure!(pending == all, "{all} jobs were put, and the queue has {pending}");
    Ok(())
}
