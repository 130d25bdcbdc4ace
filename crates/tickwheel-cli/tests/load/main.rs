//! Load on the real binary through HTTP, with accounts of all answers.
//!
//! Two tests share one kind of load, in which clients put, cancel, move, reserve, acknowledge and
//! fail jobs. `soak` runs many clients at once and then processes the remaining jobs: in the end
//! every job is accounted for. `crash` kills the server repeatedly, restarts it on the same
//! directory, and compares the jobs in it with the accounts.
//!
//! ```sh
//! cargo test -p tickwheel-cli --test load -- soak --clients 200 --seconds 60
//! cargo test -p tickwheel-cli --test load -- crash --rounds 50
//! ```
//!
//! Without arguments, both run in a short form.

mod account;
mod client;
mod crash;
#[path = "../rig/mod.rs"]
mod rig;
mod soak;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match plan(&args).and_then(|plan| plan.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The test to run.
#[derive(Debug)]
struct Plan {
    soak: bool,
    crash: bool,
    clients: u64,
    seconds: u64,
    rounds: u64,
}

/// Other arguments of a test program (`--nocapture`, a filter) are ignored.
fn plan(args: &[String]) -> Result<Plan, String> {
    let number = |name: &str, default: u64| match args.iter().position(|arg| arg == name) {
        None => Ok(default),
        Some(place) => args
            .get(place + 1)
            .and_then(|number| number.parse().ok())
            .filter(|&number| number > 0)
            .ok_or_else(|| format!("`{name}` wants a number above zero")),
    };
    let named = |name: &str| args.iter().any(|arg| arg == name);
    let all = !named("soak") && !named("crash");
    Ok(Plan {
        soak: all || named("soak"),
        crash: all || named("crash"),
        clients: number("--clients", 40)?,
        seconds: number("--seconds", 3)?,
        rounds: number("--rounds", 5)?,
    })
}

impl Plan {
    fn run(&self) -> Result<(), String> {
        if self.soak {
            soak::run(self.clients, self.seconds)?;
        }
        if self.crash {
            crash::run(self.rounds)?;
        }
        Ok(())
    }
}
