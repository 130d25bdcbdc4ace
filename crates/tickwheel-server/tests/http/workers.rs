//! Reserving jobs, and reporting their outcome.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Request, Service};

const STALE: &str = "00000000000000ff";

#[tokio::test]
async fn a_result_is_kept_and_passed_on() {
    let service = Service::start().await;
    service.put("/v1/queues/resize/settings", json!({"retention": {"done": {}}})).await;
    let job = json!({
        "text": "cat.jpg", "on_success": {"queue": "publish"}, "on_death": {"queue": "failed"},
    });
    service.post("/v1/queues/resize/jobs", job).await;
    let (id, token) = service.reserve_one("resize").await;
    let large = json!({"token": token, "result": "x".repeat(64 << 10)});
    let refused = service.post(&format!("/v1/jobs/{id}/ack"), large).await;
    assert_eq!(refused.problem(422, "over-limit").as_deref(), Some("/result"));
    let ack = json!({"token": token, "result": {"file": "small.jpg"}});
    assert_eq!(service.post(&format!("/v1/jobs/{id}/ack"), ack).await.status, 200);
    let done = service.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!(done["result"], json!({"file": "small.jpg"}));
    let next = service.post("/v1/queues/publish/reserve", json!({})).await.json();
    let next = &next["deliveries"][0]["job"];
    assert_eq!(next["payload"], json!({"file": "small.jpg"}));
    assert_eq!(next["headers"]["tickwheel-parent"], json!(id));
    // A job that dies is put into another queue with its payload.
    let job = json!({"text": "dog.jpg", "on_death": {"queue": "failed"}});
    service.post("/v1/queues/resize/jobs", job).await;
    let (id, token) = service.reserve_one("resize").await;
    let fail = json!({"token": token, "error": "no such file", "dead": true});
    service.post(&format!("/v1/jobs/{id}/fail"), fail).await;
    let dead = service.post("/v1/queues/failed/reserve", json!({})).await.json();
    let dead = &dead["deliveries"][0]["job"];
    assert_eq!(
        (&dead["text"], &dead["headers"]["tickwheel-error"]),
        (&json!("dog.jpg"), &json!("no such file"))
    );
    let wrong = json!({"text": "", "on_success": {"queue": "tickwheel:x"}});
    let wrong = service.post("/v1/queues/q/jobs", wrong).await;
    assert_eq!(wrong.problem(422, "invalid-field").as_deref(), Some("/on_success/queue"));
    service.stop().await;
}

#[tokio::test]
async fn a_job_shows_its_attempts_and_who_has_it() {
    let service = Service::start().await;
    let id = service.put_text("q", "hello").await;
    let path = format!("/v1/jobs/{id}");
    let reserve = async |worker: &str| {
        let request = json!({"worker": worker, "wait": "20s"});
        let answer = service.post("/v1/queues/q/reserve", request).await.json();
        answer["deliveries"][0]["token"].clone()
    };
    let token = reserve("mail-7").await;
    let leased = service.get(&path).await.json();
    assert_eq!((&leased["lease"]["worker"], leased.get("history")), (&json!("mail-7"), None));
    assert!(leased["lease"]["since_ms"].as_u64() >= leased["created_ms"].as_u64());
    let fail = json!({"token": token, "error": "connection refused", "delay": "1ms"});
    service.post(&format!("{path}/fail"), fail).await;
    let token = reserve("mail-8").await;
    service.post(&format!("{path}/release"), json!({"token": token})).await;

    let job = service.get(&path).await.json();
    let history = job["history"].as_array().unwrap();
    let told = |name: &str| history.iter().map(|it| it[name].clone()).collect::<Vec<_>>();
    assert_eq!(told("outcome"), ["failed", "released"]);
    assert_eq!(told("worker"), ["mail-7", "mail-8"]);
    assert_eq!(told("number"), [1, 2]);
    assert_eq!(history[0]["error"], "connection refused");
    assert_eq!(history[1].get("error"), None);
    assert_eq!(history[0]["started_ms"], leased["lease"]["since_ms"]);
    assert!(history[0]["ended_ms"].as_u64() >= history[0]["started_ms"].as_u64());
    let listed = service.get("/v1/queues/q/jobs").await.json();
    assert_eq!(listed["jobs"][0].get("history"), None);
    let wrong = service.post("/v1/queues/q/reserve", json!({"worker": "x".repeat(129)})).await;
    assert_eq!(wrong.problem(422, "invalid-field").as_deref(), Some("/worker"));
    service.stop().await;
}

