//! The command line: what can be said, and its help.
//!
//! Ground rules: this module says what exists and checks single values; what a command does is in
//! `commands/`. Values are checked by the same parsers that the server uses, so that a wrong delay
//! is refused here, with its reason, before anything is sent.

mod clock;
mod cluster;
mod job;
mod local;
mod operator;
mod queue;
mod schedule;
mod target;
mod values;
mod work;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand};

pub(crate) use self::clock::ClockCommand;
pub(crate) use self::cluster::{ClusterCommand, RecoverArgs};
pub(crate) use self::job::{
    AckArgs, CancelArgs, CancelWaitingArgs, DeliveryArgs, ExtendArgs, FailArgs, GetArgs, GroupBy,
    JobOptions, KickArgs, LsArgs, PayloadArgs, PayloadKind, PutArgs, ReleaseArgs,
    RemoveFinishedArgs, RescheduleArgs, ReserveArgs, StatsArgs, Target, WatchArgs, WhenArgs,
};
pub(crate) use self::local::{
    BackupArgs, CompletionsArgs, ConfigArgs, ExportArgs, ImportArgs, ManArgs, RestoreArgs,
    ServeArgs, ServerOptions, TokenCommand, TokenNewArgs, TokenPlace,
};
pub(crate) use self::operator::{BenchArgs, BenchMode, DoctorArgs, TopArgs, TopSort};
pub(crate) use self::queue::{GroupsArgs, PacingArgs, QueueCommand, QueueSetArgs, SetGroupArgs};
pub(crate) use self::schedule::{ScheduleAddArgs, ScheduleCommand};
pub(crate) use self::target::{TargetAddArgs, TargetCommand, TargetOptions, TargetSetArgs};
pub(crate) use self::values::{IdArg, id};
pub(crate) use self::work::{ResultFrom, WorkArgs};
use crate::failure::EXIT_CODES;
use crate::output::style::ColorWhen;

/// Where the server is unless something else is said.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7300";

const OVERVIEW: &str = "\
Examples:
  tickwheel serve                                    run the service, data in ./tickwheel-data
  tickwheel put orders '{\"close\":42}' --delay 30m --key order-42
  tickwheel ls orders                                what is waiting, and until when
  tickwheel cancel orders order-42                   paid in time
  tickwheel work orders -- ./close-order             run a command for each job that is due
  tickwheel watch orders                             see it happen";

const ENVIRONMENT: &str = "\
Environment:
  TICKWHEEL_URL      where the server is [default: http://127.0.0.1:7300]
  TICKWHEEL_TOKEN    the token that requests carry
  TICKWHEEL_CA       certificates to trust, a PEM file
  NO_COLOR           no colours, if set to anything
  TZ                 the time zone in which times are shown
  `tickwheel serve --help` lists the variables of the server.

Output:
  With --json, standard output is the answer of the HTTP API (/docs of a running server) as it
  came, and standard error a problem document (RFC 9457) with `code` and `exit_code`.";

/// Delayed jobs that survive restarts: a service, and its command line
#[derive(Debug, Parser)]
#[command(
    name = "tickwheel",
    version,
    max_term_width = 100,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = format!("{OVERVIEW}\n\n{EXIT_CODES}"),
    after_long_help = format!("{OVERVIEW}\n\n{EXIT_CODES}\n\n{ENVIRONMENT}")
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) form: Form,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How to reach the server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Where the server is
    #[arg(
        long,
        global = true,
        alias = "server",
        value_name = "URL",
        env = "TICKWHEEL_URL",
        default_value = DEFAULT_URL
    )]
    pub(crate) url: String,
    /// The token that the request carries; better given by the environment
    #[arg(long, global = true, env = "TICKWHEEL_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Trust the certificates of this PEM file instead of the public ones
    #[arg(long, global = true, value_name = "FILE", env = "TICKWHEEL_CA")]
    pub(crate) ca: Option<std::path::PathBuf>,
}

/// In which form to answer.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Form {
    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: ColorWhen,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the service
    Serve(ServeArgs),
    /// Put a job into a queue, to be delivered when it is due
    Put(Box<PutArgs>),
    /// Show a job
    Get(GetArgs),
    /// List the jobs of a queue; the queues, if none is named
    Ls(LsArgs),
    /// Cancel a job: it is not delivered any more
    Cancel(CancelArgs),
    /// Change when a waiting job is due
    Reschedule(RescheduleArgs),
    /// Take jobs that are due, to work on them
    Reserve(ReserveArgs),
    /// Run a command for each job of a queue, as it becomes due
    Work(WorkArgs),
    /// Acknowledge a reserved job: it is done
    Ack(AckArgs),
    /// Report that a reserved job failed: it is tried again, or dead
    Fail(FailArgs),
    /// Keep a reserved job for longer
    Extend(ExtendArgs),
    /// Give a reserved job back undone: the delivery does not count as an attempt
    Release(ReleaseArgs),
    /// Bring dead jobs back: they are ready again
    Kick(KickArgs),
    /// Remove the dead, done or cancelled jobs of a queue
    #[command(visible_alias = "purge")]
    RemoveFinished(RemoveFinishedArgs),
    /// Cancel all waiting jobs of a queue
    #[command(visible_alias = "drain")]
    CancelWaiting(CancelWaitingArgs),
    /// Queues: list, show, set, pause, resume
    #[command(subcommand, visible_alias = "queues")]
    Queue(QueueCommand),
    /// Schedules that put a job each time: add, list, pause, resume, remove, the next times
    #[command(subcommand, visible_alias = "schedules")]
    Schedule(ScheduleCommand),
    /// HTTP endpoints that get the jobs of queues: add, list, set, pause, resume, test
    #[command(subcommand, visible_alias = "targets")]
    Target(TargetCommand),
    /// Show what happens to jobs, as it happens
    Watch(WatchArgs),
    /// Show the counts of the server
    Stats(StatsArgs),
    /// Show queues, rates, lateness and the timing wheel of a server, live in the terminal
    Top(TopArgs),
    /// Check a running server, or a data directory, and say what to do about what is wrong
    Doctor(DoctorArgs),
    /// Put load on a running server, and measure how it answers
    Bench(BenchArgs),
    /// Write everything that the server keeps into a file, while it runs
    Backup(BackupArgs),
    /// Make a data directory of a backup, and check it
    Restore(RestoreArgs),
    /// Write queues, jobs, schedules and push targets as lines of JSON
    Export(ExportArgs),
    /// Add the queues, jobs, schedules and push targets of an export
    Import(ImportArgs),
    /// The clock of the server: show it, or advance it in a test
    #[command(subcommand)]
    Clock(ClockCommand),
    /// The nodes of a cluster and their partitions: status, move, drain, recover
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Access tokens of a server on this machine: new, list, remove
    #[command(subcommand, visible_alias = "tokens")]
    Token(TokenCommand),
    /// Print the configuration of `serve`, and where each value comes from
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the man pages into a directory
    Man(ManArgs),
}

