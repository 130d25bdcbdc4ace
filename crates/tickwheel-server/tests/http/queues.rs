//! Queues and their settings.

use serde_json::json;

use crate::client::{Request, Service};

#[tokio::test]
async fn settings_are_set_whole_and_in_part() {
    let service = Service::start().await;
    let path = "/v1/queues/q/settings";
    let change = |json| service.send(Request::new("PATCH", path).json(&json));
    let created = change(json!({"lease": "1m"})).await.json();
    assert_eq!(created["settings"]["lease"], "1m");
    assert_eq!(created["settings"]["max_attempts"], 10);
    let settings = json!({
        "lease": "1m", "max_attempts": 3, "retry": {"fixed": "10s"},
        "pacing": {"starts": 100, "window": "1s", "concurrency": 5},
        "retention": {"done": {"age": "1h", "count": 100}},
    });
    let put = service.put(path, settings).await;
    assert_eq!(put.status, 200, "{put:?}");
    let queue = put.json();
    assert_eq!(queue["settings"]["lease"], "1m");
    assert_eq!(
        queue["settings"]["pacing"],
        json!({"starts": 100, "window": "1s", "concurrency": 5})
    );
    assert_eq!(queue["settings"]["retention"]["done"], json!({"age": "1h", "count": 100}));
    assert_eq!(queue["settings"]["retention"]["dead"], json!({}));
    assert_eq!(queue["settings"]["retention"]["cancelled"], json!({"count": 0}));
    let patched =
        change(json!({"max_attempts": 7, "pacing": {}, "retention": {"dead": {"count": 5}}})).await;
    let settings = patched.json()["settings"].clone();
    assert_eq!((&settings["max_attempts"], &settings["lease"]), (&json!(7), &json!("1m")));
    assert_eq!(settings["pacing"], json!({}));
    assert_eq!(settings["retention"]["dead"], json!({"count": 5}));
    assert_eq!(settings["retention"]["done"], json!({"age": "1h", "count": 100}));
    assert_eq!(service.get("/v1/queues/q").await.json(), patched.json());
    // The settings in an answer can be sent back unchanged.
    assert_eq!(service.put(path, settings.clone()).await.json()["settings"], settings);
    assert_eq!(service.put(path, json!({})).await.json()["settings"]["max_attempts"], 10);
    for (body, code, field) in [
        (json!({"lease": 0}), "invalid-field", "/lease"),
        (json!({"max_attempts": 0}), "invalid-field", "/max_attempts"),
        (json!({"pacing": {"starts": 1}}), "missing-field", "/pacing/window"),
        (json!({"pacing": {"window": 1}}), "missing-field", "/pacing/starts"),
        (json!({"pacing": {"starts": 0, "window": 1}}), "invalid-field", "/pacing/starts"),
        (json!({"pacing": {"starts": 100_001, "window": 1}}), "invalid-field", "/pacing/starts"),
        (
            json!({"retry": {"exponential": {"first": 1, "max": 1, "jitter": 101}}}),
            "invalid-field",
            "/retry/exponential/jitter",
        ),
        (
            json!({"group_pacing": {"starts": 1, "window": 0}}),
            "invalid-field",
            "/group_pacing/window",
        ),
        (json!({"group_pacing": {"concurrency": 0}}), "invalid-field", "/group_pacing/concurrency"),
        (json!({"retention": {"lost": {}}}), "unknown-field", "/retention/lost"),
        (json!({"retry": {"sometimes": 1}}), "invalid-field", "/retry"),
    ] {
        let answer = service.put(path, body.clone()).await;
        assert_eq!(answer.problem(422, code).as_deref(), Some(field), "{body}");
    }
    // The bound in the API description is the one that the queue checks.
    let openapi = service.get("/openapi.json").await.json();
    let starts = &openapi["components"]["schemas"]["Pacing"]["properties"]["starts"];
    assert_eq!((&starts["minimum"], &starts["maximum"]), (&json!(1), &json!(100_000)));
    let most = service.put(path, json!({"pacing": {"starts": 100_000, "window": 1}})).await;
    assert_eq!(most.status, 200, "{most:?}");
    service.stop().await;
}

#[tokio::test]
async fn ready_jobs_come_by_priority_if_the_queue_says_so() {
    let service = Service::start().await;
    for (text, priority) in [("low", -5), ("high", 5), ("normal", 0)] {
        service.post("/v1/queues/q/jobs", json!({"text": text, "priority": priority})).await;
    }
    let patch = Request::new("PATCH", "/v1/queues/q/settings").json(&json!({"order": "priority"}));
    assert_eq!(service.send(patch).await.json()["settings"]["order"], "priority");
    let reserved = service.post("/v1/queues/q/reserve", json!({"limit": 3})).await.json();
    let texts: Vec<_> =
        (0..3).map(|place| reserved["deliveries"][place]["job"]["text"].clone()).collect();
    assert_eq!(texts, ["high", "normal", "low"]);
    service.stop().await;
}

#[tokio::test]
async fn patches_of_different_fields_do_not_undo_each_other() {
    let service = Service::start().await;
    service.put("/v1/queues/q/settings", json!({})).await;
    let patch = |json| Request::new("PATCH", "/v1/queues/q/settings").json(&json);
    for round in 1..20 {
        let (one, two) = (patch(json!({"max_attempts": round})), patch(json!({"lease": round})));
        tokio::join!(service.send(one), service.send(two));
        let settings = service.get("/v1/queues/q").await.json()["settings"].clone();
        assert_eq!(settings["max_attempts"], json!(round));
        assert_eq!(settings["lease"], json!(format!("{round}ms")));
    }
    service.stop().await;
}