#[tokio::test]
async fn puts_that_replace_each_other_cannot_postpone_a_job_for_ever() {
    let service = Service::start().await;
    let put = json!({"text": "", "key": "k", "delay": "1h", "max_total_delay": "2h"});
    let first = service.post("/v1/queues/q/jobs", put).await.json();
    let put = json!({"text": "", "key": "k", "delay": "5h", "max_total_delay": "2h"});
    let second = service.post("/v1/queues/q/jobs", put).await.json();
    assert_eq!(second["outcome"], "replaced");
    let between = second["due_ms"].as_u64().unwrap() - first["due_ms"].as_u64().unwrap();
    // The difference is one hour plus the time until the first put was applied.
    assert!(between < 2 * 3_600_000, "{between} ms");
    let wrong =
        service.post("/v1/queues/q/jobs", json!({"text": "", "max_total_delay": "2h"})).await;
    assert_eq!(wrong.problem(422, "invalid-field").as_deref(), Some("/max_total_delay"));
    service.stop().await;
}

#[tokio::test]
async fn a_delivery_has_the_job_and_a_token_that_acknowledges_it() {
    let service = Service::start().await;
    let id = service.put_text("q", "hello").await;
    let answer = service.post("/v1/queues/q/reserve", json!({"lease": "1m"})).await;
    let delivery = answer.json()["deliveries"][0].clone();
    assert_eq!(delivery["job"]["id"], id);
    assert_eq!(
        (&delivery["job"]["state"], &delivery["job"]["attempts"]),
        (&json!("leased"), &json!(1))
    );
    assert_eq!(delivery["job"]["text"], "hello");
    assert_eq!(delivery["job"]["lease"]["until_ms"], delivery["until_ms"]);
    let token = delivery["token"].as_str().unwrap();
    let ack = format!("/v1/jobs/{id}/ack");
    service.post(&ack, json!({"token": STALE})).await.problem(409, "stale-lease");
    let acked = service.post(&ack, json!({"token": token})).await;
    assert_eq!((acked.status, acked.json()), (200, json!({"state": "done"})));
    service.post(&ack, json!({"token": token})).await.problem(404, "not-found");
    service.stop().await;
}

