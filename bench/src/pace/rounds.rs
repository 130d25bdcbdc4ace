//! Runs everything in turns: in each round, for each workload, each system once, and a different
//! one first. Every run is a process of its own: this program, called with the hidden subcommand
//! `pace-run`.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::figure::{System, Workload};
use super::options::Options;
use super::results::Results;
use super::run::Outcome;
use crate::memory::touch;
use crate::names::name;
use crate::report::numbers::count;
use crate::report::progress;

/// More than any system needs for a key.
const BYTES_PER_KEY: usize = 512;

/// Runs all that the options ask for.
pub(super) fn run_all(options: &Options) -> Result<Results> {
    let runs = runs(options);
    ensure!(!runs.is_empty(), "nothing to run: no system is left by --only and --workload");
    let progress = progress::bar(runs.len() as u64);
    let mut results = Results::default();
    for (round, workload, system) in runs {
        let (keys, rounds) = (count(options.keys), options.rounds);
        progress.set_message(format!(
            "round {}/{rounds}: {keys} {} {}",
            round + 1,
            name(&workload),
            system.label()
        ));
        for (figure, value) in spawn(options.keys, workload, system)?.figures {
            results.add(system, figure, value);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(results)
}

fn runs(options: &Options) -> Vec<(u32, Workload, System)> {
    let mut runs = Vec::new();
    for round in 0..options.rounds {
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
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = Command::new(program);
    command.args(["pace-run", "--system", &name(&system), "--workload", &name(&workload)]);
    command.args(["--keys", &keys.to_string()]);
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{} failed at {} with {keys} keys ({}):\n{}\nTo see it alone: {command:?}",
            system.label(),
            name(&workload),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim(),
        );
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{command:?} printed something that is not an outcome"))
}