/// The commands for which some global options mean nothing: these are refused instead of being
/// passed over. Most of the commands work on this machine alone.
const LOCAL: [(&str, &[&str]); 8] = [
    ("restore", &["url", "token", "ca"]),
    ("serve", &["url", "token", "ca", "json"]),
    ("work", &["json"]),
    ("token", &["url", "token", "ca"]),
    ("top", &["json"]),
    ("config", &["url", "token", "ca"]),
    ("completions", &["url", "token", "ca", "json"]),
    ("man", &["url", "token", "ca", "json"]),
];

/// The command line, with the help of each command as it should be read.
pub(crate) fn command() -> clap::Command {
    LOCAL.iter().fold(Cli::command(), |command, (name, options)| {
        command.mut_subcommand(name, |local| hide(local, options))
    })
}

/// Global options would be listed in the help of every command. A hidden option of the same name
/// takes the place of one in the commands that do not have it.
fn hide(mut command: clap::Command, options: &'static [&'static str]) -> clap::Command {
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |inner| hide(inner, options));
    }
    for option in options {
        let arg = clap::Arg::new(*option).long(*option).hide(true);
        command = command.arg(match *option {
            "json" => arg.action(clap::ArgAction::SetTrue),
            "ca" => arg.value_parser(clap::value_parser!(std::path::PathBuf)),
            _ => arg,
        });
    }
    command
}

/// Suggests `queue pause` for `pause`: a word that is a command of a group is not a typing mistake
/// for the command whose letters are most alike.
pub(crate) fn with_nested_suggestion(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let nested: Vec<String> = Cli::command()
        .get_subcommands()
        .filter(|group| group.find_subcommand(wrong).is_some())
        .map(|group| format!("{} {wrong}", group.get_name()))
        .collect();
    if !nested.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(nested));
    }
    error
}

/// The option that was given to a command which has no use for it.
pub(crate) fn misplaced(matches: &clap::ArgMatches) -> Option<String> {
    let (name, inner) = matches.subcommand()?;
    let (_, options) = LOCAL.iter().find(|(local, _)| *local == name)?;
    let mut levels = vec![matches, inner];
    while let Some((_, next)) = levels[levels.len() - 1].subcommand() {
        levels.push(next);
    }
    let is_given = |option: &&&str| {
        let by_hand = Some(clap::parser::ValueSource::CommandLine);
        levels.iter().any(|level| {
            level.try_contains_id(option).is_ok() && level.value_source(option) == by_hand
        })
    };
    let option = options.iter().find(is_given)?;
    let why = match (*option, name) {
        ("json", _) => "its output is not JSON",
        (_, "serve") => "it is the server; --listen says where",
        _ => "it works on this machine alone, without a server",
    };
    Some(format!("`tickwheel {name}` takes no --{option}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        fn check(command: &clap::Command, path: &str) {
            for inner in command.get_subcommands() {
                let path = format!("{path} {}", inner.get_name());
                let help = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "`{path} --help` shows no example");
                assert!(inner.get_about().is_some(), "`{path} --help` says nothing");
                check(inner, &path);
            }
        }
        check(&command(), "tickwheel");
    }

    #[test]
    fn a_command_of_a_group_is_suggested_with_its_group() {
        let error = command().try_get_matches_from(["tickwheel", "pause", "mail"]).unwrap_err();
        let said = with_nested_suggestion(error).to_string();
        assert!(said.contains("queue pause") && !said.contains("purge"), "{said}");
    }

    #[test]
    fn options_are_refused_where_they_mean_nothing() {
        let said = |args: &[&str]| misplaced(&command().try_get_matches_from(args).unwrap());
        assert!(said(&["tickwheel", "serve", "--token", "x"]).unwrap().contains("--token"));
        assert!(said(&["tickwheel", "--url", "http://x", "man", "d"]).unwrap().contains("--url"));
        assert!(said(&["tickwheel", "token", "ls", "--ca", "x"]).unwrap().contains("--ca"));
        assert_eq!(said(&["tickwheel", "token", "ls", "--json"]), None);
        assert_eq!(said(&["tickwheel", "ls", "--url", "http://x", "--json"]), None);
    }
}
