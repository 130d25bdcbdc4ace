//! Many targets, each with a rate of its own and more jobs than it may get.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::Pair;
use crate::suite::Figures;

/// Requests of each target in any second.
pub(super) const STARTS: usize = 10;
/// Jobs of each target for so many seconds besides those that are watched.
const SPARE_SECONDS: usize = 15;

pub(super) fn measure(mut pair: Pair, targets: usize, seconds: u64) -> Result<Figures> {
    let port = pair.target.port;
    let name = |number: usize| format!("partner-{number}");
    for number in 0..targets {
        let url = format!("http://127.0.0.1:{port}/t/{number}");
        let pacing = json!({ "starts": STARTS, "window": "1s" });
        let path = format!("/v1/targets/{}", name(number));
        pair.ask("PUT", &path, &json!({ "url": url, "pacing": pacing }))?;
        pair.ask("POST", &format!("{path}/pause"), &Value::Null)?;
        let settings = json!({ "target": name(number) });
        pair.ask("PATCH", &format!("/v1/queues/orders-{number}/settings"), &settings)?;
        // More than is watched, so that no target runs out of jobs: the first one begins while the
        // others are still resumed.
        pair.put(&format!("orders-{number}"), STARTS * (seconds as usize + SPARE_SECONDS))?;
    }
    for number in 0..targets {
        pair.ask("POST", &format!("/v1/targets/{}/resume", name(number)), &Value::Null)?;
    }
    // All of them run: the first second is not measured.
    pair.target.wait_for(targets)?;
    let before = pair.target.report()?;
    let began = std::time::Instant::now();
    thread::sleep(Duration::from_secs(seconds - 1));
    let after = pair.target.report()?;
    let allowed = (targets * STARTS) as f64 * began.elapsed().as_secs_f64();
    let used = 100.0 * (after.requests - before.requests) as f64 / allowed;
    Ok(vec![("densest", after.densest as f64), ("used", used)])
}
