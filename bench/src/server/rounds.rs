//! Runs everything in turns: in each round, for each workload, each system once, and a different
//! one first. Every run is a process of its own, with its own server and an empty folder: this
//! program, called with the hidden subcommand `server-run`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Results;
use super::options::Options;
use super::plan::Plan;
use super::run::Outcome;
use super::system::System;
use super::workload::Workload;
use crate::names::name;
use crate::process::outcome;
use crate::report::progress;
use crate::report::results::Named;

/// Runs all that the options ask for.
pub(super) fn run_all(options: &Options, binary: &Path) -> Result<Results> {
    let runs = runs(options);
    let weight = |(_, workload, _): &(u32, Workload, System)| workload.weight();
    let progress = progress::bar(runs.iter().map(weight).sum());
    let mut results = Results::default();
    for (round, workload, system) in runs {
        let (rounds, what) = (options.rounds(workload), name(&workload));
        progress.set_message(format!("round {}/{rounds}: {what} {}", round + 1, system.label()));
        for (figure, value) in spawn(system, &options.plan(system, workload, binary))?.figures {
            results.add(system, figure, value);
        }
        progress.inc(workload.weight());
    }
    progress.finish_and_clear();
    Ok(results)
}

fn runs(options: &Options) -> Vec<(u32, Workload, System)> {
    let workloads = options.workloads();
    let most = workloads.iter().map(|&workload| options.rounds(workload)).max().unwrap_or(0);
    let mut runs = Vec::new();
    for round in 0..most {
        for &workload in workloads.iter().filter(|&&workload| round < options.rounds(workload)) {
            let mut systems = options.systems();
            systems.retain(|system| system.does(workload));
            let first = round as usize % systems.len().max(1);
            systems.rotate_left(first);
            runs.extend(systems.into_iter().map(|system| (round, workload, system)));
        }
    }
    runs
}

/// Runs one system in a process of its own, which is ended should this one be killed.
fn spawn(system: System, plan: &Plan) -> Result<Outcome> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command.args(["server-run", "--system", &name(&system)]).args(plan.arguments());
    outcome(command, &format!("{} at {}", system.label(), name(&plan.workload)))
}
