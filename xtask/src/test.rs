//! `cargo xtask test`: everything that has to hold before a change goes in.
//!
//! The steps run in order of how soon they can fail, and the first failure ends the run. A step
//! that sets `RUSTFLAGS` has a target folder of its own: else it would throw away what the step
//! before it compiled.

use std::time::{Duration, Instant};

use crate::api_check;
use crate::docs_check;
use crate::process::{Failure, Invocation, paint, root};

/// Workspaces beside the main one. They are held to the same format, but not compiled here:
/// bench/ builds its peers and fuzz/ needs a nightly compiler.
const OTHER_WORKSPACES: [&str; 3] = ["xtask/no-std-check", "bench", "fuzz"];

/// How long the API is tried.
const API_SECONDS: u32 = 90;

struct Step {
    name: &'static str,
    work: Work,
}

enum Work {
    Commands(Vec<Invocation>),
    Documents,
    Api,
}

pub(crate) fn run() -> Result<(), Failure> {
    let steps = steps();
    let start = Instant::now();
    api_check::prepare();
    let mut times = Vec::new();
    for (number, step) in (1..).zip(&steps) {
        let heading = format!("[{number}/{}] {}", steps.len(), step.name);
        println!("\n{}", paint("1;36", &heading));
        let step_start = Instant::now();
        if let Err(failure) = step.run() {
            println!(
                "{}",
                paint("1;31", &format!("failed after {}", seconds(step_start.elapsed())))
            );
            return Err(failure);
        }
        times.push(step_start.elapsed());
        println!("{}", paint("32", &format!("ok in {}", seconds(step_start.elapsed()))));
    }

    println!("\n{}", paint("1", "All checks passed"));
    for (step, time) in steps.iter().zip(times) {
        println!("{:>9}  {}", seconds(time), step.name);
    }
    println!("{:>9}  in total", seconds(start.elapsed()));
    Ok(())
}

impl Step {
    fn run(&self) -> Result<(), Failure> {
        match &self.work {
            Work::Commands(commands) => commands.iter().try_for_each(|command| {
                println!("{}", paint("2", &format!("$ {command}")));
                command.run().inspect_err(|_| how_to_run_again(&command.to_string()))
            }),
            Work::Documents => {
                docs_check::run().inspect_err(|_| how_to_run_again("cargo xtask docs"))
            }
            Work::Api => {
                api_check::run(API_SECONDS).inspect_err(|_| how_to_run_again("cargo xtask api"))
            }
        }
    }
}

fn how_to_run_again(command: &str) {
    println!("\nTo run only this again, in {}:\n  {command}", root().display());
}

fn steps() -> Vec<Step> {
    let commands = |name, commands| Step { name, work: Work::Commands(commands) };
    vec![
        commands("format", formats()),
        Step {
            name: "documents: READMEs agree, links resolve, public types have examples",
            work: Work::Documents,
        },
        commands(
            "clippy, warnings denied",
            vec![
                cargo("clippy --workspace --all-targets --all-features -- -D warnings"),
                // What most people get is compiled as well.
                cargo("clippy --package tickwheel --all-targets -- -D warnings"),
            ],
        ),
        commands("tests and doc tests", vec![cargo("test --workspace --all-features")]),
        commands(
            "tests of the library without default features",
            vec![cargo("test --package tickwheel --no-default-features")],
        ),
        commands(
            "models: loom tries every order in which threads can meet",
            vec![
                cargo(
                    "test --package tickwheel --release --test timer_loom --test queue_loom \
                     --target-dir target/loom",
                )
                .env("RUSTFLAGS", "--cfg tickwheel_loom"),
            ],
        ),
        commands(
            "the library where there is no std",
            vec![cargo(
                "build --manifest-path xtask/no-std-check/Cargo.toml --target-dir target/no-std-check",
            )],
        ),
        commands(
            "rustdoc, warnings denied",
            vec![
                cargo("doc --workspace --all-features --no-deps")
                    .env("RUSTDOCFLAGS", "-D warnings"),
            ],
        ),
        Step {
            name: "API: a real server answers as its description says, whatever it is asked",
            work: Work::Api,
        },
    ]
}

fn formats() -> Vec<Invocation> {
    let others = OTHER_WORKSPACES
        .iter()
        .map(|workspace| format!("{workspace}/Cargo.toml"))
        .filter(|manifest| root().join(manifest).exists())
        .map(|manifest| cargo(&format!("fmt --check --manifest-path {manifest}")));
    std::iter::once(cargo("fmt --check --all")).chain(others).collect()
}

/// A cargo command none of whose arguments holds a space.
fn cargo(args: &str) -> Invocation {
    Invocation::cargo(args.split(' '))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
