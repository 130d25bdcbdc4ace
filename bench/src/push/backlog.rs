//! A backlog of due jobs for one target: delivered by the server, and by a worker over HTTP.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::Pair;
use crate::server::http::Connection;

const CONCURRENCY: usize = 64;
/// Jobs that a worker reserves and acknowledges at a time: as many as an answer with a length has.
const BATCH: usize = 50;

/// What deliveries took.
pub(super) struct Outcome {
    /// Deliveries in a second.
    pub(super) rate: f64,
    /// Processor time of one, of all processes but the target.
    pub(super) cost: Duration,
    /// The resident memory of the server at the end, in bytes.
    pub(super) resident: u64,
}

/// The server delivers.
pub(super) fn pushed(binary: &Path, folder: &Path, jobs: usize) -> Result<Outcome> {
    let mut pair = Pair::start(binary, folder)?;
    let url = format!("http://127.0.0.1:{}/", pair.target.port);
    let pacing = json!({ "concurrency": CONCURRENCY });
    pair.ask("PUT", "/v1/targets/partner", &json!({ "url": url, "pacing": pacing }))?;
    pair.ask("POST", "/v1/targets/partner/pause", &Value::Null)?;
    pair.ask("PATCH", "/v1/queues/orders/settings", &json!({ "target": "partner" }))?;
    pair.put("orders", jobs)?;
    let before = pair.server.processor_time()?;
    pair.ask("POST", "/v1/targets/partner/resume", &Value::Null)?;
    let report = pair.target.wait_for(jobs)?;
    let cost = pair.server.processor_time()?.saturating_sub(before);
    Ok(outcome(jobs, report.span, cost, pair.server.resident()?))
}

/// A worker reserves jobs, posts them to the same target, and acknowledges them.
pub(super) fn worked(binary: &Path, folder: &Path, jobs: usize) -> Result<Outcome> {
    let mut pair = Pair::start(binary, folder)?;
    pair.put("orders", jobs)?;
    let (before, own) = (pair.server.processor_time()?, own_time());
    let (server, target) = (pair.connection.port(), pair.target.port);
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..CONCURRENCY).map(|_| scope.spawn(move || work(server, target))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
    })?;
    let of_server = pair.server.processor_time()?.saturating_sub(before);
    let cost = of_server + own_time().saturating_sub(own);
    let report = pair.target.wait_for(jobs)?;
    Ok(outcome(jobs, report.span, cost, pair.server.resident()?))
}

fn outcome(jobs: usize, span: u64, cost: Duration, resident: u64) -> Outcome {
    let rate = jobs as f64 / (span.max(1) as f64 / 1e6);
    Outcome { rate, cost: cost / jobs as u32, resident }
}

/// Processor time of this process.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Works until no job is left.
fn work(server: u16, target: u16) -> Result<()> {
    let (mut server, mut target) = (Connection::open(server)?, Connection::open(target)?);
    let reserve = json!({ "limit": BATCH, "lease": "10m" }).to_string();
    loop {
        let answer = server.ask("POST", "/v1/queues/orders/reserve", reserve.as_bytes())?;
        let answer: Value = serde_json::from_slice(answer.expect(200)?.body)?;
        let deliveries = answer["deliveries"].as_array().context("deliveries")?;
        if deliveries.is_empty() {
            return Ok(());
        }
        let mut items = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let text = delivery["job"]["text"].as_str().context("a text")?;
            target.ask("POST", "/", text.as_bytes())?.expect(200)?;
            items.push(json!({ "id": delivery["job"]["id"], "token": delivery["token"] }));
        }
        let acks = json!({ "items": items }).to_string();
        server.ask("POST", "/v1/jobs/batch/ack", acks.as_bytes())?.expect(200)?;
    }
}
