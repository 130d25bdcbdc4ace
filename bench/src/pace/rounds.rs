//! Runs everything in turns: in each round, for each workload, each system once, and a different
//! one first. Every run is a process of its own: this program, called with the hidden subcommand
//! `pace-run`.

use anyhow::{Result, ensure};

use super::Results;
use super::figure::{System, Workload};
use super::options::Options;
use super::run::Outcome;
use crate::memory::touch;
use crate::names::name;
use crate::process;
use crate::report::numbers::count;
use crate::report::progress;
use crate::report::results::Named;

/// More than any system needs for a key.
const BYTES_PER_KEY: usize = 512;

/// Runs all that the options ask for.
pub(super) fn run_all(options: &Options) -> Result<Results> {
    let runs = runs(options);
    ensure!(!runs.is_empty(), "nothing to run: no system is left by --only and --workload");
    let progress = progress::bar(runs.len() as u64);
    let mut results = Results::default();
    for (round, workload, system) in runs {
        let (keys, rounds) = (count(options.keys()), options.rounds());
        progress.set_message(format!(
            "round {}/{rounds}: {keys} {} {}",
            round + 1,
            name(&workload),
            system.label()
        ));
        for (figure, value) in spawn(options.keys(), workload, system)?.figures {
            results.add(system, figure, value);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(results)
}

fn runs(options: &Options) -> Vec<(u32, Workload, System)> {
    let mut runs = Vec::new();
    for round in 0..options.rounds() {
        for workload in options.workloads() {
            let mut systems = options.systems(workload);
            let first = round as usize % systems.len().max(1);
            systems.rotate_left(first);
            runs.extend(systems.into_iter().map(|system| (round, workload, system)));
        }
    }
    runs
}

/// Runs one system in a process of its own.
fn spawn(keys: usize, workload: Workload, system: System) -> Result<Outcome> {
    touch(keys * BYTES_PER_KEY);
    let mut command = process::this_program()?;
    command.args(["pace-run", "--system", &name(&system), "--workload", &name(&workload)]);
    command.args(["--keys", &keys.to_string()]);
    let what = format!("{} at {} with {keys} keys", system.label(), name(&workload));
    process::outcome(command, &what)
}
