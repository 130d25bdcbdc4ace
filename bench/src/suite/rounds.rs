//! Runs everything in turns: in each round, for each workload, each system once.
//!
//! Systems do the same work directly after one another, and each round begins with a different one.
//! So a machine that is slower for a while is slower for all systems. Every run is a process of its
//! own: this program with the hidden subcommand `run`, or a harness in another language.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;

use super::numbers::count;
use super::options::Choice;
use super::results::Results;
use super::{Case, Outcome, Ready, Spec, Suite, System, Workload};
use crate::memory::touch;

/// One workload, run once by each system.
pub(super) struct Turn {
    round: u32,
    pub(super) workload: &'static Workload,
    size: usize,
    systems: Vec<&'static System>,
}

/// Returns the turns that the user chose, in the order in which they run.
pub(super) fn turns(suite: &dyn Suite, choice: &Choice) -> Vec<Turn> {
    let most = choice.workloads().map(|workload| choice.rounds(workload)).max().unwrap_or(0);
    let mut turns = Vec::new();
    for size in choice.sizes() {
        for round in 0..most {
            for workload in choice.workloads().filter(|it| round < choice.rounds(it)) {
                let runs = |&system: &&'static System| {
                    suite.does(system.name, workload.name)
                        && suite.includes(choice, &Case { system, workload, size, round })
                };
                let mut systems: Vec<_> = choice.systems().filter(runs).collect();
                if !systems.is_empty() {
                    let first = round as usize % systems.len();
                    systems.rotate_left(first);
                    turns.push(Turn { round, workload, size, systems });
                }
            }
        }
    }
    turns
}

/// Runs all turns and collects their figures.
pub(super) fn run_all(
    suite: &dyn Suite,
    choice: &Choice,
    ready: &Ready,
    turns: &[Turn],
) -> Result<Results> {
    ensure!(!turns.is_empty(), "nothing to run: the options leave no system and workload");
    let mut results = Results::new(choice.spec, choice.sizes());
    let weight =
        |turn: &Turn| turn.workload.seconds * (turn.size / results.sizes[0].max(1)).max(1) as u64;
    let weights: Vec<u64> = turns.iter().map(weight).collect();
    let all = turns.iter().zip(&weights).map(|(turn, weight)| turn.systems.len() as u64 * weight);
    let progress = bar(all.sum());
    for (turn, weight) in turns.iter().zip(weights) {
        let mut first: Option<(&str, Option<u64>)> = None;
        for &system in &turn.systems {
            let Turn { round, workload, size, .. } = *turn;
            let what = what(choice, turn, system);
            progress.set_message(format!(
                "round {}/{}: {what}",
                round + 1,
                choice.rounds(workload)
            ));
            let case = Case { system, workload, size, round };
            let outcome: Outcome = outcome(command(suite, choice, ready, &case)?, &what)?;
            let (other, expected) = *first.get_or_insert((system.name, outcome.checksum));
            ensure!(
                outcome.checksum == expected,
                "{} and {other} did different work at {}: checksum {:?} against {expected:?}; run \
                 it with --workload {} --only {},{other} to find out which is wrong",
                system.name,
                workload.name,
                outcome.checksum,
                workload.name,
                system.name
            );
            for (figure, value) in outcome.figures {
                results.add(system, size, &figure, value)?;
            }
            progress.inc(weight);
        }
    }
    progress.finish_and_clear();
    Ok(results)
}

/// Returns the name of a run for messages.
fn what(choice: &Choice, turn: &Turn, system: &System) -> String {
    let things = choice.spec.sizes.as_ref().map(|sizes| sizes.things);
    let with = things.map_or_else(String::new, |it| format!(" with {} {it}", count(turn.size)));
    format!("{} at {}{with}", system.label, turn.workload.name)
}

/// Returns the command of a run, after touching the memory that it will need.
fn command(suite: &dyn Suite, choice: &Choice, ready: &Ready, case: &Case) -> Result<Command> {
    let mut command = suite.program(choice, case)?;
    command.args(["--workload", case.workload.name]);
    for (name, value) in suite.settings(choice, case) {
        command.arg(format!("--{name}")).arg(value.to_string());
        if let Some(sizes) = choice.spec.sizes.as_ref().filter(|sizes| sizes.things == name) {
            touch(value as usize * sizes.bytes);
        }
    }
    for (name, value) in &ready.settings {
        command.arg(format!("--{name}")).arg(value);
    }
    if choice.spec.stores {
        command.arg("--folder").arg(choice.folder().join(case.system.name));
    }
    Ok(command)
}

/// Returns the command that runs a system in this program. A run that starts servers is killed when
/// this process ends.
pub(crate) fn this_program(spec: &Spec, system: &System) -> Result<Command> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = if spec.stores {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "KILL"]).arg(program);
        setpriv
    } else {
        Command::new(program)
    };
    command.args(["run", spec.name, "--system", system.name]);
    Ok(command)
}

/// Runs a command that prints its outcome as JSON. The error of a failure begins with `what`.
fn outcome<T: DeserializeOwned>(mut command: Command, what: &str) -> Result<T> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{what} failed ({}):\n{}\nTo see it alone: {command:?}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim(),
        );
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{command:?} printed something that is not an outcome"))
}

/// Returns a progress bar on standard error, which is shown only on a terminal.
fn bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:32} {percent:>3}%  {elapsed_precise}  {msg}")
        .expect("the template is well-formed");
    let progress = ProgressBar::new(length).with_style(style);
    progress.enable_steady_tick(Duration::from_secs(1));
    progress
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn an_outcome_is_read_and_a_failure_says_what_failed_and_why() {
        assert_eq!(outcome::<Vec<u32>>(shell("echo '[1, 2]'"), "it").unwrap(), [1, 2]);
        let failed = outcome::<u32>(shell("echo because >&2; exit 3"), "it").unwrap_err();
        let text = failed.to_string();
        assert!(text.contains("it failed") && text.contains("because"), "{text}");
        assert!(outcome::<u32>(shell("echo nonsense"), "it").is_err());
    }
}
