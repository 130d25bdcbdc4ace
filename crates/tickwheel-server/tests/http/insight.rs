//! Overview, history, timing wheel and the live stream.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_server::tokens::{Scope, TokenStore};

use crate::client::{PATIENCE, Request, Service, token};
use crate::events::Stream;

/// Repeats a request until its answer is as wanted.
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
    // Nothing was delivered, so there is no lateness.
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
    // A paused queue is not reported as a problem.
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

/// Returns the number of jobs and leases in all slots.
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
    // The jobs stay on the wheel until they are due.
    service.post("/v1/clock/advance", json!({"by": "59990ms"})).await;
    let wheel = service.get("/v1/wheel").await.json();
    assert_eq!(on_wheel(&wheel).0, 3, "{wheel}");
    service.post("/v1/clock/advance", json!({"by": "10ms"})).await;
    let wheel = service.get("/v1/wheel").await.json();
    assert_eq!((on_wheel(&wheel).0, &wheel["ready"]), (0, &json!(4)), "{wheel}");
    service.stop().await;
}

/// Returns the data of the next event `live`.
pub(crate) async fn next_live(stream: &mut Stream) -> Value {
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

/// Puts a job and lets it fail: it is dead, or retried in an hour.
async fn fail(service: &Service, queue: &str, key: &str, error: &str, dead: bool) {
    let job = json!({"text": "x", "key": key});
    let put = service.post(&format!("/v1/queues/{queue}/jobs"), job).await;
    assert_eq!(put.status, 201, "{put:?}");
    let (id, token) = service.reserve_one(queue).await;
    let mut failure = json!({"token": token, "error": error});
    if dead {
        failure["dead"] = true.into();
    } else {
        failure["delay"] = "1h".into();
    }
    let failed = service.post(&format!("/v1/jobs/{id}/fail"), failure).await;
    assert_eq!(failed.status, 200, "{failed:?}");
}

/// Returns the keys of the jobs in a list.
async fn keys(service: &Service, path: &str) -> Vec<String> {
    let answer = service.get(path).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    let jobs = json["jobs"].as_array().unwrap().iter();
    jobs.map(|job| job["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn lists_say_why_jobs_fail_and_are_filtered_by_it() {
    let service = Service::start().await;
    fail(&service, "mail", "a", "10.0.0.7:25 refused\n  at send()", true).await;
    fail(&service, "mail", "b", "10.0.0.8:25 refused", false).await;
    fail(&service, "mail", "c", "no such address", true).await;
    let dead = service.get("/v1/queues/mail/jobs?state=dead").await.json();
    assert_eq!(dead["jobs"][0]["last_error"], "10.0.0.7:25 refused\n  at send()");
    assert_eq!(keys(&service, "/v1/queues/mail/jobs?error=REFUSED").await, ["b", "a"]);
    assert_eq!(keys(&service, "/v1/queues/mail/jobs?error=refused&state=dead").await, ["a"]);
    assert_eq!(keys(&service, "/v1/queues/mail/jobs?error_group=%23%20refused").await, ["b", "a"]);
    assert_eq!(keys(&service, "/v1/queues/mail/jobs?key=c").await, ["c"]);
    assert_eq!(keys(&service, "/v1/queues/mail/jobs?key_prefix=&state=dead").await, ["a", "c"]);

    let errors = service.get("/v1/queues/mail/errors").await.json();
    assert_eq!((&errors["complete"], &errors["others"]), (&json!(true), &json!(0)));
    let first = &errors["groups"][0];
    assert_eq!((&first["error"], &first["count"]), (&json!("# refused"), &json!(2)));
    assert_eq!((&first["dead"], &first["retrying"]), (&json!(1), &json!(1)));
    assert!(first["newest_ms"].as_u64() >= first["oldest_ms"].as_u64());
    let example = service.get(&format!("/v1/jobs/{}", first["example"].as_str().unwrap())).await;
    assert_eq!(example.json()["last_error"], first["example_error"]);
    fail(&service, "orders", "x", "card declined", true).await;
    let all = service.get("/v1/errors?limit=1").await.json();
    assert_eq!((all["groups"].as_array().unwrap().len(), &all["others"]), (1, &json!(2)));
    service.get("/v1/queues/none/errors").await.problem(404, "not-found");
    service.get("/v1/errors?limit=0").await.problem(400, "invalid-parameter");
    service.stop().await;
}

/// Performs all steps of a bulk change, and returns the sums of matched, changed and skipped jobs.
async fn bulk(service: &Service, queue: &str, mut request: Value) -> (u64, u64, u64) {
    let mut sums = (0, 0, 0);
    for _ in 0..100 {
        let answer = service.post(&format!("/v1/queues/{queue}/bulk"), request.clone()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let step = answer.json();
        let number = |name: &str| step[name].as_u64().unwrap();
        sums.0 += number("matched");
        sums.1 += number("changed");
        sums.2 += number("skipped");
        if step["next"].is_null() {
            return sums;
        }
        request["cursor"] = step["next"].clone();
    }
    panic!("the steps do not end");
}

#[tokio::test]
async fn every_job_that_matches_is_changed_once() {
    let service = Service::start().await;
    for number in 0..7 {
        fail(&service, "mail", &format!("r{number}"), "timeout after 5 s", true).await;
    }
    fail(&service, "mail", "other", "no such address", true).await;
    let retry = |dry_run: bool| {
        json!({"action": "retry", "filter": {"error_group": "timeout after # s"}, "limit": 3,
               "dry_run": dry_run})
    };
    assert_eq!(bulk(&service, "mail", retry(true)).await, (7, 0, 0));
    assert_eq!(bulk(&service, "mail", retry(false)).await, (7, 7, 0));
    assert_eq!(bulk(&service, "mail", retry(false)).await, (0, 0, 0));
    assert_eq!(keys(&service, "/v1/queues/mail/jobs?state=dead").await, ["other"]);

    // Rescheduled jobs move to the end of the walk, and are not found again.
    let later = json!({"action": "reschedule", "delay": "2h", "limit": 2});
    assert_eq!(bulk(&service, "mail", later).await, (7, 7, 0));
    let jobs = service.get("/v1/queues/mail/jobs?state=scheduled").await.json();
    let dues: Vec<_> = jobs["jobs"].as_array().unwrap().iter().map(|job| &job["due_ms"]).collect();
    assert!(dues.len() == 7 && dues.iter().all(|due| *due == dues[0]), "{dues:?}");

    let run = json!({"action": "run", "filter": {"key_prefix": "r"}, "limit": 4});
    assert_eq!(bulk(&service, "mail", run.clone()).await, (7, 7, 0));
    assert_eq!(bulk(&service, "mail", run).await, (0, 0, 0));
    let (leased, _) = service.reserve_one("mail").await;
    let cancel = json!({"action": "cancel", "limit": 1});
    assert_eq!(bulk(&service, "mail", cancel).await, (6, 6, 0));
    let job = service.get(&format!("/v1/jobs/{leased}")).await.json();
    assert_eq!(job["state"], "leased");
    let cancel = json!({"action": "cancel", "filter": {"state": "leased"}});
    assert_eq!(bulk(&service, "mail", cancel).await, (1, 1, 0));
    service.stop().await;
}

#[tokio::test]
async fn a_job_that_cannot_be_changed_is_skipped_with_a_reason() {
    let service = Service::start().await;
    fail(&service, "mail", "k", "no", true).await;
    let live = json!({"text": "x", "key": "k", "delay": "1h"});
    service.post("/v1/queues/mail/jobs", live).await;
    let step = service.post("/v1/queues/mail/bulk", json!({"action": "retry"})).await.json();
    assert_eq!((&step["matched"], &step["skipped"]), (&json!(1), &json!(1)));
    assert!(step["why"].as_str().unwrap().contains('k'), "{step}");

    let wrong = async |request: Value, field: &str| {
        let answer = service.post("/v1/queues/mail/bulk", request).await;
        let status = answer.status;
        assert_eq!((status, answer.json()["field"].as_str()), (422, Some(field)), "{answer:?}");
    };
    wrong(json!({"action": "retry", "filter": {"state": "ready"}}), "/filter/state").await;
    wrong(json!({"action": "retry", "delay": "1s"}), "/delay").await;
    wrong(json!({"action": "reschedule"}), "/delay").await;
    wrong(json!({"action": "cancel", "limit": 0}), "/limit").await;
    wrong(json!({"action": "cancel", "cursor": "x"}), "/cursor").await;
    wrong(json!({"action": "cancel", "filter": {"stat": "ready"}}), "/filter/stat").await;
    wrong(json!({"action": "remove"}), "/action").await;
    let none = service.post("/v1/queues/none/bulk", json!({"action": "cancel"})).await;
    none.problem(404, "not-found");
    service.stop().await;
}

#[tokio::test]
async fn events_are_filtered_by_name_state_key_and_error() {
    let service = Service::start().await;
    let open = async |query: &str| {
        let mut stream = Stream::open(&service, get(&format!("/v1/events{query}"))).await;
        stream.block().await.unwrap();
        stream
    };
    let mut failures = open("?event=failed,dead").await;
    let mut keyed = open("?key_prefix=order-&state=dead").await;
    let mut refused = open("?error=REFUSED").await;
    fail(&service, "mail", "a", "connection refused", false).await;
    fail(&service, "mail", "order-1", "no such address", true).await;
    fail(&service, "mail", "order-2", "refused again", true).await;
    let next = async |stream: &mut Stream| -> Value {
        loop {
            let block = stream.block().await.unwrap();
            if let Some(data) = block.lines().find_map(|line| line.strip_prefix("data: ")) {
                return serde_json::from_str(data).unwrap();
            }
        }
    };
    let first = next(&mut failures).await;
    assert_eq!((&first["event"], &first["key"]), (&json!("failed"), &json!("a")));
    assert_eq!(first["error"], "connection refused");
    assert_eq!(next(&mut failures).await["key"], "order-1");
    assert_eq!(next(&mut keyed).await["key"], "order-1");
    assert_eq!(next(&mut keyed).await["key"], "order-2");
    assert_eq!(next(&mut refused).await["key"], "a");
    assert_eq!(next(&mut refused).await["key"], "order-2");
    service.get("/v1/events?event=exploded").await.problem(400, "invalid-parameter");
    service.get("/v1/events?state=odd").await.problem(400, "invalid-parameter");
    service.stop().await;
}
