//! Runs everything in turns: in each round, for each workload, each system once, and a different
//! one first. Every run is a process of its own: this program, called with the hidden subcommand
//! `async-run`.

use anyhow::{Result, ensure};

use super::Results;
use super::options::Options;
use super::run::Outcome;
use super::system::System;
use super::workload::Workload;
use crate::memory::touch;
use crate::names::name;
use crate::process;
use crate::report::numbers::count;
use crate::report::progress;
use crate::report::results::Named;
use crate::work::Size;

/// More than any system needs for a task with a sleep in it.
const BYTES_PER_TIMER: usize = 1_024;

/// One workload, by each system once.
struct Turn {
    round: u32,
    rounds: u32,
    workload: Workload,
    size: Size,
    systems: Vec<System>,
}

/// Runs all that the options ask for.
pub(super) fn run_all(options: &Options) -> Result<Results> {
    let turns = turns(options);
    let weight = |turn: &Turn| turn.workload.weight() * turn.systems.len() as u64;
    let progress = progress::bar(turns.iter().map(weight).sum());
    let mut results = Results::default();
    for turn in &turns {
        let mut first: Option<(System, u64)> = None;
        for &system in &turn.systems {
            progress.set_message(turn.describe(system));
            let outcome = turn.spawn(system)?;
            let (other, expected) = *first.get_or_insert((system, outcome.checksum));
            ensure!(
                outcome.checksum == expected,
                "{} was given other work than {} at {}: {} against {expected}",
                name(&system),
                name(&other),
                name(&turn.workload),
                outcome.checksum
            );
            for (figure, value) in outcome.figures {
                results.add(system, figure, value);
            }
            progress.inc(turn.workload.weight());
        }
    }
    progress.finish_and_clear();
    Ok(results)
}

fn turns(options: &Options) -> Vec<Turn> {
    let workloads = options.workloads();
    let most = workloads.iter().map(|&workload| options.rounds(workload)).max().unwrap_or(0);
    let mut turns = Vec::new();
    for round in 0..most {
        for &workload in &workloads {
            let rounds = options.rounds(workload);
            if round < rounds {
                let mut systems = options.systems(workload);
                let first = round as usize % systems.len();
                systems.rotate_left(first);
                let size = options.size(workload);
                turns.push(Turn { round, rounds, workload, size, systems });
            }
        }
    }
    turns
}

impl Turn {
    fn describe(&self, system: System) -> String {
        let Self { round, rounds, workload, size, .. } = self;
        let (timers, workload) = (count(size.timers), name(workload));
        format!("round {}/{rounds}: {timers} {workload} {}", round + 1, system.label())
    }

    /// Runs one system in a process of its own.
    fn spawn(&self, system: System) -> Result<Outcome> {
        touch(self.size.timers * BYTES_PER_TIMER);
        let mut command = process::this_program()?;
        command.args(["async-run", "--system", &name(&system)]);
        command.args(["--workload", &name(&self.workload)]);
        command.args(self.size.arguments());
        process::outcome(command, &self.describe(system))
    }
}
