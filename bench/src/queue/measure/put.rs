//! Jobs a second that callers can put, singly and in batches.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{callers, first_number, together};
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::Job;
use crate::suite::Figures;

pub(crate) const BATCH: u64 = 100;

pub(super) fn single(contender: &impl Contender, time: Duration) -> Result<Figures> {
    measure(contender, time, 1, [(1, "put1"), (8, "put8"), (64, "put64")])
}

pub(super) fn batches(contender: &impl Contender, time: Duration) -> Result<Figures> {
    let figures = [(1, "put-batch1"), (8, "put-batch8"), (64, "put-batch64")];
    measure(contender, time, BATCH, figures)
}

fn measure(
    contender: &impl Contender,
    time: Duration,
    batch: u64,
    figures: [(usize, &'static str); 3],
) -> Result<Figures> {
    let mut outcome = Vec::new();
    let mut all = 0;
    for (number, figure) in figures {
        let (count, rate) = rate(contender, time, batch, number, Caller::put)?;
        outcome.push((figure, rate));
        all += count;
    }
    ensure_pending(contender, all)?;
    Ok(outcome)
}

/// Lets callers put batches for a while. Returns the number of jobs, and jobs a second.
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
