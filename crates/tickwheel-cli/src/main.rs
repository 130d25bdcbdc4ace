//! The binary `tickwheel`: the service, and the command line that talks to it.
//!
//! Dependencies point down: `args` defines the arguments, `commands` executes them with `client`
//! and prints with `output`; `failure` is the error of all of them.
#![forbid(unsafe_code)]

mod args;
mod client;
mod commands;
mod events;
mod failure;
mod output;
mod payload;
mod suggest;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::style::ColorWhen;

fn main() -> ExitCode {
    let matches = match args::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return refuse(&args::with_nested_suggestion(error)),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let output = Output::new(cli.form.json, cli.form.color);
    let outcome = match args::misplaced(&matches) {
        Some(why) => Err(Failure::Usage(why)),
        None => commands::run(cli, &output),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.exit_code()
        }
    }
}

/// Handles help, versions and wrong arguments; clap knows the stream and the exit code. With
/// `--json`, mistakes are printed as JSON, too.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|arg| arg == "--json") {
        let failure = Failure::Usage(error.to_string().trim().to_owned());
        Output::new(true, ColorWhen::Never).failure(&failure);
        return failure.exit_code();
    }
    error.exit()
}
