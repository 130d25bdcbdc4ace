//! One run: one workload on one system, alone in a process, with a tokio runtime.
//!
//! Before the clock starts, random numbers are drawn and slots for futures are allocated. Every
//! system runs beside a tokio runtime, which is idle where futures are polled by hand. A section
//! ends with a short sleep that is created last, so that a system is charged for work that it
//! leaves to a thread.

use std::mem::forget;
use std::time::Duration;

use anyhow::{Result, bail};
use tickwheel::Timer;
use tokio::runtime::{Builder, Runtime};

use super::contender::Contender;
use super::ours::Ours;
use super::peers::{AsyncIo, Bare, FuturesTimer, Tokio};
use super::queue::{self, TheirQueue};
use super::{fire, sleeps, timeouts};
use crate::meter::{Meter, Reading};
use crate::suite::{Outcome, Run};
use crate::work::Size;

/// Does one run.
pub(super) fn perform(run: &Run) -> Result<Outcome> {
    let (workload, size) = (run.workload.name, &Size::of(run)?);
    let runtime = Builder::new_multi_thread().enable_time().build()?;
    let entered = runtime.enter();
    let timer = Timer::new();
    let outcome = match (run.system.name, workload) {
        ("bare", _) => timeouts::receive(&Bare, size, &runtime),
        ("tickwheel", "queue") => queue::all(queue::OurQueue::new(&timer), size, &runtime),
        ("tokio", "queue") => queue::all(TheirQueue::new(), size, &runtime),
        ("tickwheel", _) => measure(&Ours(timer.clone()), workload, size, &runtime),
        ("tokio", _) => measure(&Tokio, workload, size, &runtime),
        ("async-io", _) => measure(&AsyncIo, workload, size, &runtime),
        ("futures-timer", _) => measure(&FuturesTimer, workload, size, &runtime),
        (other, _) => bail!("unknown system {other}"),
    };
    drop(entered);
    // Leaked: the process ends soon, and dropping a million tasks takes a while.
    forget((runtime, timer));
    outcome
}

fn measure<C: Contender>(
    system: &C,
    workload: &str,
    size: &Size,
    runtime: &Runtime,
) -> Result<Outcome> {
    match workload {
        "timeout" => timeouts::by_hand(system, size, runtime),
        "receive" => timeouts::receive(system, size, runtime),
        "sleep" => sleeps::make_and_drop(system, size, runtime),
        "churn" => sleeps::churn(system, size, runtime),
        "reset" => sleeps::reset(system, size, runtime),
        "fire" => fire::sleeps(system, size, runtime),
        "fire-stay" => fire::sleeps_that_stay(system, size, runtime),
        "interval" => fire::intervals(system, size, runtime),
        other => bail!("unknown workload {other}"),
    }
}

/// Times `work` and the work that it leaves to the system.
pub(super) fn time<C: Contender>(system: &C, runtime: &Runtime, work: impl FnOnce()) -> Reading {
    let meter = Meter::start();
    work();
    runtime.block_on(system.sleep(Duration::from_millis(1)));
    meter.stop()
}
