//! What the connections of the port have to do with tubes, and what the port counts.
//!
//! A tube exists while it has jobs or a connection uses or watches it. The jobs are the engine's
//! business; the connections are counted here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::command::Command;

/// The tube that connections use and watch at first.
pub(super) const DEFAULT: &str = "default";

/// What all connections share.
pub(super) struct Tubes {
    referenced: Mutex<HashMap<Arc<str>, Tube>>,
    pub(super) counts: Counts,
    pub(super) started: Instant,
    /// A random number that tells this run from others.
    pub(super) id: u64,
}

/// What is counted of a tube while a connection refers to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tube {
    pub(super) using: u64,
    pub(super) watching: u64,
    pub(super) waiting: u64,
    pub(super) deletes: u64,
    pub(super) pauses: u64,
    /// Seconds of the last pause.
    pub(super) pause: u64,
}

/// How a connection refers to a tube.
#[derive(Clone, Copy)]
pub(super) enum Reference {
    Using,
    Watching,
    Waiting,
}

impl Tube {
    fn of(&mut self, reference: Reference) -> &mut u64 {
        match reference {
            Reference::Using => &mut self.using,
            Reference::Watching => &mut self.watching,
            Reference::Waiting => &mut self.waiting,
        }
    }
}

impl Tubes {
    pub(super) fn new() -> Self {
        Self {
            referenced: Mutex::default(),
            counts: Counts::default(),
            started: Instant::now(),
            id: getrandom::u64().unwrap_or_default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Tube>> {
        self.referenced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection refers to a tube; gives the name that all references share.
    pub(super) fn enter(&self, name: &str, reference: Reference) -> Arc<str> {
        let mut tubes = self.lock();
        let name = match tubes.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(name),
        };
        *tubes.entry(Arc::clone(&name)).or_default().of(reference) += 1;
        name
    }

    /// A connection does not refer to a tube any more.
    pub(super) fn leave(&self, name: &str, reference: Reference) {
        let mut tubes = self.lock();
        if let Some(tube) = tubes.get_mut(name) {
            *tube.of(reference) -= 1;
            if tube.using + tube.watching + tube.waiting == 0 {
                tubes.remove(name);
            }
        }
    }

    /// Changes what is counted of a tube, if a connection refers to it.
    pub(super) fn change(&self, name: &str, change: impl FnOnce(&mut Tube)) {
        if let Some(tube) = self.lock().get_mut(name) {
            change(tube);
        }
    }

    /// What is counted of a tube; `None` if no connection refers to it.
    pub(super) fn get(&self, name: &str) -> Option<Tube> {
        self.lock().get(name).copied()
    }

    /// The tubes that connections refer to.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }
}

/// Connections and commands.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) total_connections: AtomicU64,
    pub(super) producers: AtomicU64,
    pub(super) workers: AtomicU64,
    pub(super) waiting: AtomicU64,
    commands: [AtomicU64; COMMANDS.len()],
}

/// The commands that are counted, in the order in which `stats` shows them.
pub(super) const COMMANDS: [&str; 22] = [
    "put",
    "peek",
    "peek-ready",
    "peek-delayed",
    "peek-buried",
    "reserve",
    "reserve-with-timeout",
    "delete",
    "release",
    "use",
    "watch",
    "ignore",
    "bury",
    "kick",
    "touch",
    "stats",
    "stats-job",
    "stats-tube",
    "list-tubes",
    "list-tube-used",
    "list-tubes-watched",
    "pause-tube",
];

impl Counts {
    /// Counts a put.
    pub(super) fn note_put(&self) {
        self.commands[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a command. A put is counted with its body.
    pub(super) fn note(&self, command: &Command) {
        let index = match command {
            Command::Peek(_) => 1,
            Command::PeekReady => 2,
            Command::PeekDelayed => 3,
            Command::PeekBuried => 4,
            Command::Reserve(None) => 5,
            Command::Reserve(Some(_)) => 6,
            Command::Delete(_) => 7,
            Command::Release { .. } => 8,
            Command::Use(_) => 9,
            Command::Watch(_) => 10,
            Command::Ignore(_) => 11,
            Command::Bury { .. } => 12,
            Command::Kick(_) => 13,
            Command::Touch(_) => 14,
            Command::Stats => 15,
            Command::StatsJob(_) => 16,
            Command::StatsTube(_) => 17,
            Command::ListTubes => 18,
            Command::ListTubeUsed => 19,
            Command::ListTubesWatched => 20,
            Command::PauseTube(..) => 21,
            Command::Put(_)
            | Command::ReserveJob(_)
            | Command::KickJob(_)
            | Command::Quit
            | Command::Auth(_) => return,
        };
        self.commands[index].fetch_add(1, Ordering::Relaxed);
    }

    /// The commands with their numbers.
    pub(super) fn commands(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let numbers = self.commands.iter().map(|count| count.load(Ordering::Relaxed));
        COMMANDS.into_iter().zip(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tube_is_there_while_a_connection_refers_to_it() {
        let tubes = Tubes::new();
        let name = tubes.enter("a", Reference::Using);
        assert!(Arc::ptr_eq(&name, &tubes.enter("a", Reference::Watching)));
        tubes.change("a", |tube| tube.deletes += 1);
        tubes.leave("a", Reference::Using);
        let left = Tube { watching: 1, deletes: 1, ..Tube::default() };
        assert_eq!(tubes.get("a"), Some(left));
        tubes.leave("a", Reference::Watching);
        assert_eq!((tubes.get("a"), tubes.names().len()), (None, 0));
        tubes.change("a", |_| panic!("it is not there"));
    }

    #[test]
    fn every_command_is_counted_under_its_name() {
        let counts = Counts::default();
        for (line, name) in [
            ("peek 1", "peek"),
            ("reserve-with-timeout 1", "reserve-with-timeout"),
            ("pause-tube a 1", "pause-tube"),
            ("stats", "stats"),
            ("bury 1 1", "bury"),
        ] {
            counts.note(&super::super::parse_line(line.as_bytes()).unwrap());
            assert_eq!(counts.commands().find(|(it, _)| *it == name), Some((name, 1)));
        }
    }
}
