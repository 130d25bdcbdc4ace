//! The logs of the load's threads: operations that they begin, and answers that they get.
//!
//! A line is written with one system call and without a buffer, so it survives a kill of the
//! process. A line that the kill cut short is the last one, and is ignored.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tickwheel_queue::JobId;

/// An operation that a thread begins, or an answer. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The next put of this job has an idempotency key.
    Once {
        id: JobId,
        due: u64,
    },
    Put {
        id: JobId,
        due: u64,
    },
    PutDone {
        id: JobId,
        replaced: Option<JobId>,
    },
    /// A delivery shows that a schedule has put this job.
    Fired {
        id: JobId,
    },
    /// A put that may replace this job begins.
    MayReplace {
        id: JobId,
    },
    ReplaceOver {
        id: JobId,
    },
    Cancel {
        id: JobId,
    },
    CancelDone {
        id: JobId,
        done: bool,
    },
    Move {
        id: JobId,
        due: u64,
    },
    MoveDone {
        id: JobId,
        done: bool,
    },
    /// A reserve that began at `begun` delivered this job.
    Delivered {
        id: JobId,
        begun: u64,
        due: u64,
        until: u64,
        now: u64,
    },
    Ack {
        id: JobId,
    },
    AckDone {
        id: JobId,
        done: bool,
    },
    Fail {
        id: JobId,
    },
    FailDone {
        id: JobId,
        done: bool,
    },
}

/// An event with its round and its sequence number among all threads.
pub(crate) type Entry = (u64, u64, Event);

#[derive(Clone)]
pub(crate) struct Log {
    sink: Arc<Mutex<Sink>>,
}

enum Sink {
    File(File),
    Memory(Vec<Entry>),
}

impl Log {
    pub(crate) fn file(folder: &Path, round: u64, thread: usize) -> Self {
        let file = File::create(folder.join(format!("{round}-{thread}.log"))).expect("a log");
        Self { sink: Arc::new(Mutex::new(Sink::File(file))) }
    }

    pub(crate) fn shared() -> Self {
        Self { sink: Arc::new(Mutex::new(Sink::Memory(Vec::new()))) }
    }

    pub(crate) fn write(&self, round: u64, seq: u64, event: Event) {
        match &mut *self.sink.lock().expect("the log") {
            Sink::File(file) => {
                file.write_all(line(seq, &event).as_bytes()).expect("the log takes a line");
            }
            Sink::Memory(events) => events.push((round, seq, event)),
        }
    }

    pub(crate) fn take(&self) -> Vec<Entry> {
        match &mut *self.sink.lock().expect("the log") {
            Sink::File(_) => unreachable!("files are read by `read`"),
            Sink::Memory(events) => std::mem::take(events),
        }
    }
}

fn line(seq: u64, event: &Event) -> String {
    match event {
        Event::Once { id, due } => format!("{seq} once {id} {due}\n"),
        Event::Put { id, due } => format!("{seq} put {id} {due}\n"),
        Event::PutDone { id, replaced } => {
            let replaced = replaced.map_or("-".to_owned(), |id| id.to_string());
            format!("{seq} put-done {id} {replaced}\n")
        }
        Event::Fired { id } => format!("{seq} fired {id}\n"),
        Event::MayReplace { id } => format!("{seq} may-replace {id}\n"),
        Event::ReplaceOver { id } => format!("{seq} replace-over {id}\n"),
        Event::Cancel { id } => format!("{seq} cancel {id}\n"),
        Event::CancelDone { id, done } => format!("{seq} cancel-done {id} {done}\n"),
        Event::Move { id, due } => format!("{seq} move {id} {due}\n"),
        Event::MoveDone { id, done } => format!("{seq} move-done {id} {done}\n"),
        Event::Delivered { id, begun, due, until, now } => {
            format!("{seq} delivered {id} {begun} {due} {until} {now}\n")
        }
        Event::Ack { id } => format!("{seq} ack {id}\n"),
        Event::AckDone { id, done } => format!("{seq} ack-done {id} {done}\n"),
        Event::Fail { id } => format!("{seq} fail {id}\n"),
        Event::FailDone { id, done } => format!("{seq} fail-done {id} {done}\n"),
    }
}

/// Returns the events of a round. A child that was killed early may have left none.
pub(crate) fn read(folder: &Path, round: u64) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with(&format!("{round}-")) {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let parsed = parse(line).ok_or_else(|| format!("{}: {line:?}", path.display()))?;
            entries.push((round, parsed.0, parsed.1));
        }
    }
    Ok(entries)
}

fn parse(line: &str) -> Option<(u64, Event)> {
    let mut words = line.split_whitespace();
    let seq = words.next()?.parse().ok()?;
    let kind = words.next()?;
    let id: JobId = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let event = match kind {
        "once" => Event::Once { id, due: number()? },
        "put" => Event::Put { id, due: number()? },
        "put-done" => Event::PutDone { id, replaced: words.next()?.parse().ok() },
        "fired" => Event::Fired { id },
        "may-replace" => Event::MayReplace { id },
        "replace-over" => Event::ReplaceOver { id },
        "cancel" => Event::Cancel { id },
        "cancel-done" => Event::CancelDone { id, done: words.next()?.parse().ok()? },
        "move" => Event::Move { id, due: number()? },
        "move-done" => Event::MoveDone { id, done: words.next()?.parse().ok()? },
        "delivered" => Event::Delivered {
            id,
            begun: number()?,
            due: number()?,
            until: number()?,
            now: number()?,
        },
        "ack" => Event::Ack { id },
        "ack-done" => Event::AckDone { id, done: words.next()?.parse().ok()? },
        "fail" => Event::Fail { id },
        "fail-done" => Event::FailDone { id, done: words.next()?.parse().ok()? },
        _ => return None,
    };
    Some((seq, event))
}
