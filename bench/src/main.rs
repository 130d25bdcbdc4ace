//! Tickwheel side by side with its peers: one program, one subcommand a suite.
//!
//! Ground rules of all suites:
//!
//! * Every system gets exactly the same work, generated from a fixed seed before the clock starts.
//! * Every run is a fresh process, so no system inherits the heap that another one left behind.
//! * Systems take turns; a figure is the median over the rounds.
//! * Systems return a checksum of their work. A difference is an error.

mod r#async;
mod cluster;
mod install;
mod lateness;
mod memory;
mod meter;
mod pace;
mod push;
mod queue;
mod scratch;
mod server;
mod suite;
mod timer;
mod wheel;
mod work;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command};

use crate::suite::options::{self, Choice};
use crate::suite::{Run, Suite, compare};

const SUITES: [&dyn Suite; 8] = [
    &wheel::Wheels,
    &timer::Timer,
    &r#async::Futures,
    &pace::Pace,
    &queue::Queue,
    &server::Server,
    &push::Push,
    &cluster::InCluster,
];

fn cli() -> Command {
    let run = Command::new("run")
        .about("Do one run in this process and print its outcome as JSON")
        .hide(true)
        .arg(Arg::new("suite").required(true))
        .arg(Arg::new("settings").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true));
    Command::new("tickwheel-bench")
        .bin_name("cargo xtask bench")
        .about("Tickwheel side by side with its peers")
        .version(env!("CARGO_PKG_VERSION"))
        .arg_required_else_help(true)
        .subcommand_required(true)
        .subcommands(SUITES.into_iter().map(options::command))
        .subcommand(run)
}

fn find(name: &str) -> Result<&'static dyn Suite> {
    let found = SUITES.into_iter().find(|suite| suite.spec().name == name);
    found.with_context(|| format!("unknown suite {name}"))
}

fn dispatch(name: &str, matches: &ArgMatches) -> Result<()> {
    if name == "run" {
        let suite: &String = matches.get_one("suite").context("the suite is missing")?;
        let settings: Vec<String> =
            matches.get_many("settings").unwrap_or_default().cloned().collect();
        return Run::execute(find(suite)?, &settings);
    }
    let suite = find(name)?;
    compare(suite, &Choice::new(suite.spec(), matches.clone()))
}

fn main() -> ExitCode {
    let matches = cli().get_matches();
    let (name, matches) = matches.subcommand().expect("clap requires a subcommand");
    match dispatch(name, matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
