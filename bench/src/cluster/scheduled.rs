//! NATS scheduled messages: the server publishes a message to another subject when it is due.
//!
//! A job is a message with a subject of its own and the header `Nats-Schedule`. Workers pull due
//! messages from one consumer. The stream is a work queue, so an acknowledged message is removed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_nats::HeaderMap;
use bytes::Bytes;
use futures_lite::future;
use jiff::Timestamp;
use serde_json::json;
use tickwheel_test_servers::nats::NatsCluster;
use tokio::time::timeout;

use super::jetstream::{Inbox, JetStream, Message, Sender};
use crate::queue::contender::{Caller, Contender, LEASE, PATIENCE};
use crate::queue::job::Job;

const STREAM: &str = "jobs";
const DUE: &str = "due";
const CONSUMER: &str = "workers";
/// How long the server waits before it gives a pull up.
const PULL_TIME: Duration = Duration::from_secs(30);
/// How long acknowledged messages may take to be removed.
const REMOVAL: Duration = Duration::from_secs(5);

pub(super) struct Scheduled {
    streams: JetStream,
    callers: AtomicU64,
}

impl Scheduled {
    pub(super) fn create(nats: &NatsCluster) -> Result<Self> {
        let streams = JetStream::connect(nats)?;
        let settings = json!({
            "subjects": ["schedule.>", DUE], "retention": "workqueue",
            "allow_msg_schedules": true, "allow_direct": true,
        });
        streams.create(STREAM, settings)?;
        let consumer = json!({
            "durable_name": CONSUMER, "ack_policy": "explicit", "filter_subject": DUE,
            "ack_wait": LEASE.as_nanos() as u64, "max_ack_pending": -1,
        });
        streams.create_consumer(STREAM, CONSUMER, &consumer)?;
        Ok(Self { streams, callers: AtomicU64::new(0) })
    }
}

impl Contender for Scheduled {
    type Caller = ScheduledCaller;

    fn caller(&self) -> Result<ScheduledCaller> {
        let sender = self.streams.at_leader(STREAM)?;
        let due = sender.handle.block_on(Inbox::open(&sender.handle, &sender.client))?;
        let number = self.callers.fetch_add(1, Ordering::Relaxed);
        Ok(ScheduledCaller { sender, due, pulled: 0, number, put: 0 })
    }

    /// Returns the messages of the stream, scheduled and due.
    fn pending(&self) -> Result<u64> {
        let asked = Instant::now();
        loop {
            let messages = self.streams.state(STREAM)?.messages;
            // Replicas remove what was acknowledged a little later.
            if messages == 0 || asked.elapsed() > REMOVAL {
                return Ok(messages);
            }
            sleep(Duration::from_millis(50));
        }
    }
}

pub(super) struct ScheduledCaller {
    sender: Sender,
    /// Where due messages arrive.
    due: Inbox,
    /// Messages that were asked for and have not arrived.
    pulled: usize,
    number: u64,
    put: u64,
}

impl ScheduledCaller {
    /// Asks for messages, unless some of an earlier pull are still to come.
    async fn pull(&mut self, most: usize) -> Result<()> {
        if self.pulled == 0 {
            let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}");
            let body = json!({ "batch": most, "expires": PULL_TIME.as_nanos() as u64 });
            let (client, inbox) = (&self.sender.client, self.due.subject.clone());
            client.publish_with_reply(subject, inbox, body.to_string().into()).await?;
            self.pulled = most;
        }
        Ok(())
    }

    /// Returns the subject that acknowledges a message, and its payload; `None` if a pull has ended.
    fn accept(&mut self, message: async_nats::Message) -> Result<Option<(String, Vec<u8>)>> {
        if let Some(status) = message.status {
            // 408: nothing was due for a while.
            anyhow::ensure!(status.as_u16() == 408, "a pull was answered by {status}");
            self.pulled = 0;
            return Ok(None);
        }
        self.pulled = self.pulled.saturating_sub(1);
        let ticket = message.reply.context("a message without a subject for its answer")?;
        Ok(Some((ticket.to_string(), message.payload.to_vec())))
    }
}

impl Caller for ScheduledCaller {
    type Ticket = String;

    fn put(&mut self, jobs: Vec<Job>) -> Result<()> {
        let mut messages = Vec::with_capacity(jobs.len());
        for job in jobs {
            let due = Timestamp::from_millisecond(job.due.cast_signed())?;
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Schedule", format!("@at {due}"));
            headers.insert("Nats-Schedule-Target", DUE);
            let subject = format!("schedule.{}-{}", self.number, self.put);
            self.put += 1;
            messages.push(Message { subject, headers, payload: job.payload.into() });
        }
        self.sender.send(messages)
    }

    /// Waits for the first message, and takes those that have arrived with it.
    fn reserve(&mut self, most: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let handle = self.sender.handle.clone();
        handle.block_on(async {
            self.pull(most).await?;
            let mut found = Vec::new();
            let Ok(first) = timeout(PATIENCE, self.due.next()).await else { return Ok(found) };
            found.extend(self.accept(first?)?);
            while found.len() < most && self.pulled > 0 {
                let Some(next) = future::poll_once(self.due.next()).await else { break };
                found.extend(self.accept(next?)?);
            }
            Ok(found)
        })
    }

    fn ack(&mut self, tickets: Vec<String>) -> Result<()> {
        let message = |subject| Message {
            subject,
            headers: HeaderMap::new(),
            payload: Bytes::from_static(b"+ACK"),
        };
        self.sender.send(tickets.into_iter().map(message).collect())
    }

    fn cancel(&mut self, _: &str) -> Result<()> {
        bail!("the benchmark of clusters cancels nothing")
    }
}
