//! Many targets, each with a rate of its own and more jobs than it may get.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Pair, Scale};

/// Requests of each target in any second.
pub(super) const STARTS: usize = 10;

pub(super) struct Outcome {
    /// The largest number of requests that one target got in any second.
    pub(super) densest: usize,
    /// The part of all allowed requests that were sent.
    pub(super) used: f64,
}

pub(super) fn measure(binary: &Path, folder: &Path, scale: &Scale) -> Result<Outcome> {
    let mut pair = Pair::start(binary, folder)?;
    let port = pair.target.port;
    let name = |number: usize| format!("partner-{number}");
    for number in 0..scale.targets {
        let url = format!("http://127.0.0.1:{port}/t/{number}");
        let pacing = json!({ "starts": STARTS, "window": "1s" });
        let path = format!("/v1/targets/{}", name(number));
        pair.ask("PUT", &path, &json!({ "url": url, "pacing": pacing }))?;
        pair.ask("POST", &format!("{path}/pause"), &Value::Null)?;
        let settings = json!({ "target": name(number) });
        pair.ask("PATCH", &format!("/v1/queues/orders-{number}/settings"), &settings)?;
        // A second more than is watched, so that no target runs out of jobs.
        pair.put(&format!("orders-{number}"), STARTS * (scale.seconds as usize + 1))?;
    }
    for number in 0..scale.targets {
        pair.ask("POST", &format!("/v1/targets/{}/resume", name(number)), &Value::Null)?;
    }
    // All of them run: the first second is not measured.
    pair.target.wait_for(scale.targets)?;
    let before = pair.target.report()?;
    let began = std::time::Instant::now();
    thread::sleep(Duration::from_secs(scale.seconds - 1));
    let after = pair.target.report()?;
    let allowed = (scale.targets * STARTS) as f64 * began.elapsed().as_secs_f64();
    let used = (after.requests - before.requests) as f64 / allowed;
    Ok(Outcome { densest: after.densest, used })
}
