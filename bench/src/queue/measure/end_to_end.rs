//! The life of a job: put, due, reserved, acknowledged.
//!
//! Some callers put single jobs as fast as they can for a while, and workers process them. The rate
//! is the number of jobs divided by the time from the first put to the last acknowledgement, which
//! includes the second until the last jobs are due.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{callers, first_number, together, work_off};
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::{Job, now_micros};
use crate::suite::Figures;

const PUTTERS: usize = 32;
const WORKERS: usize = 32;
const AT_ONCE: usize = 10;
const DELAY: Duration = Duration::from_secs(1);

pub(crate) fn measure(contender: &impl Contender, time: Duration) -> Result<Figures> {
    let (put, acked) = (AtomicU64::new(0), AtomicU64::new(0));
    let putting = AtomicUsize::new(PUTTERS);
    let part = |number: u64, connection: &mut _, began: Instant| {
        if number < PUTTERS as u64 {
            let result = put_for(connection, number, time, began);
            put.fetch_add(*result.as_ref().unwrap_or(&0), Ordering::SeqCst);
            putting.fetch_sub(1, Ordering::SeqCst);
            return result.map(|_| Vec::new());
        }
        let is_over = || {
            putting.load(Ordering::SeqCst) == 0
                && acked.load(Ordering::SeqCst) >= put.load(Ordering::SeqCst)
        };
        work_off(connection, AT_ONCE, &acked, is_over, |number, due, now| {
            ensure!(now >= due, "a job was delivered {} µs early", due - now);
            Ok(number)
        })
    };
    let (numbers, took) = together(callers(contender, PUTTERS + WORKERS)?, part)?;
    let put = put.into_inner();
    let delivered: HashSet<u64> = numbers.iter().flatten().copied().collect();
    let deliveries: usize = numbers.iter().map(Vec::len).sum();
    ensure!(
        deliveries == delivered.len() && deliveries as u64 == put,
        "{put} jobs were put, {} delivered, in {deliveries} deliveries",
        delivered.len()
    );
    ensure!(contender.pending()? == 0, "jobs are left when all are acknowledged");
    Ok(vec![("end-to-end", put as f64 / took.as_secs_f64())])
}

fn put_for(
    connection: &mut impl Caller,
    caller: u64,
    time: Duration,
    began: Instant,
) -> Result<u64> {
    let mut count = 0;
    while began.elapsed() < time {
        let job = Job::new(first_number(caller) + count, now_micros() / 1_000, DELAY);
        connection.put(vec![job])?;
        count += 1;
    }
    Ok(count)
}
