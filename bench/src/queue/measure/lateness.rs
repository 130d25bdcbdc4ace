//! How late jobs are delivered at a steady pace.
//!
//! Eight callers take turns to put some jobs each millisecond, due two seconds after that
//! millisecond. Eight workers reserve and acknowledge. Lateness is from when a job is due until a
//! worker has it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{callers, first_number, together};
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::{self, Job, now_micros};
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
    // All callers are ready by then.
    let first = now_micros() / 1_000 + 200;
    let part = |number: u64, connection: &mut _, began: Instant| {
        if number < PUTTERS {
            put_in_turn(connection, number, first, turns, jobs).map(|()| Vec::new())
        } else {
            work_off(connection, &acked, all, began)
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
        // A caller that is late puts jobs due from now, not from when it should have put them.
        let from = at.max(now_micros() / 1_000);
        let number = first_number(caller) + turn * jobs;
        let batch = (number..number + jobs).map(|number| Job::new(number, from, DELAY));
        connection.put(batch.collect())?;
    }
    Ok(())
}

/// Reserves and acknowledges jobs, and returns how late they came, in microseconds.
fn work_off(
    connection: &mut impl Caller,
    acked: &AtomicU64,
    all: u64,
    began: Instant,
) -> Result<Vec<i64>> {
    let mut lateness = Vec::new();
    while acked.load(Ordering::SeqCst) < all && began.elapsed() < PATIENCE {
        let (tickets, payloads): (Vec<_>, Vec<_>) =
            connection.reserve(AT_ONCE)?.into_iter().unzip();
        let now = now_micros().cast_signed();
        for payload in payloads {
            let (_, due) = job::read(&payload).context("a payload came back changed")?;
            lateness.push(now - due.cast_signed() * 1_000);
        }
        let count = tickets.len() as u64;
        if count > 0 {
            connection.ack(tickets)?;
            acked.fetch_add(count, Ordering::SeqCst);
        }
    }
    Ok(lateness)
}
