//! Runs everything in turns: in each round, for each workload, each system once.
//!
//! Systems follow each other directly on the same work, and a different one begins in each round,
//! so that a machine that is slower for a while is slower for all of them. Every run is a process
//! of its own.

use anyhow::{Result, ensure};
use indicatif::ProgressBar;

use super::Results;
use super::options::Options;
use super::plan::Plan;
use super::run::Outcome;
use super::setup::Harnesses;
use super::system::System;
use super::workload::Workload;
use crate::memory::touch;
use crate::names::name;
use crate::process;
use crate::report::numbers::count;
use crate::report::progress;
use crate::report::results::Named;

/// More than any system needs for a timer.
const BYTES_PER_TIMER: usize = 512;

/// Runs all that the options ask for.
pub(super) fn run_all(options: &Options, harnesses: &Harnesses) -> Result<Results> {
    let turns = turns(options);
    let weight = |turn: &Turn| turn.plan.workload.weight() * turn.systems.len() as u64;
    let progress = progress::bar(turns.iter().map(weight).sum());
    let mut results = Results::default();
    for turn in &turns {
        turn.run(options.huge_pages, harnesses, &progress, &mut results)?;
    }
    progress.finish_and_clear();
    Ok(results)
}

/// One workload, by each system once.
struct Turn {
    round: u32,
    rounds: u32,
    plan: Plan,
    systems: Vec<System>,
}

fn turns(options: &Options) -> Vec<Turn> {
    let workloads = options.workloads();
    let rounds_of = |workload: &Workload| options.rounds(*workload);
    let most = workloads.iter().map(rounds_of).max().unwrap_or(0);
    let mut turns = Vec::new();
    for round in 0..most {
        for &workload in workloads.iter().filter(|workload| round < rounds_of(workload)) {
            let mut systems = options.systems();
            systems.retain(|system| system.does(workload));
            let first = round as usize % systems.len().max(1);
            systems.rotate_left(first);
            let rounds = options.rounds(workload);
            turns.push(Turn { round, rounds, plan: options.plan(workload), systems });
        }
    }
    turns
}

impl Turn {
    fn run(
        &self,
        huge_pages: bool,
        harnesses: &Harnesses,
        progress: &ProgressBar,
        results: &mut Results,
    ) -> Result<()> {
        let mut first: Option<(System, u64)> = None;
        for &system in &self.systems {
            progress.set_message(self.describe(system));
            let outcome = self.spawn(system, huge_pages, harnesses)?;
            let (other, expected) = *first.get_or_insert((system, outcome.checksum));
            ensure!(
                outcome.checksum == expected,
                "{} was given other work than {} at {}: {} against {expected}; their harnesses \
                 must make the same work from the same seed",
                name(&system),
                name(&other),
                name(&self.plan.workload),
                outcome.checksum
            );
            for (figure, value) in outcome.figures {
                results.add(system, figure, value);
            }
            progress.inc(self.plan.workload.weight());
        }
        Ok(())
    }

    fn describe(&self, system: System) -> String {
        let Self { round, rounds, plan, .. } = self;
        let (timers, workload) = (count(plan.size.timers), name(&plan.workload));
        format!("round {}/{rounds}: {timers} {workload} {}", round + 1, system.label())
    }

    /// Runs one system in a process of its own.
    fn spawn(&self, system: System, huge_pages: bool, harnesses: &Harnesses) -> Result<Outcome> {
        touch(self.plan.size.timers * BYTES_PER_TIMER);
        let command = harnesses.command(system, &self.plan, huge_pages)?;
        let (workload, timers) = (name(&self.plan.workload), self.plan.size.timers);
        process::outcome(command, &format!("{} at {workload} with {timers} timers", system.label()))
    }
}