#[tokio::test]
async fn queues_are_listed_with_their_counts() {
    let service = Service::start().await;
    assert_eq!(service.get("/v1/queues").await.json(), json!({"queues": []}));
    service.get("/v1/queues/b").await.problem(404, "not-found");
    service.put_text("b", "x").await;
    service.post("/v1/queues/a/jobs", json!({"text": "", "delay": "1h"})).await;
    // The idempotency key adds no job to any count.
    let put = Request::new("POST", "/v1/queues/a/jobs").json(&json!({"text": "", "delay": "1h"}));
    service.send(put.header("idempotency-key", "k")).await;
    let queues = service.get("/v1/queues").await.json()["queues"].clone();
    let names: Vec<_> = queues.as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(queues[0]["jobs"]["scheduled"], 2);
    assert_eq!(queues[1]["jobs"]["ready"], 1);
    assert_eq!(service.get("/v1/stats").await.json()["pending"], 3);
    assert_eq!(service.get("/v1/stats").await.json()["put"], 3);
    service.stop().await;
}

#[tokio::test]
async fn only_a_queue_that_exists_is_paused() {
    let service = Service::start().await;
    for action in ["pause", "resume"] {
        let answer = service.poke(&format!("/v1/queues/mial/{action}")).await;
        answer.problem(404, "not-found");
    }
    assert_eq!(service.get("/v1/queues").await.json(), json!({"queues": []}));
    service.stop().await;
}

#[tokio::test]
async fn a_paused_queue_delivers_nothing() {
    let service = Service::start().await;
    service.put_text("q", "x").await;
    assert_eq!(service.poke("/v1/queues/q/pause").await.json()["paused"], true);
    assert_eq!(service.poke("/v1/queues/q/reserve").await.json(), json!({"deliveries": []}));
    assert_eq!(service.poke("/v1/queues/q/resume").await.json()["paused"], false);
    service.reserve_one("q").await;
    service.poke("/v1/queues/none/resume").await.problem(404, "not-found");
    service.stop().await;
}

#[tokio::test]
async fn a_queue_is_removed_when_it_is_empty_or_by_force() {
    let service = Service::start().await;
    let remove = |query: &str| {
        let request = Request::new("DELETE", &format!("/v1/queues/q{query}"));
        service.send(request)
    };
    remove("").await.problem(404, "not-found");
    service.put_text("q", "x").await;
    service.put_text("q", "y").await;
    service.reserve_one("q").await;
    remove("").await.problem(409, "wrong-state");
    remove("?force=no").await.problem(400, "invalid-parameter");
    remove("?force=false").await.problem(409, "wrong-state");
    assert_eq!(remove("?force=true").await.json(), json!({"count": 2}));
    service.get("/v1/queues/q").await.problem(404, "not-found");
    assert_eq!(service.get("/v1/queues").await.json(), json!({"queues": []}));
    // The name can be used again, and the new queue is empty.
    service.put_text("q", "z").await;
    assert_eq!(service.get("/v1/queues/q").await.json()["jobs"]["ready"], 1);
    service.poke("/v1/queues/q/drain").await;
    assert_eq!(remove("").await.json(), json!({"count": 0}));
    service.stop().await;
}

#[tokio::test]
async fn dead_jobs_are_kicked_or_removed_and_waiting_ones_cancelled() {
    let service = Service::start().await;
    for _ in 0..3 {
        service.put_text("q", "x").await;
        let (id, token) = service.reserve_one("q").await;
        service.post(&format!("/v1/jobs/{id}/fail"), json!({"token": token, "dead": true})).await;
    }
    let kicked = service.post("/v1/queues/q/kick", json!({"limit": 1})).await;
    assert_eq!(kicked.json(), json!({"count": 1}));
    let remove = "/v1/queues/q/remove-finished";
    let none = service.post(remove, json!({"state": "dead", "older_than": "1h"})).await;
    assert_eq!(none.json(), json!({"count": 0}));
    let one = service.post(remove, json!({"state": "ready"})).await;
    assert_eq!(one.problem(422, "invalid-field").as_deref(), Some("/state"));
    let removed = service.post(remove, json!({"state": "dead"})).await;
    assert_eq!(removed.json(), json!({"count": 2}));
    assert_eq!(service.poke("/v1/queues/q/kick").await.json(), json!({"count": 0}));
    let cancelled = service.poke("/v1/queues/q/cancel-waiting").await;
    assert_eq!(cancelled.json(), json!({"count": 1}));
    assert_eq!(service.get("/v1/queues/q").await.json()["jobs"]["ready"], 0);
    // The earlier names of these routes still work.
    let removed = service.post("/v1/queues/q/purge", json!({"state": "dead"})).await;
    assert_eq!(removed.json(), json!({"count": 0}));
    assert_eq!(service.poke("/v1/queues/q/drain").await.json(), json!({"count": 0}));
    for what in ["kick", "cancel-waiting"] {
        service.poke(&format!("/v1/queues/none/{what}")).await.problem(404, "not-found");
    }
    let none = service.post("/v1/queues/none/remove-finished", json!({"state": "dead"})).await;
    none.problem(404, "not-found");
    service.stop().await;
}
