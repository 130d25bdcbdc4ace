//! The rate of push delivery, measured at the target; and isolation of targets from each other.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use tickwheel_server::{Config, config::PushAllow};
use tokio::sync::Semaphore;

use crate::client::{PATIENCE, Request, Service};
use crate::target::{Arrived, HttpTarget, Reply, status};

fn allow_loopback(config: &mut Config) {
    config.push.allow = "127.0.0.0/8".parse::<PushAllow>().unwrap();
}

/// Returns the largest number of requests that arrived in any window.
fn densest(arrived: &[Arrived], window: Duration) -> usize {
    // Connections note their requests in the order in which they get the lock.
    let mut times: Vec<_> = arrived.iter().map(|it| it.at).collect();
    times.sort_unstable();
    let in_window =
        |first: usize| times[first..].iter().take_while(|at| **at - times[first] < window).count();
    (0..times.len()).map(in_window).max().unwrap_or(0)
}

async fn add(service: &Service, name: &str, settings: serde_json::Value) {
    let added = service.put(&format!("/v1/targets/{name}"), settings).await;
    assert!(added.status < 300, "{added:?}");
}

async fn aim(service: &Service, queue: &str, target: &str) {
    let path = format!("/v1/queues/{queue}/settings");
    let request = Request::new("PATCH", &path).json(&json!({"target": target}));
    assert_eq!(service.send(request).await.status, 200);
}

