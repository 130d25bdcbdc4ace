//! Groups of a queue.

use serde_json::{Value, json};

use crate::client::{Request, Service};

async fn put(service: &Service, group: &str, count: usize) {
    for _ in 0..count {
        service.post("/v1/queues/q/jobs", json!({"text": group, "group": group})).await;
    }
}

async fn patch(service: &Service, group: &str, body: Value) -> crate::client::Answer {
    let path = format!("/v1/queues/q/groups/{group}");
    service.send(Request::new("PATCH", &path).json(&body)).await
}

/// Returns the texts of the jobs that can be reserved now.
async fn reserved(service: &Service) -> Vec<Value> {
    let answer = service.post("/v1/queues/q/reserve", json!({"limit": 10})).await.json();
    let deliveries = answer["deliveries"].as_array().cloned().unwrap_or_default();
    deliveries.iter().map(|delivery| delivery["job"]["text"].clone()).collect()
}

#[tokio::test]
async fn groups_are_listed_paused_and_limited() {
    let service = Service::start().await;
    put(&service, "a b/c", 2).await;
    put(&service, "d", 3).await;
    let paused = patch(&service, "a%20b%2Fc", json!({"paused": true})).await;
    let held = json!({"name": "a b/c", "paused": true, "waiting": 2, "running": 0, "held": 2});
    assert_eq!(paused.json(), held);
    let limited = patch(&service, "d", json!({"pacing": {"concurrency": 1}})).await.json();
    assert_eq!(limited["pacing"], json!({"concurrency": 1}));
    assert_eq!(reserved(&service).await, ["d"]);
    let page = service.get("/v1/queues/q/groups?limit=1").await.json();
    assert_eq!(page, json!({"groups": [held], "next": "a b/c"}));
    let page = service.get("/v1/queues/q/groups?limit=1&page=a%20b%2Fc").await.json();
    let counts = &page["groups"][0];
    assert_eq!((&counts["waiting"], &counts["running"]), (&json!(2), &json!(1)));
    assert_eq!((&counts["held"], &page["next"]), (&json!(2), &json!(null)));
    let page = service.get("/v1/queues/q/groups?prefix=d").await.json();
    assert_eq!(page["groups"][0]["name"], "d");
    // The limits of the queue apply again.
    let unlimited = patch(&service, "d", json!({"pacing": null})).await.json();
    let none = json!({"name": "d", "paused": false, "waiting": 2, "running": 1, "held": 0});
    assert_eq!(unlimited, none);
    assert_eq!(reserved(&service).await, ["d", "d"]);
    let resumed = patch(&service, "a%20b%2Fc", json!({"paused": false})).await.json();
    assert_eq!(resumed["held"], 0);
    assert_eq!(reserved(&service).await.len(), 2);
    service.stop().await;
}

#[tokio::test]
async fn groups_are_served_in_turn_if_the_queue_says_so() {
    let service = Service::start().await;
    let fair = Request::new("PATCH", "/v1/queues/q/settings").json(&json!({"fair_groups": true}));
    assert_eq!(service.send(fair).await.json()["settings"]["fair_groups"], true);
    put(&service, "backlog", 4).await;
    put(&service, "late", 1).await;
    let order = ["backlog", "late", "backlog", "backlog", "backlog"];
    assert_eq!(reserved(&service).await, order);
    service.stop().await;
}

#[tokio::test]
async fn wrong_settings_of_groups_are_refused() {
    let service = Service::start().await;
    for (body, code, field) in [
        (json!({"pacing": {"concurrency": 0}}), "invalid-field", "/pacing/concurrency"),
        (json!({"pacing": {"starts": 1}}), "missing-field", "/pacing/window"),
        (json!({"pause": true}), "unknown-field", "/pause"),
        (json!({"paused": "yes"}), "invalid-field", "/paused"),
    ] {
        let answer = patch(&service, "g", body.clone()).await;
        assert_eq!(answer.problem(422, code).as_deref(), Some(field), "{body}");
    }
    let long = "g".repeat(513);
    patch(&service, &long, json!({"paused": true})).await.problem(400, "invalid-parameter");
    for query in ["limit=0", "limit=1001", "after=x"] {
        let answer = service.get(&format!("/v1/queues/q/groups?{query}")).await;
        answer.problem(400, "invalid-parameter");
    }
    let nothing = json!({"groups": [], "next": null});
    assert_eq!(service.get("/v1/queues/q/groups").await.json(), nothing);
    service.get("/v1/queues/q").await.problem(404, "not-found");
    service.stop().await;
}
