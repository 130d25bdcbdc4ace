//! Overview, history, timing wheel and the live stream.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_server::tokens::{Scope, TokenStore};

use crate::client::{PATIENCE, Request, Service, token};
use crate::events::Stream;

/// Asks again and again until an answer is as wanted.
async fn until(service: &Service, request: &Request, wanted: impl Fn(&Value) -> bool) -> Value {
    let asking = async {
        loop {
            let answer = service.send(request.clone()).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let json = answer.json();
            if wanted(&json) {
                return json;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("the answer never came")
}

fn get(path: &str) -> Request {
    Request::new("GET", path)
}

async fn put(service: &Service, queue: &str, delay: &str) {
    let answer = service
        .post(&format!("/v1/queues/{queue}/jobs"), json!({"text": "x", "delay": delay}))
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[tokio::test]
async fn an_overview_shows_every_queue_at_one_glance() {
    let service = Service::start().await;
    for delay in ["20s", "20m", "20h", "20d", "200d"] {
        put(&service, "mail", delay).await;
    }
    service.put_text("mail", "now").await;
    let overview = until(&service, &get("/v1/overview"), |it| {
        it["queues"][0]["upcoming"]["later"] == 1 && it["queues"][0]["rates"].is_object()
    })
    .await;
    assert_eq!(overview["summary"], "all on time");
    assert_eq!(overview["health"], json!([]));
    let mail = &overview["queues"][0];
    assert_eq!(mail["name"], "mail");
    assert_eq!((&mail["jobs"]["scheduled"], &mail["jobs"]["ready"]), (&json!(5), &json!(1)));
    for range in ["ready", "minute", "hour", "day", "month", "later"] {
        assert_eq!(mail["upcoming"][range], 1, "{range}");
    }
    // Nothing was delivered, so nothing is known about lateness.
    assert_eq!(mail["lateness_p99_ms"], Value::Null);
    assert_eq!((&mail["workers"], &mail["pacing_utilisation"]), (&json!(0), &Value::Null));
    assert!(mail["waiting_ms"].is_u64() && mail["oldest_ready_ms"].is_u64());
    assert_eq!(overview["totals"]["upcoming"]["hour"], 1);
    assert!(overview["totals"]["disk_bytes"].is_u64());

    let worker = json!({"worker": "w-1", "lease": "1h"});
    let delivery = service.post("/v1/queues/mail/reserve", worker).await.json();
    assert!(delivery["deliveries"][0].is_object());
    let overview =
        until(&service, &get("/v1/overview"), |it| it["queues"][0]["lateness_p99_ms"].is_u64())
            .await;
    let mail = &overview["queues"][0];
    assert_eq!((&mail["workers"], &mail["jobs"]["leased"]), (&json!(1), &json!(1)));
    assert!(mail["rates"]["delivered"].as_f64().unwrap() > 0.0);
    service.stop().await;
}

#[tokio::test]
async fn health_says_which_queue_waits_and_how_many_workers_it_has() {
    let service = Service::with(|config| config.manual_clock = true).await;
    service.put_text("mail", "x").await;
    service.put_text("slow", "x").await;
    service.poke("/v1/queues/slow/pause").await;
    service.post("/v1/clock/advance", json!({"by": "4m"})).await;
    let overview = service.get("/v1/overview").await.json();
    let health = overview["health"].as_array().unwrap();
    // A paused queue is no trouble.
    assert_eq!(health.len(), 1, "{overview}");
    assert_eq!((&health[0]["code"], &health[0]["queue"]), (&json!("jobs-wait"), &json!("mail")));
    let told = "mail: the oldest ready job has waited for 4 min, and no worker asked for jobs in \
                the last minute";
    assert_eq!((&health[0]["message"], &overview["summary"]), (&json!(told), &json!(told)));
    assert_eq!(overview["queues"][1]["held"], 1);
    assert_eq!(overview["totals"]["paused_queues"], 1);
    service.stop().await;
}

#[tokio::test]
async fn the_history_has_columns_of_one_length() {
    let service = Service::start().await;
    put(&service, "mail", "1h").await;
    for path in ["/v1/history", "/v1/history?window=24h", "/v1/history?window=15m&queue=mail"] {
        let history = until(&service, &get(path), |it| {
            it["put"].as_array().unwrap().iter().any(|it| it == 1)
        })
        .await;
        let length = history["at_ms"].as_array().unwrap().len();
        for column in [
            "put",
            "delivered",
            "acked",
            "failed",
            "died",
            "lateness_p50_ms",
            "lateness_p99_ms",
            "lateness_max_ms",
            "scheduled",
            "ready",
            "leased",
            "dead",
            "pacing_utilisation",
        ] {
            assert_eq!(history[column].as_array().unwrap().len(), length, "{path} {column}");
        }
        assert_eq!(history["scheduled"].as_array().unwrap().last().unwrap(), 1, "{path}");
    }
    service.get("/v1/history?window=1h").await.problem(400, "invalid-parameter");
    service.get("/v1/history?queue=a%20b").await.problem(400, "invalid-parameter");
    service.get("/v1/history?since=1").await.problem(400, "invalid-parameter");
    service.get("/v1/history?queue=none").await.problem(404, "not-found");
    service.stop().await;
}

/// The number of jobs and leases in all slots.
fn on_wheel(wheel: &Value) -> (u64, u64) {
    let sum = |column: &str| {
        let levels = wheel["levels"].as_array().unwrap().iter();
        levels.flat_map(|it| it[column].as_array().unwrap()).map(|it| it.as_u64().unwrap()).sum()
    };
    (sum("jobs"), sum("leases"))
}

#[tokio::test]
async fn the_wheel_holds_what_is_due_within_the_horizon() {
    let service = Service::with(|config| config.manual_clock = true).await;
    for _ in 0..3 {
        put(&service, "mail", "1m").await;
    }
    put(&service, "mail", "10d").await;
    service.put_text("mail", "now").await;
    let wheel = service.get("/v1/wheel").await.json();
    assert_eq!(
        (on_wheel(&wheel), &wheel["ready"], &wheel["beyond"]),
        ((3, 0), &json!(1), &json!(1))
    );
    assert_eq!(wheel["horizon_ms"], 300_000);
    // The slot of the three jobs spans the time at which they are due.
    let now = wheel["at_ms"].as_u64().unwrap();
    let level = wheel["levels"].as_array().unwrap().iter().find(|it| it["jobs"] == json!([3]));
    let level = level.expect("all in one slot");
    let number = |name: &str| level[name].as_u64().unwrap();
    let slot = level["occupied"][0].as_u64().unwrap();
    let first = number("start_ms") + slot * number("slot_ms");
    assert!((first..first + number("slot_ms")).contains(&(now + 60_000)), "{level}");
    assert_eq!(number("position"), (now - number("start_ms")) / number("slot_ms"));

    service.reserve_one("mail").await;
    assert_eq!(on_wheel(&service.get("/v1/wheel").await.json()), (3, 1));
    // The jobs move inward as their time comes near, and leave the wheel when it has come.
    service.post("/v1/clock/advance", json!({"by": "59990ms"})).await;
    let wheel = service.get("/v1/wheel").await.json();
    let inner = &wheel["levels"].as_array().unwrap()[..2];
    assert_eq!(on_wheel(&json!({"levels": inner})).0, 3, "{wheel}");
    service.post("/v1/clock/advance", json!({"by": "10ms"})).await;
    let wheel = service.get("/v1/wheel").await.json();
    assert_eq!((on_wheel(&wheel).0, &wheel["ready"]), (0, &json!(4)), "{wheel}");
    service.stop().await;
}

/// The data of the next event `live`.
async fn next_live(stream: &mut Stream) -> Value {
    loop {
        let block = stream.block().await.expect("an event");
        if let Some(data) = block.strip_prefix("event: live\ndata: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[tokio::test]
async fn the_live_stream_has_overview_point_and_wheel() {
    let service = Service::start().await;
    let mut one = Stream::open(&service, get("/v1/live")).await;
    let mut two = Stream::open(&service, get("/v1/live")).await;
    put(&service, "mail", "1m").await;
    for stream in [&mut one, &mut two] {
        loop {
            let live = next_live(stream).await;
            let wheel = &live["wheel"];
            if live["overview"]["queues"][0]["name"] == "mail" && on_wheel(wheel).0 == 1 {
                break;
            }
        }
        while next_live(stream).await["point"].is_null() {}
    }
    // The streams end with the service.
    service.shutdown.begin();
    for stream in [&mut one, &mut two] {
        while stream.block().await.is_some() {}
    }
    service.stop().await;
}

#[tokio::test]
async fn a_restricted_token_sees_its_own_queues_alone() {
    let folder = tempfile::tempdir().unwrap();
    let root = token(&folder, "root", &[Scope::Admin], &["*"]);
    let own = token(&folder, "own", &[Scope::Read], &["a-*"]);
    let produce = token(&folder, "produce", &[Scope::Produce], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    for queue in ["a-mail", "b-secret"] {
        let job = json!({"text": "x", "delay": "1m"});
        let path = format!("/v1/queues/{queue}/jobs");
        service.send(Request::new("POST", &path).token(&root).json(&job)).await;
    }
    let all = service.send(get("/v1/overview").token(&root)).await.json();
    assert_eq!(all["totals"]["queues"], 2);
    let request = get("/v1/overview").token(&own);
    let some = until(&service, &request, |it| it["totals"]["rates"].is_object()).await;
    assert_eq!(
        (&some["totals"]["queues"], &some["totals"]["jobs"]["scheduled"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(some["totals"]["disk_bytes"], Value::Null);
    assert!(!some.to_string().contains("b-secret"));
    assert_eq!(on_wheel(&service.send(get("/v1/wheel").token(&own)).await.json()), (1, 0));
    assert_eq!(on_wheel(&service.send(get("/v1/wheel").token(&root)).await.json()), (2, 0));
    let request = get("/v1/history").token(&own);
    until(&service, &request, |it| it["put"].as_array().unwrap().iter().any(|it| it == 1)).await;
    let foreign = service.send(get("/v1/history?queue=b-secret").token(&own)).await;
    foreign.problem(403, "forbidden");
    let unknown = service.send(get("/v1/history?queue=b-none").token(&own)).await;
    unknown.problem(403, "forbidden");
    for path in ["/v1/overview", "/v1/history", "/v1/wheel", "/v1/live"] {
        service.send(get(path).token(&produce)).await.problem(403, "forbidden");
        service.send(get(path)).await.problem(401, "unauthorized");
    }

    // The stream of a removed token ends.
    let mut stream = Stream::open(&service, get("/v1/live").token(&own)).await;
    let live = next_live(&mut stream).await;
    assert_eq!(live["overview"]["totals"]["queues"], 1);
    assert!(!live.to_string().contains("b-secret"));
    TokenStore::new(service.folder.path()).remove("own").unwrap();
    let ended = async { while stream.block().await.is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream ends");
    service.stop().await;
}
