//! One run: one workload on one system, alone in a process, with a tokio runtime.
//!
//! What is random is made before the clock starts, and places for futures are allocated before it.
//! The runtime is there whatever the system: where futures are polled by hand it sleeps. A section
//! ends when a short sleep is over that was begun last: so a system that only takes note of what it
//! is asked, and lets a thread do it later, is charged for that.

use std::collections::BTreeMap;
use std::mem::forget;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tickwheel::Timer;
use tokio::runtime::{Builder, Runtime};

use super::contender::Contender;
use super::figure::Figure;
use super::ours::Ours;
use super::peers::{AsyncIo, Bare, FuturesTimer, Tokio};
use super::queue::{self, TheirQueue};
use super::system::System;
use super::workload::Workload;
use super::{fire, sleeps, timeouts};
use crate::meter::{Meter, Reading};
use crate::names::name;
use crate::report::results::Named;
use crate::work::{Checksum, Size};

/// What to run.
#[derive(Args)]
pub(crate) struct Run {
    #[arg(long)]
    pub(super) system: System,
    #[arg(long)]
    pub(super) workload: Workload,
    #[command(flatten)]
    pub(super) size: Size,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Equal for all systems that were given the same work.
    pub(super) checksum: u64,
    pub(super) figures: BTreeMap<Figure, f64>,
}

impl Outcome {
    pub(super) fn new(
        checksum: Checksum,
        figures: impl IntoIterator<Item = (Figure, f64)>,
    ) -> Self {
        Self { checksum: checksum.0, figures: figures.into_iter().collect() }
    }
}

impl Run {
    /// Runs and prints the outcome.
    pub(crate) fn execute(&self) -> Result<()> {
        let Self { system, workload, size } = self;
        ensure!(system.does(*workload), "{} does not do {}", system.label(), name(workload));
        let runtime = Builder::new_multi_thread().enable_time().build()?;
        let entered = runtime.enter();
        let timer = Timer::new();
        let outcome = match (system, workload) {
            (System::Bare, _) => timeouts::receive(&Bare, size, &runtime),
            (System::Tickwheel, Workload::Queue) => {
                queue::all(queue::OurQueue::new(&timer), size, &runtime)
            }
            (System::Tokio, Workload::Queue) => queue::all(TheirQueue::new(), size, &runtime),
            (System::Tickwheel, _) => perform(&Ours(timer.clone()), *workload, size, &runtime),
            (System::Tokio, _) => perform(&Tokio, *workload, size, &runtime),
            (System::AsyncIo, _) => perform(&AsyncIo, *workload, size, &runtime),
            (System::FuturesTimer, _) => perform(&FuturesTimer, *workload, size, &runtime),
        }?;
        drop(entered);
        println!("{}", serde_json::to_string(&outcome)?);
        // The process ends, nobody measures it, and taking a million tasks apart takes a while.
        forget((runtime, timer));
        Ok(())
    }
}

fn perform<C: Contender>(
    system: &C,
    workload: Workload,
    size: &Size,
    runtime: &Runtime,
) -> Result<Outcome> {
    match workload {
        Workload::Timeout => timeouts::by_hand(system, size, runtime),
        Workload::Receive => timeouts::receive(system, size, runtime),
        Workload::Sleep => sleeps::make_and_drop(system, size, runtime),
        Workload::Churn => sleeps::churn(system, size, runtime),
        Workload::Reset => sleeps::reset(system, size, runtime),
        Workload::Fire => fire::sleeps(system, size, runtime),
        Workload::FireStay => fire::sleeps_that_stay(system, size, runtime),
        Workload::Interval => fire::intervals(system, size, runtime),
        Workload::Queue => unreachable!("a queue is no set of futures"),
    }
}

/// Times `work` and what the system has left to do after it.
pub(super) fn time<C: Contender>(system: &C, runtime: &Runtime, work: impl FnOnce()) -> Reading {
    let meter = Meter::start();
    work();
    runtime.block_on(system.sleep(Duration::from_millis(1)));
    meter.stop()
}
