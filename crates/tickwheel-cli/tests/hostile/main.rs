//! Attacks on the real binary, from outside: only HTTP, signals and files.
//!
//! Each module is one attack. It causes what an adversary or an accident could cause, and compares
//! the server's behaviour with the promises of `docs/SERVER.md` and `docs/SECURITY.md`. An attack
//! reports all its findings, and the other attacks run in any case.
//!
//! ```sh
//! cargo test -p tickwheel-cli --test hostile                              # the short form of all
//! cargo test -p tickwheel-cli --test hostile -- --attack salvage --long   # one, for longer
//! cargo xtask hostile                                                     # the long form, in release
//! ```
//!
//! `--rounds N` sets how often attacks with random parts repeat.
//!
//! Ground rules: an attack waits for events, never for time; a time limit only ends a test that
//! hangs. Full disks and vanishing volumes are file systems in a mount namespace of the test's own,
//! so nothing is left on the machine, however the test ends.

mod authorization;
mod connections;
mod creation;
mod dashboard;
mod files;
mod full_disk;
mod http;
mod memory;
mod namespace;
mod poison;
mod prepared;
mod queue_limit;
mod races;
mod report;
#[path = "../rig/mod.rs"]
mod rig;
mod salvage;
mod streams;
mod tokens;
mod volume;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use report::{Report, Scale};

type Attack = fn(&Scale, &mut Report);

/// Every attack, with its name.
const ATTACKS: [(&str, Attack); 15] = [
    ("authorization", authorization::run),
    ("dashboard", dashboard::run),
    ("races", races::run),
    ("streams", streams::run),
    ("tokens", tokens::run),
    ("queue-limit", queue_limit::run),
    ("poison", poison::run),
    ("connections", connections::run),
    ("memory", memory::run),
    ("creation", creation::run),
    ("files", files::run),
    ("salvage", salvage::run),
    ("salvage-count", salvage::run_count),
    ("volume", volume::run),
    ("full-disk", full_disk::run),
];

/// Attacks that still succeed, or whose fix is not confirmed yet. Each run prints their names; they
/// run only if they are named.
const OPEN: [&str; 0] = [];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match Plan::from_args(&args).and_then(|plan| namespace::enter().map(|()| plan)) {
        Ok(plan) => plan.run(),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The attacks to run, and their form.
struct Plan {
    attacks: Vec<(&'static str, Attack)>,
    scale: Scale,
}

impl Plan {
    /// Parses the arguments. Those of other test programs (`--nocapture`, a filter) are ignored.
    fn from_args(args: &[String]) -> Result<Self, String> {
        let value_of = |name: &str| {
            let place = args.iter().position(|arg| arg == name)?;
            Some(args.get(place + 1).map_or("", String::as_str))
        };
        let attacks = match value_of("--attack") {
            None => ATTACKS.into_iter().filter(|(name, _)| !OPEN.contains(name)).collect(),
            Some(wanted) => vec![find(wanted)?],
        };
        let rounds = value_of("--rounds").map(|text| match text.parse() {
            Ok(rounds) if rounds > 0 => Ok(rounds),
            _ => Err(format!("--rounds must be a number above zero, got {text:?}")),
        });
        let is_long = args.iter().any(|arg| arg == "--long");
        Ok(Self { attacks, scale: Scale { is_long, rounds: rounds.transpose()? } })
    }

    fn run(&self) -> ExitCode {
        let mut failed = Vec::new();
        let open = OPEN.join(", ");
        if self.attacks.len() > 1 && !open.is_empty() {
            println!("not run, still open or not confirmed: {open}");
        }
        for (name, attack) in &self.attacks {
            println!("{name} …");
            let start = Instant::now();
            let mut report = Report::default();
            // The rig panics if it fails, for example to start a server.
            let ended = catch_unwind(AssertUnwindSafe(|| attack(&self.scale, &mut report)));
            if ended.is_err() {
                report.finding("the attack could not be finished: the message is above".to_owned());
            }
            let seconds = start.elapsed().as_secs_f64();
            if report.print(name, seconds) {
                failed.push(*name);
            }
        }
        if failed.is_empty() {
            return ExitCode::SUCCESS;
        }
        eprintln!("error: these attacks succeeded: {}", failed.join(", "));
        ExitCode::FAILURE
    }
}

fn find(wanted: &str) -> Result<(&'static str, Attack), String> {
    let found = ATTACKS.iter().find(|(name, _)| *name == wanted).copied();
    found.ok_or_else(|| {
        let names: Vec<_> = ATTACKS.iter().map(|(name, _)| *name).collect();
        format!("unknown attack {wanted:?}; the attacks are: {}", names.join(", "))
    })
}
