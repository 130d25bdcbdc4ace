//! The limit: the bytes that a cluster appends to its log, appended to a stream without Tickwheel.
//!
//! Callers hand in as many bytes as the log has for their jobs. One thread appends all that waits as
//! one message, after the last one: one message is on its way at a time, as in a log. Or each caller
//! appends its own messages, and those of all callers are on their way together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use async_nats::HeaderMap;
use bytes::BytesMut;
use serde_json::json;
use tickwheel_test_servers::nats::NatsCluster;

use super::jetstream::{JetStream, Message, Sender};
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::Job;

pub(super) const STREAM: &str = "direct";
const SUBJECT: &str = "direct";
/// Bytes of a message: what a server accepts by default, less a kilobyte for headers.
const MAX_MESSAGE_BYTES: usize = (1 << 20) - 1_024;
/// Callers whose bytes may wait.
const MAX_WAITING: usize = 1_024;

/// Bytes of the log for a job of this benchmark that was put. The workload `costs` checks it.
pub(super) const LOG_BYTES_PER_PUT: usize = 315;

/// How callers append.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// What waits is appended together.
    Grouped,
    /// Each caller appends.
    Each,
}

/// The bytes of a caller, and how it learns the outcome.
type Waiting = (BytesMut, SyncSender<Result<(), String>>);

pub(super) struct Direct {
    streams: JetStream,
    mode: Mode,
    /// Where callers hand their bytes in, if they are grouped.
    appender: Option<Mutex<SyncSender<Waiting>>>,
    appended: Arc<AtomicU64>,
    jobs: Arc<AtomicU64>,
}

impl Direct {
    pub(super) fn create(nats: &NatsCluster, mode: Mode) -> Result<Self> {
        let streams = JetStream::connect(nats)?;
        streams.create(STREAM, json!({ "subjects": [SUBJECT], "discard": "new" }))?;
        let appended = Arc::new(AtomicU64::new(0));
        let appender = if mode == Mode::Grouped {
            let (sender, receiver) = mpsc::sync_channel(MAX_WAITING);
            let (connection, appended) = (streams.at_leader(STREAM)?, Arc::clone(&appended));
            thread::spawn(move || append_all(connection, &receiver, &appended));
            Some(Mutex::new(sender))
        } else {
            None
        };
        Ok(Self { streams, mode, appender, appended, jobs: Arc::default() })
    }

    /// Returns a connection to the leader.
    pub(super) fn sender(&self) -> Result<Sender> {
        self.streams.at_leader(STREAM)
    }
}

/// Appends until no caller is left.
fn append_all(mut connection: Sender, waiting: &Receiver<Waiting>, appended: &AtomicU64) {
    let mut next = None;
    while let Some((mut bytes, caller)) = next.take().or_else(|| waiting.recv().ok()) {
        let mut callers = vec![caller];
        while let Ok((more, caller)) = waiting.try_recv() {
            if bytes.len() + more.len() > MAX_MESSAGE_BYTES {
                next = Some((more, caller));
                break;
            }
            bytes.unsplit(more);
            callers.push(caller);
        }
        let mut headers = HeaderMap::new();
        let last = appended.load(Ordering::SeqCst);
        headers.insert("Nats-Expected-Last-Sequence", last.to_string());
        let message = Message { subject: SUBJECT.to_owned(), headers, payload: bytes.freeze() };
        let outcome = connection.send(vec![message]).map_err(|error| format!("{error:#}"));
        appended.fetch_add(u64::from(outcome.is_ok()), Ordering::SeqCst);
        for caller in callers {
            // A caller that has ended because of an error of another one is not told.
            let _ = caller.send(outcome.clone());
        }
    }
}

impl Contender for Direct {
    type Caller = DirectCaller;

    fn caller(&self) -> Result<DirectCaller> {
        let way = match &self.appender {
            Some(appender) => {
                Way::Grouped(appender.lock().unwrap_or_else(PoisonError::into_inner).clone())
            }
            None => Way::Each(self.sender()?, Arc::clone(&self.appended)),
        };
        Ok(DirectCaller { way, jobs: Arc::clone(&self.jobs) })
    }

    /// Returns the jobs whose bytes were appended, if the stream has all messages.
    fn pending(&self) -> Result<u64> {
        let (messages, appended) =
            (self.streams.state(STREAM)?.messages, self.appended.load(Ordering::SeqCst));
        ensure!(messages == appended, "{appended} messages were appended, there are {messages}");
        ensure!(self.mode == Mode::Each || appended > 0, "nothing was appended");
        Ok(self.jobs.load(Ordering::SeqCst))
    }
}

pub(super) struct DirectCaller {
    way: Way,
    jobs: Arc<AtomicU64>,
}

enum Way {
    Grouped(SyncSender<Waiting>),
    Each(Sender, Arc<AtomicU64>),
}

/// Returns as many bytes as a log has for jobs.
fn bytes_of(jobs: &[Job]) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(jobs.len() * LOG_BYTES_PER_PUT);
    for (number, job) in (1..).zip(jobs) {
        bytes.extend_from_slice(&job.payload);
        bytes.resize(number * LOG_BYTES_PER_PUT, b'.');
    }
    bytes
}

impl Caller for DirectCaller {
    type Ticket = ();

    fn put(&mut self, jobs: Vec<Job>) -> Result<()> {
        let bytes = bytes_of(&jobs);
        match &mut self.way {
            Way::Grouped(appender) => {
                let (sender, outcome) = mpsc::sync_channel(1);
                appender.send((bytes, sender)).ok().context("the appender has ended")?;
                outcome.recv()?.map_err(anyhow::Error::msg)?;
            }
            Way::Each(sender, appended) => {
                let (headers, payload) = (HeaderMap::new(), bytes.freeze());
                sender.send(vec![Message { subject: SUBJECT.to_owned(), headers, payload }])?;
                appended.fetch_add(1, Ordering::SeqCst);
            }
        }
        self.jobs.fetch_add(jobs.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    fn reserve(&mut self, _: usize) -> Result<Vec<((), Vec<u8>)>> {
        bail!("a stream alone has no due jobs")
    }

    fn ack(&mut self, _: Vec<()>) -> Result<()> {
        bail!("a stream alone has no due jobs")
    }

    fn cancel(&mut self, _: &str) -> Result<()> {
        bail!("a stream alone has no keys")
    }
}
