//! Measures how many jobs a second callers cancel by key.

use anyhow::{Result, ensure};

use super::put::BATCH;
use super::{callers, together};
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::Job;
use crate::suite::Figures;

const CALLERS: u64 = 64;
const SEED: u64 = 0x7135_57EE_1000_2024;

pub(super) fn measure(contender: &impl Contender, jobs: u64) -> Result<Figures> {
    let mut putter = contender.caller()?;
    let numbers: Vec<u64> = (0..jobs).collect();
    for batch in numbers.chunks(BATCH as usize) {
        putter.put(batch.iter().map(|&n| Job::far(n).with_key(key(n))).collect())?;
    }
    let mut shuffled = numbers;
    fastrand::Rng::with_seed(SEED).shuffle(&mut shuffled);
    let (_, took) = together(callers(contender, CALLERS as usize)?, |caller, connection, _| {
        let mine = shuffled.iter().skip(caller as usize).step_by(CALLERS as usize);
        mine.copied().try_for_each(|number| connection.cancel(&key(number)))
    })?;
    let pending = contender.pending()?;
    ensure!(pending == 0, "all jobs were cancelled, and the queue has {pending}");
    Ok(vec![("cancel", jobs as f64 / took.as_secs_f64())])
}

fn key(number: u64) -> String {
    format!("order-{number}")
}
