//! A backlog of due jobs for one target: delivered by the server, and by a worker over HTTP.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Pair;
use crate::meter::Meter;
use crate::server::http::Connection;
use crate::suite::Figures;

const CONCURRENCY: usize = 64;
/// Jobs that a worker reserves and acknowledges at a time: more would be answered in chunks.
const BATCH: usize = 50;

/// The server delivers.
pub(super) fn pushed(mut pair: Pair, jobs: usize) -> Result<Figures> {
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
    Ok(figures(jobs, report.span, cost, pair.server.resident()?))
}

/// A worker reserves jobs, posts them to the same target, and acknowledges them.
pub(super) fn worked(mut pair: Pair, jobs: usize) -> Result<Figures> {
    pair.put("orders", jobs)?;
    let (before, own) = (pair.server.processor_time()?, Meter::start());
    let (server, target) = (pair.connection.port(), pair.target.port);
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..CONCURRENCY).map(|_| scope.spawn(move || work(server, target))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
    })?;
    let of_server = pair.server.processor_time()?.saturating_sub(before);
    let cost = of_server + own.stop().processor;
    let report = pair.target.wait_for(jobs)?;
    Ok(figures(jobs, report.span, cost, pair.server.resident()?))
}

fn figures(jobs: usize, span_us: u64, cost: Duration, resident: u64) -> Figures {
    let jobs = jobs as f64;
    vec![
        ("deliveries", jobs / (span_us.max(1) as f64 / 1e6)),
        ("delivery-cpu", cost.as_secs_f64() * 1e6 / jobs),
        ("memory", resident as f64 / f64::from(1 << 20)),
    ]
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
