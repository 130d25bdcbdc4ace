//! Sleeps and intervals that fire, each in a task of a tokio runtime.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::runtime::Runtime;

use super::contender::Contender;
use crate::lateness::{self, Task};
use crate::meter::{Meter, Reading};
use crate::suite::Outcome;
use crate::suite::numbers::quantile;
use crate::work::{self, Checksum, Size};

const PERIOD: Duration = Duration::from_millis(10);

/// The ratio of sleeps to intervals.
const SLEEPS_PER_INTERVAL: usize = 1_000;

/// The number of tasks that have begun to wait.
static WAIT: AtomicUsize = AtomicUsize::new(0);

/// Measures tasks that sleep, record how late they are, and end.
pub(super) fn sleeps<C: Contender>(system: &C, size: &Size, runtime: &Runtime) -> Result<Outcome> {
    let delays = work::soon(size);
    let reading = fire(system, size, &delays, runtime, || ready(()))?;
    let sorted = lateness::sorted(|_| false);
    let late = |share| quantile(&sorted, share) as f64 / 1e6;
    let figures = [
        ("fire-cpu", reading.processor.as_secs_f64()),
        ("fire-p50", late(0.5)),
        ("fire-p99", late(0.99)),
        ("fire-max", late(1.0)),
        ("fire-early", sorted.partition_point(|&late| late < 0) as f64),
    ];
    Ok(Checksum::default().delays(&delays).outcome(figures))
}

/// Measures tasks that sleep and do not end, because ending a task is work of the runtime.
pub(super) fn sleeps_that_stay<C: Contender>(
    system: &C,
    size: &Size,
    runtime: &Runtime,
) -> Result<Outcome> {
    let delays = work::soon(size);
    let reading = fire(system, size, &delays, runtime, pending)?;
    let figures = [("fire-stay-cpu", reading.processor.as_secs_f64())];
    Ok(Checksum::default().delays(&delays).outcome(figures))
}

/// Measures the time from when all tasks wait until all have run. Each task then awaits `rest`.
fn fire<C: Contender, R: Future<Output = ()> + Send>(
    system: &C,
    size: &Size,
    delays: &[Duration],
    runtime: &Runtime,
    rest: impl Fn() -> R + Copy + Send + 'static,
) -> Result<Reading> {
    lateness::prepare(delays.len());
    let began = Instant::now();
    let mut last = 0;
    for (index, &delay) in delays.iter().enumerate() {
        let task = Task::due(index, delay, false);
        last = last.max(task.deadline());
        let sleep = system.sleep(delay);
        runtime.spawn(async move {
            WAIT.fetch_add(1, Ordering::Relaxed);
            sleep.await;
            task.run();
            rest().await;
        });
    }
    while WAIT.load(Ordering::Relaxed) < delays.len() {
        thread::sleep(Duration::from_millis(1));
    }
    let took = began.elapsed().as_millis();
    ensure!(
        took <= size.lead_ms.into(),
        "starting {} tasks took {took} ms, so the first fired before the last waited; use fewer timers",
        delays.len()
    );
    let meter = Meter::start();
    lateness::await_all(last)?;
    Ok(meter.stop())
}

/// Measures intervals that begin at random times within a period, and tick for the span.
pub(super) fn intervals<C: Contender>(
    system: &C,
    size: &Size,
    runtime: &Runtime,
) -> Result<Outcome> {
    let count = size.timers.div_ceil(SLEEPS_PER_INTERVAL);
    let ticks = (size.span_ms / PERIOD.as_millis() as u64).max(1) as usize;
    let firsts = work::soon(&Size { timers: count, span_ms: PERIOD.as_millis() as u64, ..*size });
    let meter = Meter::start();
    let tasks: Vec<_> = firsts
        .iter()
        .map(|&first| {
            let least = first + PERIOD * (ticks as u32 - 1);
            let began = Instant::now();
            let mut interval = system.interval(first, PERIOD);
            runtime.spawn(async move {
                for _ in 0..ticks {
                    C::tick(&mut interval).await;
                }
                began.elapsed() >= least
            })
        })
        .collect();
    let mut early = 0;
    for task in tasks {
        early += u32::from(!runtime.block_on(task)?);
    }
    let reading = meter.stop();
    ensure!(early == 0, "{early} intervals were early");
    let each = reading.processor.as_nanos() as f64 / (count * ticks) as f64;
    Ok(Checksum::default().delays(&firsts).outcome([("interval-cpu", each)]))
}
