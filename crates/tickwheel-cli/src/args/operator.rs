//! The commands for operators: `doctor`, `bench` and `top`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tickwheel_api::Delay;

use super::values;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel doctor                                   the running server of --url
  tickwheel doctor --data /var/lib/tickwheel         the directory of a server that is stopped
  tickwheel doctor --data /var/lib/tickwheel --repair
  tickwheel doctor --json | jq '.findings[] | select(.severity == \"error\")'

The exit code is 0 if nothing is wrong, 8 if there are warnings, 9 if there are errors. Nothing is
changed without --repair, which first says what it is going to do.")]
pub(crate) struct DoctorArgs {
    /// Check this data directory, which no server uses now, instead of a running server
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<String>,
    /// A TOML file with options of the server, for the checks of a directory
    #[arg(long, value_name = "FILE", env = "TICKWHEEL_CONFIG", requires = "data")]
    pub(crate) config: Option<PathBuf>,
    /// Repair what can be repaired in the directory
    #[arg(long, requires = "data")]
    pub(crate) repair: bool,
    /// Repair without asking
    #[arg(long, short, requires = "repair")]
    pub(crate) yes: bool,
}

/// What a benchmark does with its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchMode {
    /// Puts them
    Put,
    /// Puts them, and has workers that reserve and acknowledge each when it is due
    EndToEnd,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel bench --rate 5000 --duration 30s
  tickwheel bench --mode end-to-end --rate 2000 --delay 500ms
  tickwheel bench http://10.0.0.7:7300 --rate 50000 --batch 100 --connections 32

The load is open: each request has a time at which it is to be sent, whether or not earlier ones are
answered, and its latency is measured from that time. So a server that stalls cannot hide the
requests that it kept from being sent. The jobs go into a queue of their own, which is removed at
the end. The token needs the scopes produce, consume and admin.")]
pub(crate) struct BenchArgs {
    /// The server; that of --url if not given
    #[arg(value_name = "URL")]
    pub(crate) server: Option<String>,
    /// What happens to the jobs
    #[arg(long, value_enum, default_value = "put")]
    pub(crate) mode: BenchMode,
    /// Jobs put in each second
    #[arg(long, value_name = "NUMBER", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
    /// How long jobs are put, from 100ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::delay)]
    pub(crate) duration: Delay,
    /// Connections that put jobs
    #[arg(long, value_name = "NUMBER", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) connections: u16,
    /// Jobs in each request
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: u32,
    /// Bytes of each job's payload, at least 12
    #[arg(long, value_name = "NUMBER", default_value = "64", value_parser = clap::value_parser!(u32).range(12..=1_048_576))]
    pub(crate) payload_bytes: u32,
    /// After how long jobs are due [default: 1h, or 1s in the mode end-to-end]
    #[arg(long, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) delay: Option<Delay>,
    /// Connections that reserve and acknowledge jobs, in the mode end-to-end
    #[arg(long, value_name = "NUMBER", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) workers: u16,
    /// The queue; a new one with a name of its own if not given
    #[arg(long, short)]
    pub(crate) queue: Option<String>,
    /// Use the queue although it exists
    #[arg(long, short, requires = "queue")]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel top
  tickwheel top --sort ready --filter orders --url https://jobs.example.org

Keys:
  ↑ ↓ j k, PgUp PgDn, Home End   select a queue
  s, S                           sort by the next column; reverse the order
  /                              show only queues whose names contain a text
  p                              pause or resume the selected queue, after a question
  ?                              help
  q, Esc, Ctrl-C                 quit

If the connection is lost, the last numbers stay on the screen and are marked as old until the
server answers again. A token needs the scope read; to pause queues it needs admin.")]
pub(crate) struct TopArgs {
    /// The column to sort by
    #[arg(long, value_enum, default_value = "name")]
    pub(crate) sort: TopSort,
    /// Show only queues whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
}

/// A column of `top` that queues are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopSort {
    /// The name
    Name,
    /// Jobs that are not due yet
    Scheduled,
    /// Jobs that wait for a worker
    Ready,
    /// Dead jobs
    Dead,
    /// Jobs put in each second
    In,
    /// Jobs acknowledged in each second
    Out,
    /// How long the oldest ready job has waited
    Oldest,
    /// The lateness of 99 in 100 deliveries
    Late,
}
