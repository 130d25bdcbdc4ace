//! A client of the service: JSON over keep-alive connections.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::http::Connection;
use crate::queue::contender::{Caller, Contender, LEASE, PATIENCE, Pipelined};
use crate::queue::job::Job;

const QUEUE: &str = "bench";
const PUT_ALL: &str = "/v1/jobs/batch";
const ACK_ALL: &str = "/v1/jobs/batch/ack";

/// The service, on one port or on those of several nodes.
pub(crate) struct Service {
    ports: Vec<u16>,
    queues: usize,
    callers: AtomicUsize,
}

impl Service {
    /// Connects to the service on a port.
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let service = Self::of_nodes(vec![port], 1);
        service.pending()?;
        Ok(service)
    }

    /// Returns a service whose callers use these nodes in turn, and this many queues in turn.
    pub(crate) fn of_nodes(ports: Vec<u16>, queues: usize) -> Self {
        Self { ports, queues, callers: AtomicUsize::new(0) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }
}

impl Contender for Service {
    type Caller = ServiceCaller;

    fn caller(&self) -> Result<ServiceCaller> {
        let number = self.callers.fetch_add(1, Ordering::Relaxed);
        let port = self.ports[number % self.ports.len()];
        let queue = match number % self.queues {
            0 => QUEUE.to_owned(),
            other => format!("{QUEUE}-{other}"),
        };
        ServiceCaller::connect(port, queue)
    }

    fn pending(&self) -> Result<u64> {
        #[derive(Deserialize)]
        struct Stats {
            pending: u64,
        }
        let mut connection = Connection::open(self.ports[0])?;
        let answer = connection.ask("GET", "/v1/stats", b"")?.expect(200)?;
        Ok(serde_json::from_slice::<Stats>(answer.body)?.pending)
    }
}

pub(crate) struct ServiceCaller {
    connection: Connection,
    queue: String,
    /// The paths of requests about the queue.
    put: String,
    reserve: String,
    /// The body of the next request.
    body: Vec<u8>,
}

/// Identifies a delivery in an acknowledgement.
pub(crate) struct Ticket {
    id: String,
    token: String,
}

#[derive(Deserialize)]
struct Deliveries<'a> {
    #[serde(borrow)]
    deliveries: Vec<Delivery<'a>>,
}

#[derive(Deserialize)]
struct Delivery<'a> {
    #[serde(borrow)]
    job: Delivered<'a>,
    token: String,
}

#[derive(Deserialize)]
struct Delivered<'a> {
    id: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl ServiceCaller {
    fn connect(port: u16, queue: String) -> Result<Self> {
        let [put, reserve] = ["jobs", "reserve"].map(|what| format!("/v1/queues/{queue}/{what}"));
        let connection = Connection::open(port)?;
        Ok(Self { connection, queue, put, reserve, body: Vec::new() })
    }

    /// Sends a batch. An error of any item is an error.
    fn ask_for_all(&mut self, path: &str) -> Result<()> {
        let answer = self.connection.ask("POST", path, &self.body)?.expect(200)?;
        let text = std::str::from_utf8(answer.body)?;
        ensure!(!text.contains("\"error\""), "the service refused some: {text}");
        Ok(())
    }
}

/// Writes a job as JSON, with its queue unless the path names it. Queues and keys have no characters
/// that JSON would escape.
fn describe(body: &mut Vec<u8>, job: &Job, queue: Option<&str>) -> Result<()> {
    body.push(b'{');
    if let Some(queue) = queue {
        write!(body, "\"queue\":\"{queue}\",")?;
    }
    if let Some(key) = &job.key {
        write!(body, "\"key\":\"{key}\",")?;
    }
    write!(body, "\"due\":{},\"payload\":", job.due)?;
    body.extend_from_slice(&job.payload);
    body.push(b'}');
    Ok(())
}

impl Pipelined for ServiceCaller {
    fn put_each(&mut self, jobs: Vec<Job>) -> Result<()> {
        let describe = |job: &Job| {
            let mut body = Vec::new();
            describe(&mut body, job, None).map(|()| body)
        };
        let bodies: Vec<_> = jobs.iter().map(describe).collect::<Result<_>>()?;
        self.connection.post_each(&self.put, bodies.iter().map(Vec::as_slice), 201)
    }
}

impl Caller for ServiceCaller {
    type Ticket = Ticket;

    fn put(&mut self, jobs: Vec<Job>) -> Result<()> {
        self.body.clear();
        if let [job] = &jobs[..] {
            describe(&mut self.body, job, None)?;
            self.connection.ask("POST", &self.put, &self.body)?.expect(201)?;
            return Ok(());
        }
        self.body.extend_from_slice(b"{\"jobs\":[");
        for (place, job) in jobs.iter().enumerate() {
            if place > 0 {
                self.body.push(b',');
            }
            describe(&mut self.body, job, Some(&self.queue))?;
        }
        self.body.extend_from_slice(b"]}");
        self.ask_for_all(PUT_ALL)
    }

    fn reserve(&mut self, most: usize) -> Result<Vec<(Ticket, Vec<u8>)>> {
        let (lease, wait) = (LEASE.as_millis(), PATIENCE.as_millis());
        self.body.clear();
        write!(self.body, "{{\"limit\":{most},\"lease\":{lease},\"wait\":{wait}}}")?;
        let answer = self.connection.ask("POST", &self.reserve, &self.body)?.expect(200)?;
        let found: Deliveries<'_> =
            serde_json::from_slice(answer.body).context("a delivery cannot be read")?;
        let pair = |Delivery { job: Delivered { id, payload }, token }| {
            (Ticket { id, token }, payload.get().as_bytes().to_owned())
        };
        Ok(found.deliveries.into_iter().map(pair).collect())
    }

    fn ack(&mut self, tickets: Vec<Ticket>) -> Result<()> {
        self.body.clear();
        self.body.extend_from_slice(b"{\"items\":[");
        for (place, Ticket { id, token }) in tickets.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(self.body, "{comma}{{\"id\":\"{id}\",\"token\":\"{token}\"}}")?;
        }
        self.body.extend_from_slice(b"]}");
        self.ask_for_all(ACK_ALL)
    }

    fn cancel(&mut self, key: &str) -> Result<()> {
        let path = format!("/v1/queues/{}/keys/{key}", self.queue);
        self.connection.ask("DELETE", &path, b"")?.expect(200).map(drop)
    }
}
