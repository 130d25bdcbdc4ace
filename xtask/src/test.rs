//! `cargo xtask test`: every check that a change must pass.
//!
//! The steps that fail soonest run first, and the first failure ends the run. A step that sets
//! `RUSTFLAGS` has a target folder of its own, because it would otherwise discard the artifacts of
//! the previous step. A command that takes longer than its limit is killed, and its step fails.
//!
//! `cargo xtask test PART` runs one step, or the tests of one crate or test program, which the
//! full run covers with those of the whole workspace.

use std::time::{Duration, Instant};

use crate::api_check;
use crate::browser;
use crate::clients;
use crate::docs_check;
use crate::manifests;
use crate::package;
use crate::process::{Failure, Invocation, paint, root};

/// Workspaces beside the main one. They are held to the same format, but not compiled here:
/// bench/ builds its peers and fuzz/ needs sanitizers.
const OTHER_WORKSPACES: [&str; 3] = ["xtask/no-std-check", "bench", "fuzz"];

/// How long the tests of the workspace may take, on a machine that compiles everything first.
const WORKSPACE_LIMIT: Duration = Duration::from_mins(45);

/// How long the API is tested.
const API_SECONDS: u32 = 90;

struct Step {
    /// What `cargo xtask test` calls it.
    part: &'static str,
    name: &'static str,
    work: Work,
}

enum Work {
    Commands(Vec<Invocation>),
    Documents,
    Api,
    Clients,
    Browser,
    Manifests,
}

/// Returns the names of all parts.
pub(crate) fn parts() -> Vec<&'static str> {
    steps().iter().chain(&excerpts()).map(|step| step.part).collect()
}

/// Runs every check, or only this part.
pub(crate) fn run(part: Option<&str>) -> Result<(), Failure> {
    let steps = match part {
        None => steps(),
        Some(part) => {
            let all = steps().into_iter().chain(excerpts());
            all.filter(|step| step.part == part).collect()
        }
    };
    let has_api = steps.iter().any(|step| matches!(step.work, Work::Api));
    let start = Instant::now();
    if has_api {
        api_check::prepare();
    }
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
            Work::Browser => {
                browser::run(None, false).inspect_err(|_| how_to_run_again("cargo xtask browser"))
            }
            Work::Manifests => {
                manifests::run().inspect_err(|_| how_to_run_again("cargo xtask manifests"))
            }
            Work::Clients => {
                clients::run(None).inspect_err(|_| how_to_run_again("cargo xtask clients"))
            }
        }
    }
}

fn how_to_run_again(command: &str) {
    println!("\nTo run only this again, in {}:\n  {command}", root().display());
}

fn commands(part: &'static str, name: &'static str, commands: Vec<Invocation>) -> Step {
    Step { part, name, work: Work::Commands(commands) }
}

fn steps() -> Vec<Step> {
    vec![
        commands("format", "format", formats()),
        Step {
            part: "docs",
            name: "documents: READMEs agree, links resolve, public types have examples",
            work: Work::Documents,
        },
        commands(
            "clippy",
            "clippy, warnings denied",
            vec![
                cargo("clippy --workspace --all-targets --all-features -- -D warnings"),
                // The default features, which most users have, are compiled as well.
                cargo("clippy --package tickwheel --all-targets -- -D warnings"),
            ],
        ),
        commands(
            "workspace",
            "tests and doc tests",
            vec![cargo("test --workspace --all-features").limit(WORKSPACE_LIMIT)],
        ),
        commands(
            "no-default-features",
            "tests of the library without default features",
            vec![cargo("test --package tickwheel --no-default-features")],
        ),
        commands(
            "loom",
            "models: loom tries every order in which threads can meet",
            vec![
                cargo(
                    "test --package tickwheel --release --test timer_loom --test delay_queue \
                     --target-dir target/loom",
                )
                .env("RUSTFLAGS", "--cfg tickwheel_loom"),
            ],
        ),
        commands(
            "no-std",
            "the library where there is no std",
            vec![cargo(
                "build --manifest-path xtask/no-std-check/Cargo.toml --target-dir target/no-std-check",
            )],
        ),
        commands(
            "rustdoc",
            "rustdoc, warnings denied",
            vec![
                cargo("doc --workspace --all-features --no-deps")
                    .env("RUSTDOCFLAGS", "-D warnings"),
            ],
        ),
        commands(
            "package",
            "packages: every published crate can be packed",
            // `cargo xtask package` also compiles them.
            vec![cargo(&format!("{} --no-verify", package::PACK))],
        ),
        Step {
            part: "manifests",
            name: "manifests: Kubernetes and systemd know every field",
            work: Work::Manifests,
        },
        commands(
            "cluster",
            "cluster: the conformance suite on NATS and PostgreSQL, and a cluster under faults",
            // With the features of the whole workspace, so that nothing is compiled again.
            vec![cargo(
                "test --workspace --all-features --test real_logs --test cluster --test jepsen",
            )],
        ),
        Step {
            part: "clients",
            name: "client libraries: the conformance suite in every language",
            work: Work::Clients,
        },
        Step {
            part: "browser",
            name: "dashboard: every view and action in a real browser",
            work: Work::Browser,
        },
        Step {
            part: "api",
            name: "API: a real server answers as its description says, whatever it is asked",
            work: Work::Api,
        },
    ]
}

/// Excerpts of the step `workspace`, to be run alone.
fn excerpts() -> Vec<Step> {
    let of_crate = |name: &'static str| {
        commands(name, name, vec![cargo(&format!("test --package {name} --all-features"))])
    };
    let of_program = |part, name, test: &str| {
        // With the features of the whole workspace, so that nothing is compiled again.
        commands(part, name, vec![cargo(&format!("test --workspace --all-features --test {test}"))])
    };
    vec![
        of_crate("tickwheel"),
        of_crate("tickwheel-integrations"),
        of_crate("tickwheel-queue"),
        of_crate("tickwheel-cluster"),
        of_crate("tickwheel-api"),
        of_crate("tickwheel-page"),
        of_crate("tickwheel-server"),
        of_crate("tickwheel-client"),
        of_crate("tickwheel-cli"),
        of_crate("xtask"),
        of_program("crash", "crash: a process is killed while it works on the queue", "crash"),
        of_program("load", "load: many clients, and a server that is killed", "load"),
        of_program("hostile", "hostile: the short form of every attack", "hostile"),
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

/// Returns a cargo command whose arguments contain no spaces.
fn cargo(args: &str) -> Invocation {
    Invocation::cargo(args.split(' '))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
