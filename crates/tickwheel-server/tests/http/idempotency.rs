//! Puts with an idempotency key.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::ManualClock;
use tickwheel_queue::{NewJob, Queues};
use tickwheel_server::Config;

use crate::client::{Answer, Request, Service};

const NEARLY_A_DAY: Duration = Duration::from_secs(24 * 3_600 - 1);

async fn put(service: &Service, path: &str, key: &str, body: &Value) -> Answer {
    service.send(Request::new("POST", path).json(body).header("idempotency-key", key)).await
}

const JOBS: &str = "/v1/queues/q/jobs";

#[tokio::test]
async fn a_repeated_put_has_the_same_answer_and_puts_nothing() {
    let service = Service::start().await;
    let body = json!({"text": "x", "delay": "1h"});
    let first = put(&service, JOBS, "k", &body).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None));
    let second = put(&service, JOBS, "k", &body).await;
    assert_eq!((second.status, second.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!(second.body, first.body);
    let other = put(&service, JOBS, "k", &json!({"text": "y", "delay": "1h"})).await;
    assert_eq!(other.problem(422, "idempotency-conflict").as_deref(), Some("idempotency-key"));
    put(&service, "/v1/queues/other/jobs", "k", &body).await.problem(422, "idempotency-conflict");
    let fresh = put(&service, JOBS, "l", &body).await;
    assert_ne!(fresh.json()["id"], first.json()["id"]);
    assert_eq!(service.get("/v1/queues/q").await.json()["jobs"]["scheduled"], 2);

    let folder = service.stop().await;
    let service = Service::on(folder, |_| {}).await;
    let third = put(&service, JOBS, "k", &body).await;
    assert_eq!((third.status, third.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!(third.body, first.body);
    put(&service, JOBS, "k", &json!({"text": "y"})).await.problem(422, "idempotency-conflict");
    service.stop().await;
}

#[tokio::test]
async fn a_job_that_is_long_done_is_not_put_again() {
    let service = Service::start().await;
    let body = json!({"text": "x"});
    let first = put(&service, JOBS, "k", &body).await;
    let (id, token) = service.reserve_one("q").await;
    service.post(&format!("/v1/jobs/{id}/ack"), json!({"token": token})).await;
    let service = Service::on(service.stop().await, |_| {}).await;
    let again = put(&service, JOBS, "k", &body).await;
    assert_eq!(again.body, first.body);
    assert_eq!(service.poke("/v1/queues/q/reserve").await.json(), json!({"deliveries": []}));
    service.stop().await;
}

#[tokio::test]
async fn a_put_that_was_refused_can_be_tried_again() {
    let service = Service::start().await;
    let taken = json!({"text": "x", "key": "a", "delay": "1h"});
    service.post(JOBS, taken).await;
    let body = json!({"text": "y", "key": "a", "on_conflict": "reject"});
    put(&service, JOBS, "k", &body).await.problem(409, "key-exists");
    put(&service, JOBS, "k", &body).await.problem(409, "key-exists");
    service.delete("/v1/queues/q/keys/a").await;
    let done = put(&service, JOBS, "k", &body).await;
    assert_eq!((done.status, done.header("idempotency-replayed")), (201, None));
    put(&service, JOBS, "m", &json!({})).await.problem(422, "missing-field");
    assert_eq!(put(&service, JOBS, "m", &json!({"text": ""})).await.status, 201);
    service.stop().await;
}

#[tokio::test]
async fn outcomes_other_than_created_are_remembered() {
    let service = Service::start().await;
    let keep = json!({"text": "x", "key": "a", "delay": "1h", "on_conflict": "keep"});
    service.post(JOBS, keep.clone()).await;
    let kept = put(&service, JOBS, "k", &keep).await;
    assert_eq!((kept.status, &kept.json()["outcome"]), (200, &json!("kept")));
    let replace = json!({"text": "x", "key": "a", "delay": "1h"});
    let replaced = put(&service, JOBS, "l", &replace).await;
    assert_eq!(replaced.json()["outcome"], "replaced");
    let service = Service::on(service.stop().await, |_| {}).await;
    for (key, body, first) in [("k", keep, kept), ("l", replace, replaced)] {
        let again = put(&service, JOBS, key, &body).await;
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!((again.status, again.body), (first.status, first.body));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_batch_is_repeated_as_a_whole() {
    let service = Service::start().await;
    service.post(JOBS, json!({"text": "", "key": "a", "delay": "1h"})).await;
    let refused = |index: usize| json!({"queue": "q", "text": index.to_string(), "key": "a", "on_conflict": "reject"});
    let mut jobs: Vec<_> = (0..400).map(refused).collect();
    jobs.push(json!({"queue": "q", "text": "new", "delay": "1h"}));
    jobs.push(json!({"text": "no queue"}));
    let batch = json!({"jobs": jobs});
    let first = put(&service, "/v1/jobs/batch", "k", &batch).await;
    assert_eq!(first.status, 200);
    let service = Service::on(service.stop().await, |_| {}).await;
    service.delete("/v1/queues/q/keys/a").await;
    let second = put(&service, "/v1/jobs/batch", "k", &batch).await;
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(second.json(), first.json());
    assert_eq!(service.get("/v1/queues/q").await.json()["jobs"]["scheduled"], 1);
    put(&service, "/v1/jobs/batch", "k", &json!({"jobs": []}))
        .await
        .problem(422, "idempotency-conflict");
    service.stop().await;
}

#[tokio::test]
async fn requests_of_one_key_at_once_put_one_job() {
    let service = std::sync::Arc::new(Service::start().await);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let service = std::sync::Arc::clone(&service);
        tasks.spawn(async move { put(&service, JOBS, "k", &json!({"text": "x"})).await });
    }
    let answers = tasks.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.body == answers[0].body));
    let replayed = |answer: &&Answer| answer.header("idempotency-replayed").is_some();
    assert_eq!(answers.iter().filter(replayed).count(), 15);
    assert_eq!(service.get("/v1/queues/q").await.json()["jobs"]["ready"], 1);
}

#[tokio::test]
async fn odd_keys_are_refused() {
    let service = Service::start().await;
    for key in ["", &"x".repeat(256), "\u{e9}"] {
        let answer = put(&service, JOBS, key, &json!({"text": ""})).await;
        assert_eq!(answer.problem(400, "invalid-header").as_deref(), Some("idempotency-key"));
    }
    service.stop().await;
}

#[tokio::test]
async fn two_keys_are_refused() {
    let service = Service::start().await;
    let request = Request::new("POST", JOBS).json(&json!({"text": ""}));
    let request = request.header("idempotency-key", "a").header("idempotency-key", "b");
    let answer = service.send(request).await;
    assert_eq!(answer.problem(400, "invalid-header").as_deref(), Some("idempotency-key"));
    service.stop().await;
}

#[tokio::test]
async fn a_key_takes_no_room_of_the_jobs_and_is_in_no_numbers() {
    let service = Service::with(|config| config.queue_limits.pending = 1).await;
    let taken = json!({"text": "", "key": "a", "delay": "1h", "on_conflict": "reject"});
    assert_eq!(put(&service, JOBS, "k", &taken).await.status, 201);
    put(&service, JOBS, "l", &taken).await.problem(409, "key-exists");
    let replace = json!({"text": "", "key": "a", "delay": "1h"});
    let replaced = put(&service, JOBS, "m", &replace).await;
    assert_eq!(replaced.json()["outcome"], "replaced");
    assert_eq!(put(&service, JOBS, "m", &replace).await.body, replaced.body);
    put(&service, JOBS, "n", &json!({"text": "", "delay": "1h"})).await.problem(429, "full");
    let stats = service.get("/v1/stats").await.json();
    let numbers = ["queues", "pending", "put", "cancelled", "delivered", "acked"];
    assert_eq!(numbers.map(|name| stats[name].as_u64().unwrap()), [1, 1, 2, 1, 0, 0]);
    service.stop().await;
}

#[tokio::test]
async fn a_key_is_forgotten_after_a_day() {
    let clock = ManualClock::new();
    let on_clock = clock.clone();
    let service = Service::with(move |config| config.clock = Some(on_clock)).await;
    let body = json!({"text": "x", "key": "a", "delay": "30d", "on_conflict": "keep"});
    let first = put(&service, JOBS, "k", &body).await;
    let kept = put(&service, JOBS, "l", &body).await;
    assert_eq!(kept.json()["outcome"], "kept");
    clock.advance(NEARLY_A_DAY);
    for (key, answer) in [("k", &first), ("l", &kept)] {
        let again = put(&service, JOBS, key, &body).await;
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(again.body, answer.body);
    }
    clock.advance(Duration::from_secs(2));
    let late = put(&service, JOBS, "k", &body).await;
    assert_eq!((late.status, late.header("idempotency-replayed")), (200, None));
    assert_eq!(late.json()["outcome"], "kept");
    service.stop().await;
}

/// Versions before format 2 stored keys as jobs of a queue of their own.
#[tokio::test]
async fn a_key_of_an_earlier_version_is_refused_until_it_expires() {
    let clock = ManualClock::new();
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::builder().clock(clock.clone()).open(folder.path().join("queue")).unwrap();
    // The hash of the key `k` of a caller without a token.
    let name = "f6dc1034b093dd79d1b96f328cb1e489ff00868c9a1fdb2f1f929e5bf31f9e51";
    let marker = NewJob::new("tickwheel:idempotency", "{}").key(name);
    queues.put(marker.delay(Duration::from_secs(24 * 3_600))).wait().unwrap();
    drop(queues);
    let on_clock = || {
        let clock = clock.clone();
        move |config: &mut Config| config.clock = Some(clock)
    };
    let service = Service::on(folder, on_clock()).await;
    let body = json!({"text": "x"});
    let refused = put(&service, JOBS, "k", &body).await;
    assert_eq!(refused.problem(422, "idempotency-conflict").as_deref(), Some("idempotency-key"));
    assert_eq!(put(&service, JOBS, "l", &body).await.status, 201);
    assert_eq!(service.get("/v1/queues").await.json()["queues"].as_array().unwrap().len(), 1);
    clock.advance(Duration::from_secs(24 * 3_600 + 1));
    assert_eq!(put(&service, JOBS, "k", &body).await.status, 201);

    let service = Service::on(service.stop().await, on_clock()).await;
    let folder = service.stop().await;
    let queues = Queues::builder().clock(clock).open(folder.path().join("queue")).unwrap();
    assert!(queues.queue("tickwheel:idempotency").wait().unwrap().is_none());
}
