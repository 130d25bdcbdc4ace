//! Measures how late jobs are delivered at a steady rate.
//!
//! Eight callers take turns to put some jobs each millisecond, due two seconds after that
//! millisecond. Eight workers reserve and acknowledge them. Lateness is the time from when a job is
//! due until a worker has it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{callers, first_number, together, work_off};
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::{Job, now_micros};
use crate::suite::Figures;
use crate::suite::numbers::quantile;

const PUTTERS: u64 = 8;
const WORKERS: usize = 8;
const AT_ONCE: usize = 100;
const DELAY: Duration = Duration::from_secs(2);
/// How long workers wait for jobs that are missing.
const PATIENCE: Duration = Duration::from_mins(1);

/// Delivers `jobs` each millisecond for a while.
pub(crate) fn measure(contender: &impl Contender, time: Duration, jobs: u64) -> Result<Figures> {
    let turns = (time.as_millis() as u64 / PUTTERS).max(1);
    let all = turns * PUTTERS * jobs;
    let acked = AtomicU64::new(0);
    // By this time all callers are ready.
    let first = now_micros() / 1_000 + 200;
    let part = |number: u64, connection: &mut _, began: Instant| {
        if number < PUTTERS {
            put_in_turn(connection, number, first, turns, jobs).map(|()| Vec::new())
        } else {
            let is_over = || acked.load(Ordering::SeqCst) >= all || began.elapsed() >= PATIENCE;
            work_off(connection, AT_ONCE, &acked, is_over, |_, due, now| Ok(now - due))
        }
    };
    let (lateness, _) = together(callers(contender, PUTTERS as usize + WORKERS)?, part)?;
    let mut sorted: Vec<i64> = lateness.into_iter().flatten().collect();
    ensure!(sorted.len() as u64 == all, "{} of {all} jobs were delivered", sorted.len());
    sorted.sort_unstable();
    let late = |share| quantile(&sorted, share) as f64 / 1_000.0;
    let early = sorted.iter().filter(|late| **late < 0).count() as f64;
    Ok(vec![
        ("late-p50", late(0.5)),
        ("late-p99", late(0.99)),
        ("late-max", late(1.0)),
        ("early", early),
    ])
}

fn put_in_turn(
    connection: &mut impl Caller,
    caller: u64,
    first: u64,
    turns: u64,
    jobs: u64,
) -> Result<()> {
    for turn in 0..turns {
        let at = first + turn * PUTTERS + caller;
        sleep(Duration::from_micros((at * 1_000).saturating_sub(now_micros())));
        // The delay of jobs that are put late counts from now, not from when they should have been
        // put.
        let from = at.max(now_micros() / 1_000);
        let number = first_number(caller) + turn * jobs;
        let batch = (number..number + jobs).map(|number| Job::new(number, from, DELAY));
        connection.put(batch.collect())?;
    }
    Ok(())
}
