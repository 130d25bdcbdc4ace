//! The manual clock: only requests advance the time.

use serde_json::json;
use tickwheel_server::clock::ClockError;
use tickwheel_server::{Server, StartError};

use crate::client::{Request, Service, config};

async fn start() -> Service {
    Service::with(|config| config.manual_clock = true).await
}

async fn advance(service: &Service, by: &str) -> u64 {
    let answer = service.post("/v1/clock/advance", json!({"by": by})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["now_ms"].as_u64().unwrap()
}

async fn ready(service: &Service, queue: &str) -> u64 {
    service.get(&format!("/v1/queues/{queue}")).await.json()["jobs"]["ready"].as_u64().unwrap()
}

#[tokio::test]
async fn a_timeout_of_half_an_hour_takes_no_time() {
    let service = start().await;
    let clock = service.get("/v1/clock").await.json();
    assert_eq!(clock["manual"], true);
    let job = json!({"text": "close", "delay": "30m"});
    let due = service.post("/v1/queues/q/jobs", job).await.json()["due_ms"].as_u64().unwrap();
    let start = clock["now_ms"].as_u64().unwrap();
    assert_eq!(due, start + 1_800_000);

    assert_eq!(advance(&service, "29m").await, start + 29 * 60_000);
    assert_eq!(ready(&service, "q").await, 0);
    advance(&service, "1m").await;
    assert_eq!(ready(&service, "q").await, 1);
    let (first, _) = service.reserve_one("q").await;
    // The default lease of 30 s expires, and the job is retried after a second or a bit more.
    advance(&service, "1m").await;
    assert_eq!(service.reserve_one("q").await.0, first);
    service.stop().await;
}

#[tokio::test]
async fn a_job_without_a_delay_is_ready_while_time_stands_still() {
    let service = start().await;
    service.post("/v1/queues/q/jobs", json!({"text": "now"})).await;
    assert_eq!(ready(&service, "q").await, 1);
    service.reserve_one("q").await;
    service.stop().await;
}

#[tokio::test]
async fn a_schedule_follows_the_clock() {
    let service = start().await;
    let schedule = json!({"queue": "beats", "every": "10m", "text": "", "misfire": "skip"});
    assert_eq!(service.put("/v1/schedules/beat", schedule).await.status, 201);
    for beats in 1..=6 {
        advance(&service, "10m").await;
        let page = service.get("/v1/queues/beats/jobs").await.json();
        assert_eq!(page["jobs"].as_array().unwrap().len(), beats);
    }
    service.stop().await;
}

#[tokio::test]
async fn the_time_is_kept_over_a_restart() {
    let service = start().await;
    let before = advance(&service, "7d").await;
    let folder = service.stop().await;
    let service = Service::on(folder, |config| config.manual_clock = true).await;
    assert_eq!(service.get("/v1/clock").await.json()["now_ms"], before);
    service.stop().await;
}

#[tokio::test]
async fn a_directory_keeps_its_kind_of_clock() {
    let folder = start().await.stop().await;
    let error = Server::bind(config(folder.path())).await.unwrap_err();
    assert!(matches!(error, StartError::Clock(ClockError::UsedManualTime(_))), "{error}");
    assert!(error.to_string().contains("has used a manual clock"), "{error}");

    let folder = Service::start().await.stop().await;
    let mut manual = config(folder.path());
    manual.manual_clock = true;
    let error = Server::bind(manual).await.unwrap_err();
    assert!(matches!(error, StartError::Clock(ClockError::UsedRealTime(_))), "{error}");
    // The refused request changed nothing.
    Service::on(folder, |_| {}).await.stop().await;
}

#[tokio::test]
async fn a_manual_clock_is_for_loopback_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut open = config(folder.path());
    open.manual_clock = true;
    open.insecure = true;
    open.listen = "0.0.0.0:0".parse().unwrap();
    let error = Server::bind(open).await.unwrap_err();
    assert!(matches!(error, StartError::Clock(ClockError::NotLoopback(_))), "{error}");
}

#[tokio::test]
async fn real_time_cannot_be_advanced() {
    let service = Service::start().await;
    assert_eq!(service.get("/v1/clock").await.json()["manual"], false);
    let answer = service.post("/v1/clock/advance", json!({"by": "1s"})).await;
    answer.problem(409, "wrong-state");
    service.stop().await;
}

#[tokio::test]
async fn a_distance_that_makes_no_sense_is_refused() {
    let service = start().await;
    for by in [json!(0), json!("367d"), json!("soon")] {
        let answer = service.post("/v1/clock/advance", json!({"by": by})).await;
        assert_eq!(answer.problem(422, "invalid-field").as_deref(), Some("/by"), "{by}");
    }
    let missing = service.post("/v1/clock/advance", json!({})).await;
    assert_eq!(missing.problem(422, "missing-field").as_deref(), Some("/by"));
    service.send(Request::new("GET", "/v1/clock/advance")).await.problem(405, "method-not-allowed");
    service.stop().await;
}

/// Jobs that are late by seconds fall into different buckets of their queue's histogram.
#[tokio::test]
async fn the_lateness_of_a_queue_is_told_apart_between_one_second_and_a_minute() {
    let service = start().await;
    let late_ms = [1_500, 2_500, 4_000, 7_000, 12_000, 17_000, 25_000, 40_000, 50_000];
    for late in late_ms {
        service.put_text("q", "x").await;
        advance(&service, &format!("{late}ms")).await;
        let (id, token) = service.reserve_one("q").await;
        let acked = service.post(&format!("/v1/jobs/{id}/ack"), json!({"token": token})).await;
        assert_eq!(acked.status, 200, "{acked:?}");
    }
    let metrics = service.get("/metrics").await.body;
    let name = "tickwheel_queue_delivery_lateness_seconds";
    let buckets: Vec<(f64, u64)> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("{name}_bucket{{queue=\"q\",le=\"")))
        .filter_map(|line| line.split_once("\"} "))
        .filter_map(|(bound, count)| Some((bound.parse().ok()?, count.parse().ok()?)))
        .filter(|(bound, _)| (1.0..=60.0).contains(bound))
        .collect();
    let bounds = [1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];
    assert_eq!(buckets, bounds.into_iter().zip(0..).collect::<Vec<_>>(), "{metrics}");
    let sum = late_ms.iter().sum::<u64>() / 1_000;
    for line in
        [format!("{name}_sum{{queue=\"q\"}} {sum}"), format!("{name}_count{{queue=\"q\"}} 9")]
    {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in {metrics}");
    }
    service.stop().await;
}
