//! The commands, one module for each kind.
//!
//! Ground rules: a command builds a request of the API, sends it and shows the answer. It checks
//! nothing that the server checks, so that the rules exist once.

mod backup;
mod bench;
mod clock;
mod cluster;
mod config;
mod doctor;
mod errors;
mod export;
mod group;
mod job;
mod queue;
mod schedule;
mod serve;
mod shell;
pub(crate) mod stats;
mod target;
mod token;
mod top;
mod watch;
mod work;
mod worker;

use crate::args::{Cli, Command};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::Output;

/// The context of a command that uses a server.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) client: Client,
    pub(crate) output: &'a Output,
}

pub(crate) fn run(cli: Cli, output: &Output) -> Result<(), Failure> {
    let Cli { connection, command, .. } = cli;
    let context = || Ok::<_, Failure>(Context { client: Client::new(&connection)?, output });
    match command {
        Command::Serve(args) => serve::run(output, &args),
        Command::Put(args) => job::put(&context()?, *args),
        Command::Get(args) => job::get(&context()?, &args),
        Command::Ls(args) => job::ls(&context()?, &args),
        Command::Cancel(args) => job::cancel(&context()?, &args),
        Command::Reschedule(args) => job::reschedule(&context()?, &args),
        Command::Reserve(args) => worker::reserve(&context()?, &args),
        Command::Work(args) => work::run(&context()?, &connection, &args),
        Command::Ack(args) => worker::ack(&context()?, &args),
        Command::Fail(args) => worker::fail(&context()?, args),
        Command::Extend(args) => worker::extend(&context()?, &args),
        Command::Release(args) => worker::release(&context()?, &args),
        Command::Kick(args) => queue::kick(&context()?, &args),
        Command::RemoveFinished(args) => queue::remove_finished(&context()?, &args),
        Command::CancelWaiting(args) => queue::cancel_waiting(&context()?, &args),
        Command::Queue(command) => queue::run(&context()?, command),
        Command::Schedule(command) => schedule::run(&context()?, command),
        Command::Target(command) => target::run(&context()?, command),
        Command::Watch(args) => watch::run(&context()?, &args),
        Command::Top(args) => top::run(&context()?, &args),
        Command::Doctor(args) => doctor::run(output, &args, context),
        Command::Bench(args) => bench::run(output, &args, connection),
        Command::Backup(args) => backup::run(output, &args, context),
        Command::Restore(args) => backup::restore(output, &args),
        Command::Export(args) => export::export(&context()?, &args),
        Command::Import(args) => export::import(&context()?, &args),
        Command::Clock(command) => clock::run(&context()?, &command),
        Command::Cluster(command) => cluster::run(&context()?, command),
        Command::Stats(args) => stats::run(&context()?, &args),
        Command::Token(command) => token::run(output, command),
        Command::Config(args) => config::run(output, &args),
        Command::Completions(args) => shell::completions(output, &args),
        Command::Man(args) => shell::man(output, &args),
    }
}
