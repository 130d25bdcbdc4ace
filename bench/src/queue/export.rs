//! The whole report.

use std::fmt;

use serde::Serialize;

use super::goals::goals;
use super::options::Options;
use super::system::Class;
use super::workload::Workload;
use super::{Results, picture, summary};
use crate::machine::Machine;
use crate::report::chart::Chart;
use crate::report::destinations::Kept;
use crate::report::goal::{self, Goal};
use crate::report::origin::{self, Version};

const NOTES: [&str; 8] = [
    "Medians over the rounds (of early jobs the worst round), systems in turns, each run a process \
     of its own with an empty folder on the same disk. Payloads have 200 bytes. Callers are \
     threads, each with a connection of its own, and wait for each answer.",
    "Tickwheel's queue is a library in the process that uses it; the peers are servers, asked over \
     loopback, as they are used. What the way through a socket costs is in their figures.",
    "Equals stand side by side: `Durability::Sync`, `appendfsync always`, `synchronous_commit = on` \
     and `-f0` answer when the disk has it; `Durability::Interval` of 50 ms, `appendfsync \
     everysec`, `synchronous_commit = off` and `-f50` answer before.",
    "Redis: a sorted set and two hashes, changed together by scripts. PostgreSQL: a table with an \
     index by due time and one by key, `FOR UPDATE SKIP LOCKED`, its settings as they come. A \
     worker of either asks every millisecond while nothing is due.",
    "beanstalkd has no keys: the client keeps the ids. It knows whole seconds only.",
    "Batches: one call, one script, one multi-row statement, or 100 commands sent at once. Put, \
     due, reserve, ack: 32 callers put single jobs due in a second, 32 workers reserve up to 10 \
     and acknowledge them together; jobs from the first put to the last ack, by the time between.",
    "Late: from the millisecond that a job is due until a worker has it, reserving included. \
     10,000 jobs a second are put in tens, due two seconds later, and acknowledged.",
    "Memory is resident: of our process with its cache of 32 MiB and the harness; of all processes \
     of a server, PostgreSQL's 128 MiB of shared buffers as far as used. Started again: after a \
     kill, until a client is answered. What is on disk is in the system's cache by then.",
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
        format!("# The durable queue and its peers\n\n{self}")
    }

    fn chart(&self) -> Chart {
        picture::chart(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for class in Class::ALL {
            if let Some(table) = summary::figures(&self.results, class) {
                writeln!(f, "## {}\n\n{table}", class.label())?;
            }
        }
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
