//! The Rust client: tasks that put single jobs, which it sends together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::value::RawValue;
use tickwheel_client::{Client, NewJob};
use tokio::runtime::Runtime;

use super::ours::Service;
use crate::queue::job::Job;
use crate::queue::measure::put::ensure_pending;
use crate::suite::Figures;

/// Measures how many jobs a second 8 and 64 callers put with one client.
pub(super) fn measure(service: &Service, time: Duration) -> Result<Figures> {
    let runtime = Runtime::new()?;
    let client = Client::new(service.url())?;
    let (mut all, mut figures) = (0, Vec::new());
    for (callers, figure) in [(8, "put8"), (64, "put64")] {
        let (count, rate) = runtime.block_on(rate(&client, time, callers))?;
        all += count;
        figures.push((figure, rate));
    }
    ensure_pending(service, all)?;
    Ok(figures)
}

/// Lets callers put jobs for a while. Returns the number of jobs, and jobs a second.
async fn rate(client: &Client, time: Duration, callers: u64) -> Result<(u64, f64)> {
    let began = Instant::now();
    let start = Arc::new(tokio::sync::Barrier::new(callers as usize));
    let tasks = (0..callers).map(|caller| {
        let (client, start) = (client.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            let mut count = 0;
            while began.elapsed() < time {
                client.put(job(caller << 32 | count)?).await?;
                count += 1;
            }
            anyhow::Ok(count)
        })
    });
    let mut count = 0;
    for task in tasks.collect::<Vec<_>>() {
        count += task.await.context("a caller panicked")??;
    }
    Ok((count, count as f64 / began.elapsed().as_secs_f64()))
}

fn job(number: u64) -> Result<NewJob> {
    let Job { payload, due, .. } = Job::far(number);
    let payload: Box<RawValue> = serde_json::from_slice(&payload)?;
    let due = std::time::UNIX_EPOCH + Duration::from_millis(due);
    Ok(NewJob::json("bench", &payload)?.at(due))
}