#[tokio::test]
async fn an_empty_body_reserves_one_job_at_once() {
    let service = Service::start().await;
    assert_eq!(service.poke("/v1/queues/q/reserve").await.json(), json!({"deliveries": []}));
    service.put_text("q", "a").await;
    service.put_text("q", "b").await;
    let answer = service.poke("/v1/queues/q/reserve").await.json();
    assert_eq!(answer["deliveries"].as_array().unwrap().len(), 1);
    let rest = service.post("/v1/queues/q/reserve", json!({"limit": 10})).await.json();
    assert_eq!(rest["deliveries"].as_array().unwrap().len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn a_worker_waits_for_a_job_that_is_put_later() {
    let service = Service::start().await;
    let waiting = async {
        let started = Instant::now();
        let answer = service.post("/v1/queues/q/reserve", json!({"wait": "20s"})).await;
        (answer.json(), started.elapsed())
    };
    let putting = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        service.post("/v1/queues/q/jobs", json!({"text": "x", "delay": 150})).await
    };
    let ((answer, waited), _) = tokio::join!(waiting, putting);
    assert_eq!(answer["deliveries"][0]["job"]["text"], "x");
    assert!(waited >= Duration::from_millis(250) && waited < Duration::from_secs(15), "{waited:?}");
    let nothing = service.post("/v1/queues/q/reserve", json!({"wait": 50})).await;
    assert_eq!(nothing.json(), json!({"deliveries": []}));
    service.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_takes_nothing_with_it() {
    let service = Service::start().await;
    for _ in 0..20 {
        let mut gone = service.connect().await;
        let request = Request::new("POST", "/v1/queues/q/reserve").json(&json!({"wait": "30s"}));
        gone.write(&request.bytes()).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(gone);
    }
    // A worker that the service still considered waiting would get the job; none of them may keep
    // it.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let id = service.put_text("q", "x").await;
    let answer = service.post("/v1/queues/q/reserve", json!({"wait": "10s"})).await.json();
    assert_eq!(answer["deliveries"][0]["job"]["id"], id);
    assert_eq!(answer["deliveries"][0]["job"]["attempts"], 1);
    service.stop().await;
}

#[tokio::test]
async fn a_failed_job_is_tried_again_or_dead_and_kicked() {
    let service = Service::start().await;
    let id = service.put_text("q", "x").await;
    let fail = format!("/v1/jobs/{id}/fail");
    let (_, token) = service.reserve_one("q").await;
    let failed = service.post(&fail, json!({"token": token, "error": "no", "delay": 0})).await;
    assert_eq!(failed.json(), json!({"state": "ready"}));
    let (_, token) = service.reserve_one("q").await;
    let both = service.post(&fail, json!({"token": token, "delay": 1, "dead": true})).await;
    assert_eq!(both.problem(422, "invalid-field").as_deref(), Some("/dead"));
    let long = service.post(&fail, json!({"token": token, "error": "x".repeat(5_000)})).await;
    assert_eq!(long.problem(422, "invalid-field").as_deref(), Some("/error"));
    let failed =
        service.post(&fail, json!({"token": token, "error": "really no", "dead": true})).await;
    assert_eq!(failed.json(), json!({"state": "dead"}));
    let job = service.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!((&job["state"], &job["last_error"]), (&json!("dead"), &json!("really no")));
    assert!(job["finished_ms"].is_u64() && job["finished"].is_string());
    let kick = format!("/v1/jobs/{id}/kick");
    assert_eq!(service.poke(&kick).await.json(), json!({"state": "ready"}));
    service.poke(&kick).await.problem(409, "wrong-state");
    assert_eq!(service.reserve_one("q").await.0, id);
    service.stop().await;
}

#[tokio::test]
async fn a_lease_is_extended_and_released() {
    let service = Service::start().await;
    let id = service.put_text("q", "x").await;
    let (_, token) = service.reserve_one("q").await;
    let extend = format!("/v1/jobs/{id}/extend");
    let extended = service.post(&extend, json!({"token": token, "lease": "1h"})).await.json();
    assert!(extended["until_ms"].as_u64() > Some(1_700_000_000_000));
    for lease in [json!(0), json!("2w")] {
        let wrong = service.post(&extend, json!({"token": token, "lease": lease})).await;
        assert_eq!(wrong.problem(422, "invalid-field").as_deref(), Some("/lease"));
    }
    let missing = service.post(&extend, json!({"token": token})).await;
    assert_eq!(missing.problem(422, "missing-field").as_deref(), Some("/lease"));
    let release = format!("/v1/jobs/{id}/release");
    let wrong = service.post(&release, json!({"token": "x"})).await;
    assert_eq!(wrong.problem(422, "invalid-field").as_deref(), Some("/token"));
    assert_eq!(
        service.post(&release, json!({"token": token})).await.json(),
        json!({"released": true})
    );
    service.post(&release, json!({"token": token})).await.problem(409, "stale-lease");
    let (again, _) = service.reserve_one("q").await;
    assert_eq!(again, id);
    service.stop().await;
}

#[tokio::test]
async fn a_request_that_asks_too_much_is_refused() {
    let service = Service::start().await;
    for (body, field) in [
        (json!({"limit": 0}), "/limit"),
        (json!({"limit": 1_001}), "/limit"),
        (json!({"wait": "61s"}), "/wait"),
        (json!({"lease": 0}), "/lease"),
        (json!({"lease": "8d"}), "/lease"),
        (json!({"limit": -1}), "/limit"),
    ] {
        let answer = service.post("/v1/queues/q/reserve", body.clone()).await;
        assert_eq!(answer.problem(422, "invalid-field").as_deref(), Some(field), "{body}");
    }
    service.stop().await;
}

#[tokio::test]
async fn workers_say_it_for_many_at_once() {
    let service = Service::start().await;
    let jobs: Vec<Value> = (0..5).map(|_| json!({"queue": "q", "text": ""})).collect();
    service.post("/v1/jobs/batch", json!({"jobs": jobs})).await;
    let reserve = json!({"limit": 5});
    let deliveries =
        service.post("/v1/queues/q/reserve", reserve).await.json()["deliveries"].clone();
    let item = |index: usize, more: Value| {
        let delivery = &deliveries[index];
        let mut item = json!({"id": delivery["job"]["id"], "token": delivery["token"]});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    let send = async |what: &str, items: Value| {
        let answer = service.post(&format!("/v1/jobs/batch/{what}"), json!({"items": items})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["results"].clone()
    };
    let stale = json!({"id": deliveries[0]["job"]["id"], "token": STALE});
    let acked = send("ack", json!([item(0, json!({})), stale])).await;
    assert_eq!(
        (&acked[0]["ok"]["state"], &acked[1]["error"]["status"]),
        (&json!("done"), &json!(404))
    );
    let failed = send(
        "fail",
        json!([
            item(1, json!({"error": "e", "dead": true})),
            item(2, json!({"dead": true, "delay": 1}))
        ]),
    )
    .await;
    assert_eq!(failed[0]["ok"]["state"], "dead");
    assert_eq!(failed[1]["error"]["field"], "/items/1/dead");
    let extended =
        send("extend", json!([item(3, json!({"lease": "1h"})), item(3, json!({"lease": 0}))]))
            .await;
    assert!(extended[0]["ok"]["until_ms"].is_u64());
    assert_eq!(extended[1]["error"]["field"], "/items/1/lease");
    let released = send("release", json!([item(4, json!({"delay": "1h"}))])).await;
    assert_eq!(released[0]["ok"]["released"], true);
    let kicked = send(
        "kick",
        json!([{"id": deliveries[1]["job"]["id"]}, {"id": deliveries[4]["job"]["id"]}]),
    )
    .await;
    assert_eq!(kicked[0]["ok"]["state"], "ready");
    assert_eq!(kicked[1]["error"]["code"], "wrong-state");
    service.stop().await;
}
