//! The whole report.

use std::fmt;

use serde::Serialize;

use super::goals::goals;
use super::options::Options;
use super::workload::Workload;
use super::{Results, picture, summary};
use crate::machine::Machine;
use crate::report::chart::Chart;
use crate::report::destinations::Kept;
use crate::report::goal::{self, Goal};
use crate::report::origin::{self, Version};

const NOTES: [&str; 7] = [
    "Medians over the rounds (of early jobs the worst round), systems in turns, each run a process \
     of its own with an empty folder on the same disk. Payloads are 200 bytes of JSON. Callers are \
     threads, each with a connection of its own, and wait for each answer. They share the cores \
     with what they ask.",
    "The service is the binary that `cargo build --release` makes: `tickwheel serve` on loopback, \
     its settings as they come, but for an access log of errors only. It is asked over HTTP/1.1 on \
     connections that are kept, with JSON, by a client of about 100 lines over blocking sockets.",
    "The embedded queue is the library that the service is built on, in the process that uses it: \
     what the way through a socket, HTTP and JSON costs is the difference.",
    "All are on stable storage when they answer: `durability = sync`, `Durability::Sync`, \
     `appendfsync always`, `synchronous_commit = on`, `-f0`. How the peers are used is told in the \
     notes of `cargo xtask bench queue`.",
    "16 sent ahead: 16 puts are sent on a connection, each a request or command of its own, and \
     then their 16 answers are read: 1,024 on their way.",
    "Late: from the millisecond that a job is due until a worker has it, reserving included. 5,000 \
     jobs a second are put in fives, due two seconds later. Eight workers wait for up to 100 (with \
     the service: `reserve` with a `wait` of 200 ms) and acknowledge them together.",
    "Pending: filled over HTTP, killed, started (from before the process is there until \
     `/v1/stats` is answered), left alone for ten seconds (processor time of the process, memory \
     of the process with its cache of 32 MiB), stopped, started again. What is on disk is in the \
     system's cache by then.",
];

/// What was measured, on what, how and when.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) command: String,
    pub(super) date: String,
    pub(super) machine: Machine,
    pub(super) peers: Vec<Version>,
    pub(super) rounds: u32,
    quick: bool,
    pub(super) goals: Vec<Goal>,
    #[serde(flatten)]
    pub(super) results: Results,
}

impl Report {
    pub(super) fn new(options: &Options, peers: Vec<Version>, results: Results) -> Self {
        Self {
            command: origin::command(),
            date: origin::date(),
            machine: Machine::read(),
            peers,
            rounds: options.rounds(Workload::Put),
            quick: options.is_quick(),
            goals: goals(&results),
            results,
        }
    }

    /// What the columns of the peers stand for.
    pub(super) fn versions(&self) -> String {
        origin::versions(&self.peers)
    }
}

impl Kept for Report {
    fn markdown(&self) -> String {
        format!("# The service, the queue in it, and its peers\n\n{self}")
    }

    fn chart(&self) -> Chart {
        picture::chart(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## Figures\n\n{}", summary::figures(&self.results))?;
        writeln!(f, "## Notes\n")?;
        writeln!(f, "* `{}`, {}", self.command, self.date)?;
        writeln!(f, "* rounds: {}, and 1 with pending jobs", self.rounds)?;
        writeln!(f, "* {}", self.machine)?;
        writeln!(f, "* {}", self.versions())?;
        NOTES.iter().try_for_each(|note| writeln!(f, "* {note}"))?;
        if self.goals.is_empty() {
            return Ok(());
        }
        write!(f, "\n## Goals\n\n")?;
        if self.quick {
            writeln!(f, "They are not stated for a run as short as this, with 4k jobs for 1M.\n")?;
        }
        write!(f, "{}", goal::table(&self.goals))
    }
}
