//! The service as its clients see it: JSON over connections that are kept.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::http::Connection;
use crate::queue::contender::{Caller, Contender, LEASE, PATIENCE, Pipelined};
use crate::queue::job::Job;

const QUEUE: &str = "bench";
const PUT: &str = "/v1/queues/bench/jobs";
const PUT_ALL: &str = "/v1/jobs/batch";
const RESERVE: &str = "/v1/queues/bench/reserve";
const ACK_ALL: &str = "/v1/jobs/batch/ack";

/// The service on a port.
pub(super) struct Service {
    port: u16,
}

impl Service {
    /// Connects to the service on a port.
    pub(super) fn connect(port: u16) -> Result<Self> {
        let service = Self { port };
        service.pending()?;
        Ok(service)
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Contender for Service {
    type Caller = ServiceCaller;

    fn caller(&self) -> Result<ServiceCaller> {
        Ok(ServiceCaller { connection: Connection::open(self.port)?, body: Vec::new() })
    }

    fn pending(&self) -> Result<u64> {
        #[derive(Deserialize)]
        struct Stats {
            pending: u64,
        }
        let mut connection = Connection::open(self.port)?;
        let answer = connection.ask("GET", "/v1/stats", b"")?.expect(200)?;
        Ok(serde_json::from_slice::<Stats>(answer.body)?.pending)
    }
}

pub(super) struct ServiceCaller {
    connection: Connection,
    /// The body of the next request.
    body: Vec<u8>,
}

/// Acknowledges a job.
pub(super) struct Ticket {
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
    /// Sends a batch. An error of any item is an error.
    fn ask_for_all(&mut self, path: &str) -> Result<()> {
        let answer = self.connection.ask("POST", path, &self.body)?.expect(200)?;
        let text = std::str::from_utf8(answer.body)?;
        ensure!(!text.contains("\"error\""), "the service refused some: {text}");
        Ok(())
    }
}

/// Writes a job as JSON. Its key has no characters that JSON would escape.
fn describe(body: &mut Vec<u8>, job: &Job, is_single: bool) -> Result<()> {
    body.push(b'{');
    if !is_single {
        write!(body, "\"queue\":\"{QUEUE}\",")?;
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
            describe(&mut body, job, true).map(|()| body)
        };
        let bodies: Vec<_> = jobs.iter().map(describe).collect::<Result<_>>()?;
        self.connection.post_each(PUT, bodies.iter().map(Vec::as_slice), 201)
    }
}

impl Caller for ServiceCaller {
    type Ticket = Ticket;

    fn put(&mut self, jobs: Vec<Job>) -> Result<()> {
        self.body.clear();
        if let [job] = &jobs[..] {
            describe(&mut self.body, job, true)?;
            self.connection.ask("POST", PUT, &self.body)?.expect(201)?;
            return Ok(());
        }
        self.body.extend_from_slice(b"{\"jobs\":[");
        for (place, job) in jobs.iter().enumerate() {
            if place > 0 {
                self.body.push(b',');
            }
            describe(&mut self.body, job, false)?;
        }
        self.body.extend_from_slice(b"]}");
        self.ask_for_all(PUT_ALL)
    }

    fn reserve(&mut self, most: usize) -> Result<Vec<(Ticket, Vec<u8>)>> {
        let (lease, wait) = (LEASE.as_millis(), PATIENCE.as_millis());
        self.body.clear();
        write!(self.body, "{{\"limit\":{most},\"lease\":{lease},\"wait\":{wait}}}")?;
        let answer = self.connection.ask("POST", RESERVE, &self.body)?.expect(200)?;
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
        let path = format!("/v1/queues/{QUEUE}/keys/{key}");
        self.connection.ask("DELETE", &path, b"")?.expect(200).map(drop)
    }
}
