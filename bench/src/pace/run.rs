//! One run: one workload on one system, alone in a process.

use std::mem::ManuallyDrop;

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::checkers::{self, ALLOWED, Checker};
use super::figure::{Figure, System, Workload};
use super::ours;
use super::work::keys;
use crate::memory::live_bytes;
use crate::report::results::Named;
use crate::stopwatch::Stopwatch;

/// What to run.
#[derive(Args)]
pub(crate) struct Run {
    #[arg(long)]
    pub(super) system: System,
    #[arg(long)]
    pub(super) workload: Workload,
    #[arg(long)]
    pub(super) keys: usize,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) figures: Vec<(Figure, f64)>,
}

impl Run {
    /// Runs and prints the outcome.
    pub(crate) fn execute(&self) -> Result<()> {
        println!("{}", serde_json::to_string(&self.perform()?)?);
        Ok(())
    }

    pub(super) fn perform(&self) -> Result<Outcome> {
        ensure!(self.system.does(self.workload), "{} only checks", self.system.label());
        let figures = match (self.workload, self.system) {
            (Workload::Start, _) => ours::start(self.keys)?,
            (Workload::Threads, _) => ours::threads(self.keys)?,
            (Workload::Wait, _) => ours::wait(self.keys)?,
            (Workload::Forget, _) => ours::forget(self.keys)?,
            (Workload::Check, System::Tickwheel) => check::<checkers::Ours>(self.keys)?,
            (Workload::Check, System::Governor) => check::<checkers::Governor>(self.keys)?,
        };
        Ok(Outcome { figures })
    }
}

/// Each key three times: twice it is allowed, and then not.
fn check<C: Checker>(count: usize) -> Result<Vec<(Figure, f64)>> {
    let figures = [Figure::CheckNew, Figure::CheckKnown, Figure::CheckRefused];
    let passes: Vec<Vec<u64>> = (0..figures.len() as u64).map(|pass| keys(count, pass)).collect();
    let before = live_bytes();
    // Never freed: the process ends, and nobody measures it.
    let checker = ManuallyDrop::new(C::new());
    let mut outcome = Vec::new();
    for (pass, (figure, keys)) in figures.into_iter().zip(&passes).enumerate() {
        let stopwatch = Stopwatch::start();
        let allowed = keys.iter().filter(|&&key| checker.check(key)).count();
        let time = stopwatch.elapsed_without(std::time::Duration::ZERO);
        let expected = if pass < ALLOWED as usize { count } else { 0 };
        ensure!(allowed == expected, "{allowed} of {expected} were allowed in pass {pass}");
        outcome.push((figure, time.as_nanos() as f64 / count as f64));
    }
    outcome.push((Figure::MemoryChecked, (live_bytes() - before) as f64 / count as f64));
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_does_what_it_does() {
        // One after the other: they count what they start together.
        for workload in Workload::ALL {
            for system in System::ALL.into_iter().filter(|system| system.does(workload)) {
                let run = Run { system, workload, keys: 200 };
                // What is started is summed up in the process, so only the first run can be
                // checked for that here.
                if matches!(workload, Workload::Check | Workload::Start) {
                    assert!(!run.perform().expect("the run passes its checks").figures.is_empty());
                }
            }
        }
    }

    #[test]
    fn governor_has_no_queue() {
        let run = Run { system: System::Governor, workload: Workload::Wait, keys: 10 };
        assert!(run.perform().is_err());
    }
}
