//! Schedules.

use serde_json::json;

use crate::client::Service;

#[tokio::test]
async fn a_schedule_puts_jobs_until_it_is_removed() {
    let service = Service::start().await;
    let put = service
        .put("/v1/schedules/beat", json!({"queue": "pulse", "every": 50, "text": "tick"}))
        .await;
    assert_eq!(put.status, 201, "{put:?}");
    let shown = put.json();
    assert_eq!(
        (&shown["name"], &shown["every"], &shown["misfire"]),
        (&json!("beat"), &json!("50ms"), &json!("once"))
    );
    let (first, _) = service.reserve_one("pulse").await;
    let (second, _) = service.reserve_one("pulse").await;
    assert_ne!(first, second);
    assert!(service.get("/v1/schedules/beat").await.json()["fired"].as_u64() >= Some(2));
    assert_eq!(service.poke("/v1/schedules/beat/pause").await.json()["paused"], true);
    assert_eq!(service.poke("/v1/schedules/beat/resume").await.json()["paused"], false);
    assert_eq!(service.delete("/v1/schedules/beat").await.status, 200);
    service.delete("/v1/schedules/beat").await.problem(404, "not-found");
    service.get("/v1/schedules/beat").await.problem(404, "not-found");
    service.get("/v1/schedules/beat/next").await.problem(404, "not-found");
    service.poke("/v1/schedules/beat/pause").await.problem(404, "not-found");
    service.stop().await;
}

#[tokio::test]
async fn a_calendar_tells_its_coming_times() {
    let service = Service::start().await;
    let request = json!({
        "queue": "reports", "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin",
        "misfire": "all", "misfire_limit": 3, "payload": {"kind": "daily"}, "key": "daily",
        "on_conflict": "keep", "delay": "5m", "priority": 2, "grace": "2s",
    });
    assert_eq!(service.put("/v1/schedules/daily", request.clone()).await.status, 201);
    let replaced = service.put("/v1/schedules/daily", request).await;
    assert_eq!(replaced.status, 200);
    let shown = replaced.json();
    assert_eq!(
        (&shown["cron"], &shown["timezone"]),
        (&json!("0 9 * * MON-FRI"), &json!("Europe/Berlin"))
    );
    assert_eq!((&shown["misfire"], &shown["misfire_limit"]), (&json!("all"), &json!(3)));
    assert_eq!(
        (&shown["key"], &shown["on_conflict"], &shown["delay"]),
        (&json!("daily"), &json!("keep"), &json!("5m"))
    );
    assert_eq!(shown["payload"], json!({"kind": "daily"}));
    let next = service.get("/v1/schedules/daily/next?n=3").await.json()["next"].clone();
    assert_eq!(next.as_array().unwrap().len(), 3);
    assert_eq!(next[0]["due_ms"], shown["next_ms"]);
    assert_eq!(
        service.get("/v1/schedules/daily/next").await.json()["next"].as_array().unwrap().len(),
        5
    );
    let wrong = service.get("/v1/schedules/daily/next?n=0").await;
    assert_eq!(wrong.problem(400, "invalid-parameter").as_deref(), Some("n"));
    let list = service.get("/v1/schedules").await.json();
    assert_eq!(list["schedules"], json!([shown]));
    service.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_schedule_is_named() {
    let service = Service::start().await;
    for (more, code, field) in [
        (json!({}), "missing-field", "/cron"),
        (json!({"cron": "* * * * *", "every": 1}), "invalid-field", "/every"),
        (json!({"cron": "61 * * * *"}), "invalid-field", "/cron"),
        (json!({"cron": "* * * * *", "timezone": "Europe/Atlantis"}), "invalid-field", "/timezone"),
        (json!({"every": 1, "timezone": "UTC"}), "invalid-field", "/timezone"),
        (json!({"every": 0}), "invalid-field", "/every"),
        (json!({"every": 1, "misfire_limit": 1}), "invalid-field", "/misfire_limit"),
        (
            json!({"every": 1, "misfire": "all", "misfire_limit": 0}),
            "invalid-field",
            "/misfire_limit",
        ),
        (json!({"every": 1, "key": ""}), "invalid-field", "/key"),
        (json!({"every": 1, "id": "x"}), "unknown-field", "/id"),
        (json!({"every": 1, "payload": 1}), "invalid-field", "/text"),
        (json!({"every": 1, "queue": "a b"}), "invalid-field", "/queue"),
        (json!({"every": 1, "text": "x".repeat((1 << 20) + 1)}), "too-large", "/text"),
    ] {
        let mut request = json!({"queue": "q", "text": ""});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = service.put("/v1/schedules/s", request).await;
        let status = if code == "too-large" { 413 } else { 422 };
        assert_eq!(answer.problem(status, code).as_deref(), Some(field), "{more}");
    }
    service
        .put("/v1/schedules/a%20b", json!({"queue": "q", "text": "", "every": 1}))
        .await
        .problem(400, "invalid-parameter");
    service.stop().await;
}
