//! Runs everything in turns: in each round, for each workload, each system once.
//!
//! Systems follow each other directly on the same work, and a different one begins in each round,
//! so that a machine that is slower for a while is slower for all of them. Every run is a process
//! of its own: this program, called with the hidden subcommand `wheel-run`.

use std::process::Command;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;

use super::options::Options;
use super::results::Results;
use super::run::{Outcome, Run};
use super::system::System;
use super::workload::Workload;
use crate::names::name;
use crate::report::numbers::count;
use crate::report::progress;

/// Runs all that the options ask for.
pub(super) fn run_all(options: &Options) -> Result<Results> {
    let turns = turns(options);
    if turns.iter().all(|turn| turn.systems.is_empty()) {
        bail!("nothing to run: no system is left by --only, --workload and --sizes");
    }
    let progress = progress_bar(&turns);
    let mut results = Results::default();
    for turn in &turns {
        turn.run(options, &progress, &mut results)?;
    }
    progress.finish_and_clear();
    Ok(results)
}

/// One workload at one size, by each system once.
struct Turn {
    round: u32,
    timers: usize,
    workload: Workload,
    systems: Vec<System>,
}

fn turns(options: &Options) -> Vec<Turn> {
    let mut turns = Vec::new();
    for timers in options.sizes() {
        for round in 0..options.rounds {
            for workload in options.workloads(timers) {
                let mut systems = options.systems(timers);
                let first = round as usize % systems.len().max(1);
                systems.rotate_left(first);
                turns.push(Turn { round, timers, workload, systems });
            }
        }
    }
    turns
}

impl Turn {
    fn run(&self, options: &Options, progress: &ProgressBar, results: &mut Results) -> Result<()> {
        let mut first: Option<(System, Outcome)> = None;
        for &system in &self.systems {
            progress.set_message(self.describe(system, options.rounds));
            let outcome = self.spawn(system, options.huge_pages)?;
            for &(figure, value) in &outcome.figures {
                results.add(system, self.timers, figure, value);
            }
            progress.inc(self.timers as u64);
            match &first {
                Some((other, expected)) => self.compare(system, &outcome, *other, expected)?,
                None => first = Some((system, outcome)),
            }
        }
        Ok(())
    }

    fn describe(&self, system: System, rounds: u32) -> String {
        let Self { round, timers, workload, .. } = self;
        let timers = count(*timers);
        format!("round {}/{rounds}: {timers} {} {}", round + 1, name(workload), system.label())
    }

    /// Runs one system in a process of its own.
    fn spawn(&self, system: System, huge_pages: bool) -> Result<Outcome> {
        let run = Run {
            system,
            workload: self.workload,
            timers: self.timers,
            // What a structure does with the same work does not change from round to round.
            verify: self.round == 0,
        };
        let mut command = command(&run)?;
        if huge_pages {
            command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        }
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        if !output.status.success() {
            bail!(
                "{} failed at {} with {} timers ({}):\n{}\nTo see it alone: {command:?}",
                system.label(),
                name(&self.workload),
                self.timers,
                output.status,
                String::from_utf8_lossy(&output.stderr).trim(),
            );
        }
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{command:?} printed something that is not an outcome"))
    }

    /// Two systems that did the same work let the same timers go.
    fn compare(&self, one: System, did: &Outcome, other: System, expected: &Outcome) -> Result<()> {
        if did.tally == expected.tally {
            return Ok(());
        }
        bail!(
            "{} and {} did different work at {} with {} timers: {:?} against {:?}. One of them \
             lost or doubled a timer; run it with --workload {} --only {},{} to see which.",
            one.label(),
            other.label(),
            name(&self.workload),
            self.timers,
            did.tally,
            expected.tally,
            name(&self.workload),
            name(&one),
            name(&other),
        );
    }
}

/// This program with the arguments that make it do `run`.
fn command(run: &Run) -> Result<Command> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = Command::new(program);
    command.args(["wheel-run", "--system", &name(&run.system), "--workload", &name(&run.workload)]);
    command.args(["--timers", &run.timers.to_string()]);
    if run.verify {
        command.arg("--verify");
    }
    Ok(command)
}

/// A run counts for as much as it has timers.
fn progress_bar(turns: &[Turn]) -> ProgressBar {
    progress::bar(turns.iter().map(|turn| turn.timers * turn.systems.len()).sum::<usize>() as u64)
}
