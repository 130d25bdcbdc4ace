//! Putting, reading, cancelling and rescheduling jobs.

use serde_json::{Value, json};
use tickwheel_server::tokens::Scope;

use crate::client::{Request, Service, token};

const NOBODY: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

#[tokio::test]
async fn a_short_id_stands_for_the_jobs_that_the_caller_may_see() {
    let folder = tempfile::tempdir().unwrap();
    let boss = token(&folder, "boss", &[Scope::Admin], &["*"]);
    let tenant = token(&folder, "tenant", &[Scope::Read], &["b"]);
    let producer = token(&folder, "producer", &[Scope::Produce], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    let find = async |token: &str, short: &str| {
        service.send(Request::new("GET", &format!("/v1/ids/{short}")).token(token)).await
    };
    // The ids of one batch have a common prefix.
    let items: Vec<_> = ["a", "a", "b"].map(|queue| json!({"queue": queue, "text": ""})).into();
    let put = Request::new("POST", "/v1/jobs/batch").token(&boss).json(&json!({"items": items}));
    let put = service.send(put).await.json();
    let ids: Vec<&str> = (0..3).map(|n| put["results"][n]["ok"]["id"].as_str().unwrap()).collect();
    let start = ids[0][..13].replace('-', "");
    assert_eq!(find(&boss, &start).await.json(), json!({"ids": ids}));
    for id in &ids {
        let short = format!("{start}..{}", &id[30..]);
        assert_eq!(find(&boss, &short).await.json(), json!({"ids": [id]}), "{short}");
        assert_eq!(find(&boss, id).await.json(), json!({"ids": [id]}));
    }
    assert_eq!(find(&tenant, &start).await.json(), json!({"ids": [ids[2]]}));
    assert_eq!(find(&tenant, ids[0]).await.json(), json!({"ids": []}));
    find(&producer, &start).await.problem(403, "forbidden");
    for wrong in ["012", "order-42", "0123..45"] {
        let field = find(&boss, wrong).await.problem(400, "invalid-parameter");
        assert_eq!(field.as_deref(), Some("short"), "{wrong}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_job_is_shown_as_it_was_put() {
    let service = Service::start().await;
    let put = service
        .post(
            "/v1/queues/orders/jobs",
            json!({
                "payload": {"order": 42, "big": 1}, "due": "2099-01-02T03:04:05.678Z", "key": "o/42",
                "priority": -3, "headers": {"x-trace": "abc"}, "max_attempts": 4, "group": "eu",
                "retry": {"exponential": {"first": "1s", "max": 60000, "jitter": 5}},
            }),
        )
        .await;
    assert_eq!(put.status, 201, "{put:?}");
    let put = put.json();
    assert_eq!((&put["outcome"], &put["queue"]), (&json!("created"), &json!("orders")));
    assert_eq!(put["due"], "2099-01-02T03:04:05.678Z");
    assert_eq!(put["due_ms"], 4_071_006_245_678_u64);

    let by_id = service.get(&format!("/v1/jobs/{}", put["id"].as_str().unwrap())).await;
    assert_eq!(by_id.status, 200);
    let job = by_id.json();
    assert_eq!(service.get("/v1/queues/orders/keys/o%2F42").await.json(), job);
    assert_eq!(job["id"], put["id"]);
    assert_eq!(job["state"], "scheduled");
    assert_eq!(job["payload"], json!({"order": 42, "big": 1}));
    assert_eq!(job["headers"], json!({"content-type": "application/json", "x-trace": "abc"}));
    assert_eq!(job["retry"], json!({"exponential": {"first": "1s", "max": "1m", "jitter": 5}}));
    assert_eq!((&job["priority"], &job["max_attempts"]), (&json!(-3), &json!(4)));
    assert_eq!(
        (&job["group"], &job["key"], &job["attempts"]),
        (&json!("eu"), &json!("o/42"), &json!(0))
    );
    assert_eq!(job["due_ms"], put["due_ms"]);
    assert!(job["created_ms"].as_u64().unwrap() > 1_700_000_000_000);
    assert!(job.get("text").is_none() && job.get("lease").is_none());
    service.stop().await;
}

#[tokio::test]
async fn payloads_come_back_in_the_form_they_were_given() {
    let service = Service::start().await;
    for (given, shown) in [
        (r#"{"payload": null}"#, r#""payload":null"#),
        (
            r#"{"payload": [1.0, 12345678901234567890123, "a b"]}"#,
            r#""payload":[1.0,12345678901234567890123,"a b"]"#,
        ),
        (r#"{"text": "grüße\n"}"#, r#""text":"grüße\n""#),
        (r#"{"text": ""}"#, r#""text":"""#),
        (r#"{"base64": "AP8="}"#, r#""base64":"AP8=""#),
        (r#"{"base64": "aGk=", "headers": {"content-type": "text/plain"}}"#, r#""text":"hi""#),
        (r#"{"text": "[1]", "headers": {"content-type": "application/json"}}"#, r#""payload":[1]"#),
    ] {
        let request =
            Request::new("POST", "/v1/queues/q/jobs").body("application/json", given.as_bytes());
        let put = service.send(request).await;
        assert_eq!(put.status, 201, "{given}: {put:?}");
        let id = put.json()["id"].as_str().unwrap().to_owned();
        let job = service.get(&format!("/v1/jobs/{id}")).await;
        assert!(job.body.contains(shown), "{given}: {job:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_delay_counts_from_now() {
    let service = Service::start().await;
    for (delay, millis) in [(json!(90_000), 90_000), (json!("1m30s"), 90_000), (json!(0), 0)] {
        let before = now();
        let put =
            service.post("/v1/queues/q/jobs", json!({"text": "", "delay": delay})).await.json();
        let due = put["due_ms"].as_u64().unwrap();
        assert!((before + millis..=now() + millis + 1).contains(&due), "{due}");
    }
    service.stop().await;
}

fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_millis() as u64
}

#[tokio::test]
async fn a_key_that_is_taken_is_replaced_kept_or_refused() {
    let service = Service::start().await;
    let put = |on_conflict: Option<&str>| {
        let mut job = json!({"text": "", "key": "k", "delay": "1h"});
        if let Some(word) = on_conflict {
            job["on_conflict"] = word.into();
        }
        service.post("/v1/queues/q/jobs", job)
    };
    let first = put(None).await.json();
    let replaced = put(None).await;
    assert_eq!(replaced.status, 201);
    let second = replaced.json();
    assert_eq!((&second["outcome"], &second["replaced"]), (&json!("replaced"), &first["id"]));
    let kept = put(Some("keep")).await;
    assert_eq!((kept.status, &kept.json()["outcome"]), (200, &json!("kept")));
    assert_eq!(kept.json()["id"], second["id"]);
    assert_eq!(kept.json()["due_ms"], second["due_ms"]);
    let refused = put(Some("reject")).await;
    assert_eq!(refused.problem(409, "key-exists").as_deref(), Some("/key"));
    assert_eq!(refused.json()["id"], second["id"]);
    service.stop().await;
}

#[tokio::test]
async fn an_id_of_the_callers_is_taken_once() {
    let service = Service::start().await;
    let job = json!({"text": "", "id": NOBODY});
    let put = service.post("/v1/queues/q/jobs", job.clone()).await;
    assert_eq!(put.json()["id"], NOBODY);
    let again = service.post("/v1/queues/q/jobs", job).await;
    assert_eq!(again.problem(409, "id-exists").as_deref(), Some("/id"));
    service.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_put_is_named() {
    let service = Service::start().await;
    for (body, status, code, field) in [
        (json!({}), 422, "missing-field", Some("/payload")),
        (json!({"text": "", "payload": 1}), 422, "invalid-field", Some("/text")),
        (json!({"text": "", "base64": ""}), 422, "invalid-field", Some("/base64")),
        (json!({"base64": "?"}), 422, "invalid-field", Some("/base64")),
        (json!({"text": "", "dealy": 1}), 422, "unknown-field", Some("/dealy")),
        (json!({"text": "", "delay": "soon"}), 422, "invalid-field", Some("/delay")),
        (json!({"text": "", "delay": -1}), 422, "invalid-field", Some("/delay")),
        (json!({"text": "", "delay": 1, "due": 1}), 422, "invalid-field", Some("/due")),
        (json!({"text": "", "due": "2026-02-30T00:00:00Z"}), 422, "invalid-field", Some("/due")),
        (json!({"text": "", "key": ""}), 422, "invalid-field", Some("/key")),
        (json!({"text": "", "key": "x".repeat(513)}), 422, "over-limit", Some("/key")),
        (json!({"text": "", "group": ""}), 422, "invalid-field", Some("/group")),
        (json!({"text": "", "max_attempts": 0}), 422, "invalid-field", Some("/max_attempts")),
        (json!({"text": "", "priority": 200}), 422, "invalid-field", Some("/priority")),
        (json!({"text": "", "queue": "other"}), 422, "invalid-field", Some("/queue")),
        (json!({"text": "", "on_conflict": "panic"}), 422, "invalid-field", Some("/on_conflict")),
        (json!({"text": "", "headers": {"A b": "x"}}), 422, "invalid-field", Some("/headers/A b")),
        (json!({"text": "", "headers": {"a": "x\n"}}), 422, "invalid-field", Some("/headers/a")),
        (
            json!({"text": "", "headers": {"a": "x".repeat(70_000)}}),
            422,
            "over-limit",
            Some("/headers"),
        ),
        (json!({"text": "", "retry": {"list": []}}), 422, "invalid-field", Some("/retry/list")),
        (
            json!({"text": "", "retry": {"exponential": {"first": 1, "max": 1, "jitter": 101}}}),
            422,
            "invalid-field",
            Some("/retry/exponential/jitter"),
        ),
        (json!({"text": "", "id": "42"}), 422, "invalid-field", Some("/id")),
        (json!({"text": "x".repeat((1 << 20) + 1)}), 413, "too-large", Some("/text")),
        (json!([]), 422, "invalid-field", Some("")),
        (Value::Null, 422, "invalid-field", Some("")),
    ] {
        let answer = service.post("/v1/queues/q/jobs", body.clone()).await;
        assert_eq!(answer.problem(status, code).as_deref(), field, "{body}");
    }
    assert_eq!(service.get("/v1/queues/q/jobs").await.json()["jobs"], json!([]));
    service.stop().await;
}

#[tokio::test]
async fn a_job_is_cancelled_by_id_or_key_once() {
    let service = Service::start().await;
    let id = service.put_text("q", "a").await;
    let path = format!("/v1/jobs/{id}");
    let cancelled = service.delete(&path).await;
    assert_eq!((cancelled.status, cancelled.json()), (200, json!({"was": "ready"})));
    service.delete(&path).await.problem(404, "not-found");
    service.get(&path).await.problem(404, "not-found");
    service.post("/v1/queues/q/jobs", json!({"text": "", "key": "k", "delay": "1h"})).await;
    let cancelled = service.delete("/v1/queues/q/keys/k").await;
    assert_eq!(cancelled.json(), json!({"was": "scheduled"}));
    service.delete("/v1/queues/q/keys/k").await.problem(404, "not-found");
    service.delete("/v1/jobs/42").await.problem(400, "invalid-parameter");
    service.stop().await;
}

#[tokio::test]
async fn a_waiting_job_is_moved() {
    let service = Service::start().await;
    let put = json!({"text": "", "key": "k", "delay": "1h"});
    let id = service.post("/v1/queues/q/jobs", put).await.json()["id"].as_str().unwrap().to_owned();
    let by_id = format!("/v1/jobs/{id}/reschedule");
    let moved = service.post(&by_id, json!({"due": 4_000_000_000_000_u64})).await;
    assert_eq!(
        moved.json(),
        json!({"due": "2096-10-02T07:06:40.000Z", "due_ms": 4_000_000_000_000_u64})
    );
    let moved = service.post("/v1/queues/q/keys/k/reschedule", json!({"delay": 0})).await;
    assert_eq!(moved.status, 200);
    assert_eq!(
        service.post(&by_id, json!({})).await.problem(422, "missing-field").as_deref(),
        Some("/delay")
    );
    let both = service.post(&by_id, json!({"delay": 1, "due": 1})).await;
    assert_eq!(both.problem(422, "invalid-field").as_deref(), Some("/due"));
    assert_eq!(service.reserve_one("q").await.0, id);
    service.post(&by_id, json!({"delay": 1})).await.problem(409, "wrong-state");
    let nobody = format!("/v1/jobs/{NOBODY}/reschedule");
    service.post(&nobody, json!({"delay": 1})).await.problem(404, "not-found");
    service.stop().await;
}

#[tokio::test]
async fn lists_go_by_pages_and_are_narrowed() {
    let service = Service::start().await;
    for index in 0..5 {
        let job =
            json!({"text": "", "key": format!("k{index}"), "due": 4_000_000_000_000_u64 + index});
        service.post("/v1/queues/q/jobs", job).await;
    }
    service.put_text("q", "ready").await;
    let list = async |query: &str| service.get(&format!("/v1/queues/q/jobs?{query}")).await.json();
    let count = async |query: &str| list(query).await["jobs"].as_array().unwrap().len();
    assert_eq!(count("").await, 6);
    assert_eq!(count("state=ready").await, 1);
    assert_eq!(count("state=scheduled&due_to=4000000000001").await, 2);
    assert_eq!(count("due_from=2096-10-02T07:06:40.003Z").await, 2);
    assert_eq!(count("key_prefix=k3").await, 1);
    let mut seen = Vec::new();
    let mut query = "limit=4".to_owned();
    loop {
        let page = list(&query).await;
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].to_string()));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("limit=4&page={next}");
    }
    assert_eq!(seen.len(), 6);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 6);
    for (query, field) in [
        ("state=lost", "state"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("page=zz", "page"),
        ("due_from=yesterday", "due_from"),
        ("colour=red", "colour"),
        ("limit=1&limit=2", "limit"),
    ] {
        let answer = service.get(&format!("/v1/queues/q/jobs?{query}")).await;
        assert_eq!(answer.problem(400, "invalid-parameter").as_deref(), Some(field), "{query}");
    }
    assert_eq!(service.get("/v1/queues/none/jobs").await.json(), json!({"jobs": [], "next": null}));
    service.stop().await;
}

#[tokio::test]
async fn a_batch_answers_for_each_item() {
    let service = Service::start().await;
    let batch = json!({"jobs": [
        {"queue": "a", "text": "1"},
        {"text": "no queue"},
        {"queue": "b", "payload": 2, "key": "k", "delay": "1h"},
        {"queue": "b", "payload": 3, "key": "k", "on_conflict": "reject"},
        {"queue": "b", "payload": 4, "key": "k", "on_conflict": "keep"},
        {"queue": "../b", "text": ""},
    ]});
    let answer = service.post("/v1/jobs/batch", batch).await;
    assert_eq!(answer.status, 200);
    let results = answer.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 6);
    assert_eq!(results[0]["ok"]["outcome"], "created");
    assert_eq!(results[1]["error"]["field"], "/jobs/1/queue");
    assert_eq!(results[2]["ok"]["queue"], "b");
    assert_eq!(results[3]["error"]["code"], "key-exists");
    assert_eq!(results[3]["error"]["field"], "/jobs/3/key");
    assert_eq!(results[4]["ok"]["outcome"], "kept");
    assert_eq!(results[4]["ok"]["due_ms"], results[2]["ok"]["due_ms"]);
    assert_eq!(results[5]["error"]["field"], "/jobs/5/queue");
    let wrong = service.post("/v1/jobs/batch", json!({"jobs": [{"queue": "a", "text": 1}]})).await;
    assert_eq!(wrong.problem(422, "invalid-field").as_deref(), Some("/jobs/0/text"));
    let batch = json!({"items": [{"queue": "a", "text": ""}, {"text": ""}]});
    let named = service.post("/v1/jobs/batch", batch).await.json();
    assert_eq!(named["results"][0]["ok"]["outcome"], "created");
    assert_eq!(named["results"][1]["error"]["field"], "/items/1/queue");
    assert_eq!(
        service.post("/v1/jobs/batch", json!({"jobs": []})).await.json(),
        json!({"results": []})
    );
    let ids = [&results[0]["ok"]["id"], &results[2]["ok"]["id"]];
    let items = json!({"items": [{"id": ids[0], "delay": "1h"}, {"id": ids[1], "delay": 1, "due": 1}, {"id": NOBODY, "due": 1}]});
    let moved = service.post("/v1/jobs/batch/reschedule", items).await.json()["results"].clone();
    assert!(moved[0]["ok"]["due_ms"].is_u64());
    assert_eq!(moved[1]["error"]["field"], "/items/1/due");
    assert_eq!(moved[2]["error"]["code"], "not-found");
    let items = json!({"items": [{"id": ids[0]}, {"id": NOBODY}, {"id": ids[1]}]});
    let cancelled = service.post("/v1/jobs/batch/cancel", items).await.json()["results"].clone();
    assert_eq!(cancelled[0], json!({"ok": {"was": "scheduled"}}));
    assert_eq!(cancelled[1]["error"]["status"], 404);
    assert_eq!(cancelled[2], json!({"ok": {"was": "scheduled"}}));
    service.stop().await;
}

#[tokio::test]
async fn a_payload_that_parsers_refuse_does_not_spoil_its_neighbours() {
    let service = Service::start().await;
    let deep = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
    let poison = [&deep[..], &"9".repeat(5_000), "1e999", r#""\ud800""#];
    for (number, json) in poison.into_iter().enumerate() {
        let body = format!(r#"{{"payload": {json}}}"#);
        let put =
            Request::new("POST", "/v1/queues/q/jobs").body("application/json", body.as_bytes());
        let field = service.send(put).await.problem(422, "invalid-field");
        assert_eq!(field.as_deref(), Some("/payload"), "{json}");
        let schedule = format!(r#"{{"queue": "q", "every": "1h", "payload": {json}}}"#);
        let put =
            Request::new("PUT", "/v1/schedules/s").body("application/json", schedule.as_bytes());
        service.send(put).await.problem(422, "invalid-field");
        let batch = format!(r#"{{"jobs": [{{"queue": "b", "payload": {json}}}]}}"#);
        let put = Request::new("POST", "/v1/jobs/batch").body("application/json", batch.as_bytes());
        let verdict = &service.send(put).await.json()["results"][0];
        assert_eq!(verdict["error"]["field"], "/jobs/0/payload", "{json}");
        // As a text the payload is accepted. With the content type of JSON it is stored as older
        // versions stored it.
        let headers = json!({"content-type": "application/json"});
        let put =
            json!({"text": json, "headers": headers, "key": format!("\u{0}\u{2028}{number}")});
        assert_eq!(service.post("/v1/queues/q/jobs", put).await.status, 201);
    }
    let put = json!({"payload": {"good": [1.5]}});
    assert_eq!(service.post("/v1/queues/q/jobs", put).await.status, 201);
    let answer = service.post("/v1/queues/q/reserve", json!({"limit": 10})).await.json();
    let jobs = answer["deliveries"].as_array().expect("a list").iter().map(|it| &it["job"]);
    let (mut texts, mut payloads) = (0, 0);
    for job in jobs {
        match job["text"].as_str() {
            Some(text) => texts += usize::from(poison.contains(&text)),
            None => payloads += usize::from(job["payload"] == json!({"good": [1.5]})),
        }
    }
    assert_eq!((texts, payloads), (poison.len(), 1));
    service.stop().await;
}