async fn put_many(service: &Service, queue: &str, count: usize) {
    let items: Vec<_> = (0..count).map(|_| json!({"queue": queue, "text": "x"})).collect();
    let answer = service.post("/v1/jobs/batch", json!({"items": items})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

const WINDOW: Duration = Duration::from_secs(1);

/// A target that gets to its requests late, and to some later than to others. The server cannot
/// know that when it writes them.
#[tokio::test]
async fn no_window_is_exceeded_at_a_target_that_reads_late() {
    let target = HttpTarget::start().await;
    target.lag([700, 0, 0, 350, 0, 100, 0].map(Duration::from_millis));
    let service = Service::with(allow_loopback).await;
    let pacing = json!({"starts": 5, "window": "1s"});
    add(&service, "partner", json!({"url": target.url("/"), "pacing": pacing})).await;
    aim(&service, "orders", "partner").await;
    put_many(&service, "orders", 30).await;
    let arrived = target.wait_for(30).await;
    let most = densest(&arrived, WINDOW);
    assert!(most <= 5, "{most} requests in a window");
    service.stop().await;
}

/// A target that takes long to answer gets at least half of its rate.
#[tokio::test]
async fn a_request_without_an_answer_frees_its_place_two_windows_after_its_write() {
    let target = HttpTarget::start().await;
    target.always(Reply::Silence);
    let service = Service::with(allow_loopback).await;
    let pacing = json!({"starts": 2, "window": "300ms", "concurrency": 8});
    let settings = json!({"url": target.url("/"), "timeout": "30m", "pacing": pacing});
    add(&service, "partner", settings).await;
    aim(&service, "orders", "partner").await;
    put_many(&service, "orders", 8).await;
    let arrived = target.wait_for(8).await;
    let most = densest(&arrived, Duration::from_millis(300));
    assert!(most <= 2, "{most} requests in a window");
    service.shutdown.begin();
    service.shutdown.begin();
    service.stop().await;
}

/// Bursts into two queues that share a target, with restarts and a change of the rate.
#[tokio::test]
async fn no_window_has_more_requests_than_allowed_across_restarts() {
    let target = HttpTarget::start().await;
    let mut service = Service::with(allow_loopback).await;
    let pacing = json!({"starts": 10, "window": "1s", "concurrency": 4});
    add(&service, "partner", json!({"url": target.url("/"), "pacing": pacing})).await;
    for queue in ["one", "two"] {
        aim(&service, queue, "partner").await;
        put_many(&service, queue, 20).await;
    }
    for count in [7, 18] {
        target.wait_for(count).await;
        let folder = service.stop().await;
        service = Service::on(folder, allow_loopback).await;
    }
    let arrived = target.wait_for(40).await;
    let most = densest(&arrived, WINDOW);
    assert!(most <= 10, "{most} requests in a window");
    // A lower rate applies to the following requests.
    let slower = json!({"pacing": {"starts": 2, "window": "1s"}});
    let request = Request::new("PATCH", "/v1/targets/partner").json(&slower);
    assert_eq!(service.send(request).await.status, 200);
    put_many(&service, "one", 6).await;
    let arrived = target.wait_for(46).await;
    let most = densest(&arrived[40..], WINDOW);
    assert!(most <= 2, "{most} requests in a window");
    let mut ids: Vec<_> = arrived.iter().map(Arrived::id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 46);
    service.stop().await;
}

#[tokio::test]
async fn concurrency_is_never_exceeded() {
    let target = HttpTarget::start().await;
    target.always(Reply::Silence);
    let service = Service::with(allow_loopback).await;
    let pacing = json!({"concurrency": 3});
    let settings = json!({"url": target.url("/"), "timeout": "30m", "pacing": pacing});
    add(&service, "partner", settings).await;
    aim(&service, "orders", "partner").await;
    put_many(&service, "orders", 50).await;
    target.wait_for(3).await;
    let shown = service.get("/v1/targets/partner").await.json();
    assert_eq!(shown["in_flight"], 3);
    // Only jobs in flight are leased; the others stay ready.
    let jobs = service.get("/v1/queues/orders").await.json()["jobs"].clone();
    assert_eq!((&jobs["leased"], &jobs["ready"]), (&json!(3), &json!(47)));
    assert_eq!(target.arrived().len(), 3);
    service.shutdown.begin();
    service.shutdown.begin();
    service.stop().await;
}

/// Jobs in flight to a target use the same memory budget as requests and answers.
#[tokio::test]
async fn jobs_in_flight_stay_within_the_memory_of_requests() {
    const PAYLOAD: usize = 200 << 10;
    let target = HttpTarget::start().await;
    let gate = Arc::new(Semaphore::new(0));
    target.always(Reply::Gated(Arc::clone(&gate)));
    let service = Service::with(|config| {
        allow_loopback(config);
        config.limits.memory = 1 << 20;
    })
    .await;
    let pacing = json!({"concurrency": 32});
    add(&service, "partner", json!({"url": target.url("/"), "pacing": pacing})).await;
    aim(&service, "orders", "partner").await;
    assert_eq!(service.post("/v1/queues/orders/pause", json!({})).await.status, 200);
    for _ in 0..12 {
        service.put_text("orders", &"x".repeat(PAYLOAD)).await;
    }
    assert_eq!(service.post("/v1/queues/orders/resume", json!({})).await.status, 200);
    // An eighth of the budget is kept for small requests; four jobs fit into the rest.
    target.wait_for(4).await;
    let jobs = service.get("/v1/queues/orders").await.json()["jobs"].clone();
    assert_eq!((&jobs["leased"], &jobs["ready"]), (&json!(4), &json!(8)));
    let worker = json!({"limit": 1});
    service.post("/v1/queues/orders/reserve", worker).await.problem(503, "unavailable");
    // When a request ends, the next one gets its memory.
    for ended in 1..=8 {
        gate.add_permits(1);
        target.wait_for(4 + ended).await;
    }
    gate.add_permits(100);
    let freed = async {
        while !service.get("/metrics").await.body.contains("tickwheel_http_memory_bytes 0\n") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("all of it is given back");
    service.stop().await;
}

#[tokio::test]
async fn a_target_that_never_answers_does_not_delay_others() {
    let (silent, lively) = (HttpTarget::start().await, HttpTarget::start().await);
    silent.always(Reply::Silence);
    let service = Service::with(allow_loopback).await;
    add(&service, "silent", json!({"url": silent.url("/"), "timeout": "30m"})).await;
    add(&service, "lively", json!({"url": lively.url("/")})).await;
    aim(&service, "dead-end", "silent").await;
    aim(&service, "orders", "lively").await;
    for _ in 0..10 {
        put_many(&service, "dead-end", 1_000).await;
    }
    silent.wait_for(16).await;
    put_many(&service, "orders", 200).await;
    lively.wait_for(200).await;
    assert_eq!(silent.arrived().len(), 16);
    service.shutdown.begin();
    service.shutdown.begin();
    service.stop().await;
}

/// Puts a job for each due time, in milliseconds since 1970, with that time as its text.
async fn put_due(service: &Service, queue: &str, due_ms: impl Iterator<Item = u128>) {
    let item = |due: u128| json!({"queue": queue, "text": due.to_string(), "due": due as u64});
    let items: Vec<_> = due_ms.map(item).collect();
    let answer = service.post("/v1/jobs/batch", json!({"items": items})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Two services get jobs at the same pace, and one of them also has 10,000 due jobs for a target
/// that never answers. They take turns on the same machine, so other load on the machine delays
/// both equally.
#[tokio::test]
async fn lateness_does_not_grow_with_the_backlog_of_a_silent_target() {
    const JOBS: u128 = 200;
    const APART_MS: u128 = 10;
    // The clocks are compared to a millisecond, and a due time is met to a tick of as much.
    const RESOLUTION_US: u128 = 2_000;
    let silent = HttpTarget::start().await;
    silent.always(Reply::Silence);
    let mut pairs = Vec::new();
    for _ in 0..2 {
        let (service, lively) = (Service::with(allow_loopback).await, HttpTarget::start().await);
        add(&service, "lively", json!({"url": lively.url("/")})).await;
        aim(&service, "orders", "lively").await;
        pairs.push((service, lively));
    }
    let (burdened, _) = &pairs[1];
    add(burdened, "silent", json!({"url": silent.url("/"), "timeout": "30m"})).await;
    aim(burdened, "dead-end", "silent").await;
    for _ in 0..10 {
        put_many(burdened, "dead-end", 1_000).await;
    }
    silent.wait_for(16).await;
    let began = Instant::now();
    let began_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    for (place, (service, _)) in (0..).zip(&pairs) {
        let first = began_ms + 100 * APART_MS + place * APART_MS;
        put_due(service, "orders", (0..JOBS).map(|job| first + 2 * job * APART_MS)).await;
    }
    let mut lateness = Vec::new();
    for (_, lively) in &pairs {
        let late = |it: &Arrived| {
            let due_ms: u128 = std::str::from_utf8(&it.body).unwrap().parse().unwrap();
            (it.at - began).as_micros().saturating_sub((due_ms - began_ms) * 1_000)
        };
        let mut late: Vec<_> = lively.wait_for(JOBS as usize).await.iter().map(late).collect();
        late.sort_unstable();
        lateness.push(late);
    }
    assert_eq!(silent.arrived().len(), 16);
    for percent in [50, 90] {
        let place = JOBS as usize * percent / 100;
        let (alone, beside) = (lateness[0][place], lateness[1][place]);
        let bound = 3 * alone.max(RESOLUTION_US);
        assert!(beside <= bound, "p{percent}: {beside} µs, and {alone} µs without the backlog");
    }
    for (service, _) in pairs {
        service.shutdown.begin();
        service.shutdown.begin();
        service.stop().await;
    }
}

#[tokio::test]
async fn a_failing_target_is_probed_with_one_job_at_a_time_and_recovers() {
    let target = HttpTarget::start().await;
    target.always(status(502));
    let service = Service::with(allow_loopback).await;
    add(&service, "partner", json!({"url": target.url("/"), "pacing": {"concurrency": 8}})).await;
    aim(&service, "orders", "partner").await;
    put_many(&service, "orders", 100).await;
    let held = async {
        loop {
            let shown = service.get("/v1/targets/partner").await.json();
            if shown["state"] == "held" && shown["in_flight"] == 0 {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let held = tokio::time::timeout(PATIENCE, held).await.expect("it is held");
    assert!(held["reason"].as_str().unwrap().contains("502"), "{held}");
    // At most the requests in flight and the slow attempts arrive before the hold.
    let before = target.arrived().len();
    assert!(before <= 8 + 8, "{before} requests before the hold");
    let probe = target.wait_for(before + 1).await;
    assert!(probe[before].at - probe[before - 1].at >= Duration::from_millis(500));
    target.always(status(200));
    // In the end all jobs arrive; those that failed arrive once more.
    let all = async {
        loop {
            let jobs = service.get("/v1/queues/orders").await.json()["jobs"].clone();
            if jobs["scheduled"] == 0 && jobs["ready"] == 0 && jobs["leased"] == 0 {
                return jobs;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let jobs = tokio::time::timeout(5 * PATIENCE, all).await.expect("all are delivered");
    assert_eq!(jobs["dead"], 0);
    service.stop().await;
}

#[tokio::test]
async fn both_secrets_sign_during_a_rotation() {
    let target = HttpTarget::start().await;
    let service = Service::with(allow_loopback).await;
    add(&service, "partner", json!({"url": target.url("/")})).await;
    aim(&service, "orders", "partner").await;
    put_many(&service, "orders", 50).await;
    let rotated =
        service.post("/v1/targets/partner/rotate", json!({"keep_old": "1h"})).await.json();
    assert!(rotated["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(rotated["secrets"].as_array().unwrap().len(), 2);
    put_many(&service, "orders", 50).await;
    let arrived = target.wait_for(100).await;
    let signatures =
        |request: &Arrived| request.header("webhook-signature").unwrap().split(' ').count();
    assert_eq!(signatures(&arrived[99]), 2);
    assert!(arrived.iter().all(|request| (1..=2).contains(&signatures(request))));
    // The new secret alone verifies a request with both signatures.
    let secret = rotated["secret"].as_str().unwrap();
    let headers: hyper::HeaderMap = arrived[99]
        .headers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    let webhook = standardwebhooks::Webhook::new(secret).unwrap();
    webhook.verify(&arrived[99].body, &headers).unwrap();
    let rotated = service.post("/v1/targets/partner/rotate", json!({"keep_old": 0})).await.json();
    assert_eq!(rotated["secrets"].as_array().unwrap().len(), 1);
    put_many(&service, "orders", 1).await;
    assert_eq!(signatures(&target.wait_for(101).await[100]), 1);
    service.stop().await;
}

/// A secret with the times, in milliseconds since 1970, between which it certainly signs, and after
/// which it certainly does not.
struct Life {
    secret: standardwebhooks::Webhook,
    signs_from: u128,
    signs_to: u128,
    silent_from: u128,
}

fn wall_ms() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()
}

/// Secrets are replaced while jobs are put all the time. Each request carries the signature of every
/// secret that was valid when it was signed, and of none that had expired. The time of signing is
/// known to the second, from the request itself.
#[tokio::test]
async fn every_secret_signs_for_as_long_as_it_is_valid_while_jobs_flow() {
    const ROTATIONS: usize = 4;
    const KEEP_MS: u128 = 2_500;
    let target = HttpTarget::start().await;
    let service = Service::with(allow_loopback).await;
    let added = service.put("/v1/targets/partner", json!({"url": target.url("/")})).await.json();
    aim(&service, "orders", "partner").await;
    let is_over = std::cell::Cell::new(false);
    let load = async {
        let mut put = 0;
        while !is_over.get() {
            put_many(&service, "orders", 5).await;
            put += 5;
            target.wait_for(put).await;
        }
        put
    };
    let rotations = async {
        let life = |answer: &serde_json::Value| Life {
            secret: standardwebhooks::Webhook::new(answer["secret"].as_str().unwrap()).unwrap(),
            signs_from: wall_ms(),
            signs_to: u128::MAX,
            silent_from: u128::MAX,
        };
        let mut lives = vec![life(&added)];
        for _ in 0..ROTATIONS {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            let keep = json!({"keep_old": KEEP_MS as u64});
            let began = wall_ms();
            let rotated = service.post("/v1/targets/partner/rotate", keep).await.json();
            let old = lives.last_mut().unwrap();
            (old.signs_to, old.silent_from) = (began + KEEP_MS, wall_ms() + KEEP_MS);
            lives.push(life(&rotated));
        }
        tokio::time::sleep(Duration::from_millis(KEEP_MS as u64 + 1_000)).await;
        is_over.set(true);
        lives
    };
    let (put, lives) = tokio::join!(load, rotations);
    let (mut signed, mut silent) = (vec![0; lives.len()], vec![0; lives.len()]);
    let arrived = target.wait_for(put).await;
    for request in &arrived {
        let parse =
            |(name, value): &(String, String)| (name.parse().unwrap(), value.parse().unwrap());
        let headers: hyper::HeaderMap = request.headers.iter().map(parse).collect();
        let at: u128 = request.header("webhook-timestamp").unwrap().parse().unwrap();
        let (from, to) = (at * 1_000, at * 1_000 + 1_000);
        let verified: Vec<bool> =
            lives.iter().map(|life| life.secret.verify(&request.body, &headers).is_ok()).collect();
        assert!(verified.contains(&true), "no secret has signed {request:?}");
        for (place, (life, verified)) in lives.iter().zip(verified).enumerate() {
            if life.signs_from <= from && to <= life.signs_to {
                assert!(verified, "secret {place} did not sign {request:?}");
                signed[place] += 1;
            } else if life.silent_from <= from {
                assert!(!verified, "secret {place} signed after its end: {request:?}");
                silent[place] += 1;
            }
        }
    }
    // Every secret was tried in its time, and every one but the last after it.
    assert!(signed.iter().all(|&requests| requests > 0), "{signed:?}");
    assert!(silent[..ROTATIONS].iter().all(|&requests| requests > 0), "{silent:?}");
    service.stop().await;
}
