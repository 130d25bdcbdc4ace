//! An example with curl for every operation, shown on the page `/docs` and as `x-codeSamples` in
//! the `OpenAPI` document, which has the body as an `example` as well. A test sends each of them to a
//! service.

use serde_json::{Value, json};

/// The job, key, lease token and names that the examples use.
pub(crate) const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
pub(crate) const TOKEN: &str = "5f0c1d9e7a3b2468";

/// The operation, the path with its query, and the body; none if it is empty.
pub(crate) const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "putJob",
        "/v1/queues/orders/jobs",
        r#"{"payload": {"order": 42}, "delay": "30m", "key": "order-42"}"#,
    ),
    ("listJobs", "/v1/queues/orders/jobs?state=dead&limit=10", ""),
    ("getJob", "/v1/jobs/{id}", ""),
    ("findIds", "/v1/ids/01890a5dac96..9a8057", ""),
    ("cancelJob", "/v1/jobs/{id}", ""),
    ("getJobByKey", "/v1/queues/orders/keys/order-42", ""),
    ("cancelJobByKey", "/v1/queues/orders/keys/order-42", ""),
    ("rescheduleJob", "/v1/jobs/{id}/reschedule", r#"{"delay": "10m"}"#),
    ("rescheduleJobByKey", "/v1/queues/orders/keys/order-42/reschedule", r#"{"delay": "10m"}"#),
    ("reserveJobs", "/v1/queues/orders/reserve", r#"{"wait": "20s", "lease": "1m"}"#),
    ("ackJob", "/v1/jobs/{id}/ack", r#"{"token": "{token}"}"#),
    ("failJob", "/v1/jobs/{id}/fail", r#"{"token": "{token}", "error": "no such address"}"#),
    ("extendLease", "/v1/jobs/{id}/extend", r#"{"token": "{token}", "lease": "5m"}"#),
    ("releaseJob", "/v1/jobs/{id}/release", r#"{"token": "{token}"}"#),
    ("kickJob", "/v1/jobs/{id}/kick", ""),
    (
        "putJobs",
        "/v1/jobs/batch",
        r#"{"items": [{"queue": "mail", "text": "hi"}, {"queue": "mail", "text": "ho"}]}"#,
    ),
    ("ackJobs", "/v1/jobs/batch/ack", r#"{"items": [{"id": "{id}", "token": "{token}"}]}"#),
    ("failJobs", "/v1/jobs/batch/fail", r#"{"items": [{"id": "{id}", "token": "{token}"}]}"#),
    (
        "extendLeases",
        "/v1/jobs/batch/extend",
        r#"{"items": [{"id": "{id}", "token": "{token}", "lease": "5m"}]}"#,
    ),
    ("releaseJobs", "/v1/jobs/batch/release", r#"{"items": [{"id": "{id}", "token": "{token}"}]}"#),
    ("cancelJobs", "/v1/jobs/batch/cancel", r#"{"items": [{"id": "{id}"}]}"#),
    (
        "rescheduleJobs",
        "/v1/jobs/batch/reschedule",
        r#"{"items": [{"id": "{id}", "delay": "1h"}]}"#,
    ),
    ("kickJobs", "/v1/jobs/batch/kick", r#"{"items": [{"id": "{id}"}]}"#),
    (
        "importJobs",
        "/v1/jobs/batch/import",
        r#"{"items": [{"put": {"id": "{id}", "queue": "mail", "text": "hi"}, "created": 1700000000000}]}"#,
    ),
    ("listAllErrors", "/v1/errors", ""),
    ("listErrors", "/v1/queues/orders/errors?limit=10", ""),
    (
        "changeMatchingJobs",
        "/v1/queues/orders/bulk",
        r#"{"action": "retry", "filter": {"error": "refused"}, "dry_run": true}"#,
    ),
    ("listQueues", "/v1/queues", ""),
    ("getQueue", "/v1/queues/orders", ""),
    ("removeQueue", "/v1/queues/orders?force=true", ""),
    ("putSettings", "/v1/queues/orders/settings", r#"{"lease": "2m", "max_attempts": 5}"#),
    (
        "patchSettings",
        "/v1/queues/partner/settings",
        r#"{"pacing": {"starts": 100, "window": "1s", "concurrency": 5}}"#,
    ),
    ("listGroups", "/v1/queues/partner/groups?prefix=eu-", ""),
    ("patchGroup", "/v1/queues/partner/groups/acme", r#"{"pacing": {"concurrency": 2}}"#),
    ("pauseQueue", "/v1/queues/orders/pause", ""),
    ("resumeQueue", "/v1/queues/orders/resume", ""),
    ("kickQueue", "/v1/queues/orders/kick", r#"{"limit": 100}"#),
    (
        "removeFinishedJobs",
        "/v1/queues/orders/remove-finished",
        r#"{"state": "dead", "older_than": "7d"}"#,
    ),
    ("cancelWaitingJobs", "/v1/queues/orders/cancel-waiting", ""),
    ("listSchedules", "/v1/schedules", ""),
    (
        "putSchedule",
        "/v1/schedules/report",
        r#"{"queue": "mail", "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "text": "daily"}"#,
    ),
    ("getSchedule", "/v1/schedules/report", ""),
    ("deleteSchedule", "/v1/schedules/report", ""),
    ("nextRuns", "/v1/schedules/report/next?n=3", ""),
    ("pauseSchedule", "/v1/schedules/report/pause", ""),
    ("resumeSchedule", "/v1/schedules/report/resume", ""),
    ("listTargets", "/v1/targets", ""),
    (
        "putTarget",
        "/v1/targets/partner",
        r#"{"url": "https://partner.example/{key}", "pacing": {"starts": 100, "window": "1s"}}"#,
    ),
    ("patchTarget", "/v1/targets/partner", r#"{"timeout": "30s"}"#),
    ("getTarget", "/v1/targets/partner", ""),
    ("rotateTarget", "/v1/targets/partner/rotate", r#"{"keep_old": "1h"}"#),
    ("pauseTarget", "/v1/targets/partner/pause", ""),
    ("resumeTarget", "/v1/targets/partner/resume", ""),
    ("removeTarget", "/v1/targets/partner", ""),
    ("followTargets", "/v1/target-events", ""),
    ("testTarget", "/v1/targets/partner/test", ""),
    ("followAll", "/v1/events", ""),
    ("followQueue", "/v1/queues/orders/events", ""),
    ("getClock", "/v1/clock", ""),
    ("advanceClock", "/v1/clock/advance", r#"{"by": "30m"}"#),
    ("getCluster", "/v1/cluster", ""),
    ("movePartition", "/v1/cluster/move", r#"{"partition": 0, "to": "node-2"}"#),
    ("drainNode", "/v1/cluster/drain", r#"{"node": "node-2"}"#),
    ("recoverPartition", "/v1/cluster/recover", r#"{"partition": 0, "from": "node-2"}"#),
    ("getOverview", "/v1/overview", ""),
    ("getHistory", "/v1/history?window=24h&queue=orders", ""),
    ("getWheel", "/v1/wheel", ""),
    ("followLive", "/v1/live", ""),
    ("getStats", "/v1/stats", ""),
    ("backup", "/v1/backup", ""),
    ("healthz", "/healthz", ""),
    ("readyz", "/readyz", ""),
    ("metrics", "/metrics", ""),
    ("openapi", "/openapi.json", ""),
    ("docs", "/docs", ""),
    ("explainProblem", "/problems/stale-lease", ""),
];

/// Returns the command of an example.
fn curl(method: &str, path: &str, body: &str) -> String {
    let stream = if ["events", "/live"].iter().any(|end| path.ends_with(end)) { "N" } else { "" };
    let file = if path.ends_with("/backup") { " -fo tickwheel.backup" } else { "" };
    let method = match method {
        "get" => String::new(),
        // curl uses POST by itself if there is a body.
        "post" if !body.is_empty() => String::new(),
        _ => format!(" -X {}", method.to_uppercase()),
    };
    let place = if path.contains(['?', '&']) {
        format!("'localhost:7300{path}'")
    } else {
        format!("localhost:7300{path}")
    };
    let data = if body.is_empty() {
        String::new()
    } else {
        format!(" \\\n  -H 'content-type: application/json' -d '{body}'")
    };
    format!("curl -s{stream}{file}{method} {place}{data}")
}

/// Adds its example to an operation.
pub(crate) fn add(method: &str, operation: &mut Value) {
    let id = operation["operationId"].as_str().unwrap_or_default();
    let Some((_, path, body)) = EXAMPLES.iter().find(|(name, ..)| *name == id) else { return };
    let fill = |text: &str| text.replace("{id}", ID).replace("{token}", TOKEN);
    let source = curl(method, &fill(path), &fill(body));
    operation["x-codeSamples"] = json!([{"lang": "Shell", "label": "curl", "source": source}]);
    let content = operation.pointer_mut("/requestBody/content/application~1json");
    if let (Some(content), Ok(body)) = (content, serde_json::from_str::<Value>(&fill(body))) {
        content["example"] = body;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_no_more_than_it_must() {
        assert_eq!(curl("get", "/v1/queues", ""), "curl -s localhost:7300/v1/queues");
        assert_eq!(curl("get", "/v1/x?a=1&b", ""), "curl -s 'localhost:7300/v1/x?a=1&b'");
        assert_eq!(curl("delete", "/v1/x", ""), "curl -s -X DELETE localhost:7300/v1/x");
        assert_eq!(curl("post", "/v1/x", ""), "curl -s -X POST localhost:7300/v1/x");
        let put = curl("post", "/v1/x", "{}");
        assert_eq!(
            put,
            "curl -s localhost:7300/v1/x \\\n  -H 'content-type: application/json' -d '{}'"
        );
        assert!(curl("get", "/v1/events", "").starts_with("curl -sN "));
    }
}
