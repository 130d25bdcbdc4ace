//! Push delivery: the requests that targets get, and the outcomes of jobs.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_server::tokens::Scope;
use tickwheel_server::{Config, config::PushAllow};

use crate::client::{PATIENCE, Request, Service, token};
use crate::target::{HttpTarget, Reply, status, text, with_body, with_header};

fn allow_loopback(config: &mut Config) {
    config.push.allow = "127.0.0.0/8".parse::<PushAllow>().unwrap();
}

async fn service() -> Service {
    Service::with(allow_loopback).await
}

/// Adds the target `partner`, lets the queue `orders` deliver to it, and returns the secret.
async fn aim(service: &Service, target: &HttpTarget, more: Value) -> String {
    let mut settings = json!({"url": target.url("/hook")});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let added = service.put("/v1/targets/partner", settings).await;
    assert_eq!(added.status, 201, "{added:?}");
    aim_queue(service, "orders", json!({})).await;
    text(&added.json()["secret"])
}

async fn aim_queue(service: &Service, queue: &str, more: Value) {
    let mut settings =
        json!({"target": "partner", "retention": {"done": {}}, "retry": {"fixed": 1}});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = format!("/v1/queues/{queue}/settings");
    let request = Request::new("PATCH", &path).json(&settings);
    let answer = service.send(request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Waits until a job is in a state.
async fn job_becomes(service: &Service, id: &str, state: &str) -> Value {
    let reached = async {
        loop {
            let job = service.get(&format!("/v1/jobs/{id}")).await.json();
            if job["state"] == state {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if let Ok(job) = tokio::time::timeout(2 * PATIENCE, reached).await {
        return job;
    }
    panic!("{}", service.get(&format!("/v1/jobs/{id}")).await.body)
}

async fn target_becomes(service: &Service, state: &str) -> Value {
    let reached = async {
        loop {
            let target = service.get("/v1/targets/partner").await.json();
            if target["state"] == state {
                return target;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if let Ok(target) = tokio::time::timeout(2 * PATIENCE, reached).await {
        return target;
    }
    panic!("{}", service.get("/v1/targets/partner").await.body)
}

#[tokio::test]
async fn a_job_is_sent_signed_and_acknowledged_with_the_answer_as_result() {
    let (service, target) = (service().await, HttpTarget::start().await);
    target.always(with_body(200, r#"{"accepted":true}"#));
    let secret = aim(&service, &target, json!({"url": target.url("/v1/{queue}/{key}")})).await;
    assert!(secret.starts_with("whsec_"));
    let put = json!({"payload": {"order": 42}, "key": "order 42"});
    let id = text(&service.post("/v1/queues/orders/jobs", put).await.json()["id"]);
    let job = job_becomes(&service, &id, "done").await;
    assert_eq!(job["result"], json!({"accepted": true}));
    let sent = &target.arrived()[0];
    assert_eq!(sent.line, "POST /v1/orders/order%2042 HTTP/1.1");
    assert_eq!(sent.body, br#"{"order":42}"#);
    assert_eq!(sent.id(), id);
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("tickwheel-queue"), Some("orders"));
    assert_eq!(sent.header("tickwheel-attempt"), Some("1"));
    let headers: std::collections::HashMap<_, _> = sent.headers.iter().cloned().collect();
    verify(&secret, &headers, &sent.body);
    let shown = service.get("/v1/targets/partner").await;
    assert_eq!(shown.json()["counts"]["delivered"], 1);
    assert_eq!(shown.json()["queues"], json!(["orders"]));
    let response = &shown.json()["responses"][0];
    assert_eq!((&response["status"], &response["verdict"]), (&json!(200), &json!("delivered")));
    assert_eq!(response["excerpt"], r#"{"accepted":true}"#);
    let list = service.get("/v1/targets").await.json();
    assert_eq!(&list["targets"][0]["responses"][0], response);
    // The secret is shown once.
    assert!(!shown.body.contains(&secret[6..]), "{}", shown.body);
    let metrics = service.get("/metrics").await.body;
    let line = "tickwheel_target_requests_total{target=\"partner\",outcome=\"delivered\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    service.stop().await;
}

/// Verifies a signature as receivers do, with the library of Standard Webhooks.
fn verify(secret: &str, headers: &std::collections::HashMap<String, String>, body: &[u8]) {
    let headers: hyper::HeaderMap = headers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    standardwebhooks::Webhook::new(secret).unwrap().verify(body, &headers).unwrap();
    assert!(standardwebhooks::Webhook::new(secret).unwrap().verify(b"forged", &headers).is_err());
}

#[tokio::test]
async fn a_single_job_names_its_target() {
    let (service, target) = (service().await, HttpTarget::start().await);
    let settings = json!({"url": target.url("/{queue}")});
    assert_eq!(service.put("/v1/targets/partner", settings).await.status, 201);
    let patch = json!({"max_attempts": 3, "retention": {"done": {}}});
    let request = Request::new("PATCH", "/v1/queues/orders/settings").json(&patch);
    assert_eq!(service.send(request).await.status, 200);
    // A job without a target stays for the workers of its queue.
    service.put_text("orders", "for a worker").await;
    let aimed = json!({"text": "for the partner", "target": "partner", "key": "k"});
    let put = service.post("/v1/queues/orders/jobs", aimed).await;
    assert_eq!((put.status, &put.json()["queue"]), (201, &json!("orders.partner")), "{put:?}");
    let sent = &target.wait_for(1).await[0];
    assert_eq!(
        (&sent.line[..], &sent.body[..]),
        ("POST /orders.partner HTTP/1.1", &b"for the partner"[..])
    );
    job_becomes(&service, &text(&put.json()["id"]), "done").await;
    let queue = service.get("/v1/queues/orders.partner").await.json();
    assert_eq!(queue["settings"]["target"], "partner");
    assert_eq!(queue["settings"]["max_attempts"], 3, "the settings of the queue that was named");
    assert_eq!(service.get("/v1/queues/orders").await.json()["jobs"]["ready"], 1);

    // The same in a batch, with an idempotency key.
    let item = |target: &str| json!({"queue": "orders", "text": "x", "target": target});
    let items = json!({"items": [item("partner"), item("nobody"), item("no/name")]});
    let batch =
        || Request::new("POST", "/v1/jobs/batch").json(&items).header("idempotency-key", "once");
    let results = service.send(batch()).await.json()["results"].clone();
    assert_eq!(results[0]["ok"]["queue"], "orders.partner", "{results}");
    assert_eq!(results[1]["error"]["field"], "/items/1/target", "{results}");
    assert_eq!(results[2]["error"]["field"], "/items/2/target", "{results}");
    target.wait_for(2).await;
    assert_eq!(service.send(batch()).await.json()["results"][0], results[0]);
    // A queue of that name that does not deliver to the target is left alone.
    service.put_text("other.partner", "x").await;
    let put = json!({"text": "x", "target": "partner"});
    let refused = service.post("/v1/queues/other/jobs", put).await;
    assert_eq!(refused.problem(422, "invalid-field").as_deref(), Some("/target"));
    assert_eq!(target.arrived().len(), 2);
    service.stop().await;
}

#[tokio::test]
async fn a_failed_attempt_is_retried_with_the_same_id() {
    let (service, target) = (service().await, HttpTarget::start().await);
    target.next([with_body(500, "try later"), status(302), Reply::Close, status(400)]);
    aim(&service, &target, json!({})).await;
    let id = service.put_text("orders", "x").await;
    let job = job_becomes(&service, &id, "done").await;
    assert_eq!(job["attempts"], 5);
    // The history records every attempt: worker, time, outcome and the target's answer.
    let history = job["history"].as_array().unwrap();
    let errors: Vec<_> = history[..4].iter().map(|attempt| text(&attempt["error"])).collect();
    let parts = ["answered 500", "redirects are not followed", "no answer", "answered 400"];
    for (error, part) in errors.iter().zip(parts) {
        assert!(error.contains(part), "{errors:?}");
    }
    assert_eq!(
        (&history[0]["detail"], &history[0]["worker"]),
        (&json!("try later"), &json!("target partner"))
    );
    assert_eq!(history[4]["outcome"], "done");
    let arrived = target.arrived();
    assert_eq!(arrived.len(), 5);
    for (number, request) in arrived.iter().enumerate() {
        assert_eq!(request.id(), id);
        assert_eq!(request.header("tickwheel-attempt"), Some(&(number + 1).to_string()[..]));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_redirect_to_this_machine_is_not_followed() {
    let (service, target) = (service().await, HttpTarget::start().await);
    // Its address is allowed: nothing but the redirect keeps requests away from it.
    let inner = HttpTarget::start().await;
    let statuses = [301, 302, 303, 307, 308];
    target.next(statuses.map(|status| with_header(status, "location", &inner.url("/admin"))));
    aim(&service, &target, json!({"max_attempts": 5})).await;
    let id = service.put_text("orders", "x").await;
    let job = job_becomes(&service, &id, "dead").await;
    let history = job["history"].as_array().unwrap();
    assert_eq!(history.len(), statuses.len(), "{job}");
    for (attempt, status) in history.iter().zip(statuses) {
        let error = text(&attempt["error"]);
        let is_told = error.contains("redirects are not followed");
        assert!(is_told && error.contains(&status.to_string()), "{error}");
    }
    target.next([with_header(302, "location", &inner.url("/admin"))]);
    assert_eq!(service.poke("/v1/targets/partner/test").await.json()["status"], 302);
    assert_eq!((target.count(), inner.count()), (statuses.len() + 1, 0));
    service.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_cut_off_counts_from_its_status_line_on() {
    let (service, target) = (service().await, HttpTarget::start().await);
    let cut = |text: &str| Reply::Cut(text.to_owned());
    let half =
        |status: u16| cut(&format!("HTTP/1.1 {status} X\r\ncontent-length: 100\r\n\r\nhalf"));
    // A 2xx acknowledges the job, with what came of the body.
    aim(&service, &target, json!({})).await;
    let chunked = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n64\r\nth";
    for reply in [half(200), cut(chunked)] {
        target.next([reply]);
        let id = service.put_text("orders", "x").await;
        let job = job_becomes(&service, &id, "done").await;
        assert_eq!(job["attempts"], 1, "{job}");
        assert!(text(&job["result"]).starts_with("half"), "{job}");
    }
    // Any other status is a failed attempt with that excerpt, and half a head is no answer.
    target.next([half(400), cut("HTTP/1.1 200 X\r\ncontent-len")]);
    let id = service.put_text("orders", "x").await;
    let job = job_becomes(&service, &id, "done").await;
    assert_eq!(job["attempts"], 3, "{job}");
    let history = job["history"].as_array().unwrap();
    assert_eq!(history[0]["detail"], "half", "{job}");
    assert!(text(&history[0]["error"]).contains("answered 400"), "{job}");
    assert!(text(&history[1]["error"]).contains("no answer"), "{job}");
    assert_eq!(target.count(), 2 + 3);
    service.stop().await;
}

#[tokio::test]
async fn a_job_whose_target_says_never_dies_at_once() {
    let (service, target) = (service().await, HttpTarget::start().await);
    target.next([with_header(422, "tickwheel-retry", "never")]);
    aim(&service, &target, json!({})).await;
    let id = service.put_text("orders", "x").await;
    let job = job_becomes(&service, &id, "dead").await;
    assert_eq!(job["attempts"], 1);
    assert!(text(&job["last_error"]).contains("answered 422"), "{job}");
    // The target's limit of attempts applies to jobs without one.
    let answer = Request::new("PATCH", "/v1/targets/partner").json(&json!({"max_attempts": 2}));
    assert_eq!(service.send(answer).await.status, 200);
    target.next([status(400), status(400)]);
    let id = service.put_text("orders", "x").await;
    assert_eq!(job_becomes(&service, &id, "dead").await["attempts"], 2);
    service.stop().await;
}

#[tokio::test]
async fn a_target_that_asks_to_wait_is_held_and_no_attempt_counts() {
    let (service, target) = (service().await, HttpTarget::start().await);
    let soon = std::time::SystemTime::now() + Duration::from_secs(2);
    target.next([
        with_header(429, "retry-after", "1"),
        with_header(503, "retry-after", &httpdate::fmt_http_date(soon)),
    ]);
    aim(&service, &target, json!({"pacing": {"concurrency": 1}})).await;
    let id = service.put_text("orders", "x").await;
    let held = target_becomes(&service, "held").await;
    assert!(text(&held["reason"]).contains("429") && held["next_probe"].is_string(), "{held}");
    let job = job_becomes(&service, &id, "done").await;
    assert_eq!(job["attempts"], 1);
    for (attempt, status) in [(0, "429"), (1, "503")] {
        let attempt = &job["history"][attempt];
        assert_eq!(attempt["outcome"], "released", "{job}");
        assert!(text(&attempt["error"]).contains(status), "{job}");
    }
    let arrived = target.arrived();
    assert_eq!(arrived.len(), 3);
    assert!(arrived[1].at - arrived[0].at >= Duration::from_secs(1));
    assert!(arrived[2].at - arrived[1].at >= Duration::from_secs(1));
    service.stop().await;
}

#[tokio::test]
async fn a_hold_survives_a_restart() {
    let (service, target) = (service().await, HttpTarget::start().await);
    target.next([with_header(429, "retry-after", "3000")]);
    aim(&service, &target, json!({})).await;
    service.put_text("orders", "x").await;
    let before = target_becomes(&service, "held").await;
    let folder = service.stop().await;
    let service = Service::on(folder, allow_loopback).await;
    let after = service.get("/v1/targets/partner").await.json();
    assert_eq!((&after["state"], &after["reason"]), (&before["state"], &before["reason"]));
    assert_eq!(after["next_probe_ms"], before["next_probe_ms"]);
    assert_eq!(target.arrived().len(), 1);
    // A target that is resumed by hand gets the job at once.
    assert_eq!(service.poke("/v1/targets/partner/resume").await.json()["state"], "slow");
    assert_eq!(target.wait_for(2).await[0].id(), target.arrived()[1].id());
    service.stop().await;
}

/// A target that failed once is sent its backlog slowly, and a restart neither forgets that nor
/// starts again at the full rate. The rate doubles each second at most and a restart may repeat one
/// second of it, so fewer than `3 * 2^n` requests come in the first `n + 1` seconds, however late
/// this test looks.
#[tokio::test]
async fn a_ramp_survives_a_restart() {
    const JOBS: usize = 400;
    let (service, target) = (service().await, HttpTarget::start().await);
    target.next([status(502)]);
    aim(&service, &target, json!({"pacing": {"concurrency": 64}})).await;
    service.put_text("orders", "x").await;
    let slow = target_becomes(&service, "slow").await;
    assert!(text(&slow["reason"]).contains("502"), "{slow}");
    let items = vec![json!({"queue": "orders", "text": "x"}); JOBS];
    let answer = service.post("/v1/jobs/batch", json!({"items": items})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // The second level of the ramp.
    target.wait_for(1 + 1 + 2).await;
    let folder = service.stop().await;
    let before = target.count();
    let service = Service::on(folder, allow_loopback).await;
    let again = service.get("/v1/targets/partner").await.json();
    assert_eq!((&again["state"], &again["reason"]), (&json!("slow"), &slow["reason"]), "{again}");
    let arrived = target.wait_for(before + 30).await;
    let failed = arrived[0].at;
    for (count, request) in (1_u64..).zip(&arrived[1..]) {
        let second = (request.at - failed).as_secs().min(32);
        assert!(count < 3 << second, "{count} requests within {:?}", request.at - failed);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_target_that_is_gone_gets_nothing_until_it_is_resumed() {
    let (service, target) = (service().await, HttpTarget::start().await);
    target.next([status(410)]);
    aim(&service, &target, json!({"pacing": {"concurrency": 1}})).await;
    let ids = [service.put_text("orders", "x").await, service.put_text("orders", "y").await];
    target_becomes(&service, "stopped").await;
    let jobs = service.get("/v1/queues/orders").await.json()["jobs"].clone();
    assert_eq!((&jobs["dead"], target.arrived().len()), (&json!(0), 1));
    service.poke("/v1/targets/partner/resume").await;
    for id in ids {
        assert_eq!(job_becomes(&service, &id, "done").await["attempts"], 1);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_paused_target_gets_nothing() {
    let (service, target) = (service().await, HttpTarget::start().await);
    aim(&service, &target, json!({})).await;
    assert_eq!(service.poke("/v1/targets/partner/pause").await.json()["state"], "paused");
    let id = service.put_text("orders", "x").await;
    let folder = service.stop().await;
    let service = Service::on(folder, allow_loopback).await;
    assert_eq!(service.get("/v1/targets/partner").await.json()["state"], "paused");
    assert!(target.arrived().is_empty());
    service.poke("/v1/targets/partner/resume").await;
    job_becomes(&service, &id, "done").await;
    service.stop().await;
}

#[tokio::test]
async fn answers_are_bounded_in_size_and_time() {
    let (service, target) = (service().await, HttpTarget::start().await);
    let huge = "x".repeat(1 << 20);
    let cut = "HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\nhalf".to_owned();
    target.next([with_body(200, &huge), Reply::Trickle]);
    aim(&service, &target, json!({"timeout": "300ms", "pacing": {"concurrency": 1}})).await;
    for _ in 0..2 {
        let id = service.put_text("orders", "x").await;
        let job = job_becomes(&service, &id, "done").await;
        let result = text(&job["result"]);
        assert!(!result.is_empty() && result.len() <= 64 << 10, "{} bytes", result.len());
    }
    // Silence counts as a failure, and so does an answer that comes too late.
    target.next([Reply::Silence, Reply::Slow(Duration::from_secs(60), cut)]);
    let id = service.put_text("orders", "x").await;
    let job = job_becomes(&service, &id, "done").await;
    assert_eq!(job["attempts"], 3);
    service.stop().await;
}

#[tokio::test]
async fn the_lease_is_extended_while_a_request_runs() {
    let (service, target) = (service().await, HttpTarget::start().await);
    let late = "HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n".to_owned();
    target.next([Reply::Slow(Duration::from_millis(1_500), late)]);
    aim(&service, &target, json!({})).await;
    aim_queue(&service, "orders", json!({"lease": "300ms"})).await;
    let id = service.put_text("orders", "x").await;
    assert_eq!(job_becomes(&service, &id, "done").await["attempts"], 1);
    assert_eq!(target.arrived().len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn private_addresses_are_denied_in_any_notation() {
    let service = Service::start().await;
    let target = HttpTarget::start().await;
    let port = target.address.port();
    for host in [
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "localhost",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ] {
        let settings = json!({"url": format!("http://{host}:{port}/")});
        assert!(service.put("/v1/targets/inner", settings).await.status < 300);
        let test = service.poke("/v1/targets/inner/test").await.json();
        let why = text(&test["error"]);
        assert!(
            why.contains("which targets may not have") || why.contains("resolved"),
            "{host}: {why}"
        );
        assert!(test["status"].is_null());
    }
    assert!(target.arrived().is_empty());
    service.stop().await;
}

#[tokio::test]
async fn a_test_shows_everything_but_credentials() {
    let (service, target) = (service().await, HttpTarget::start().await);
    target.next([with_header(429, "retry-after", "100")]);
    let more = json!({"url": target.url("/{header:x-kind}"), "headers": {"authorization": "Bearer abc"},
        "pacing": {"starts": 1, "window": "1h"}});
    aim(&service, &target, more).await;
    let test = service.poke("/v1/targets/partner/test").await;
    assert!(!test.body.contains("Bearer abc"));
    let test = test.json();
    assert_eq!((&test["verdict"], &test["status"]), (&json!("held"), &json!(429)));
    assert_eq!(test["url"], target.url("/test"));
    let arrived = target.arrived();
    assert_eq!(arrived[0].header("authorization"), Some("Bearer abc"));
    assert_eq!(arrived[0].id(), text(&test["id"]));
    // A test request neither changes the target's state nor exceeds its rate.
    assert_eq!(service.get("/v1/targets/partner").await.json()["state"], "active");
    service.poke("/v1/targets/partner/test").await.problem(429, "rate-limited");
    service.stop().await;
}

#[tokio::test]
async fn only_an_administrator_of_all_queues_manages_targets() {
    let folder = tempfile::tempdir().unwrap();
    let produce = token(&folder, "p", &[Scope::Produce, Scope::Consume, Scope::Read], &["*"]);
    let tenant = token(&folder, "t", &[Scope::Admin], &["orders*"]);
    let admin = token(&folder, "a", &[Scope::Admin, Scope::Read], &["*"]);
    let service = Service::on(folder, allow_loopback).await;
    let settings = json!({"url": "http://127.0.0.1:1/"});
    let put = |who: &str| Request::new("PUT", "/v1/targets/partner").json(&settings).token(who);
    for who in [&produce, &tenant] {
        service.send(put(who)).await.problem(403, "forbidden");
        for (method, path) in
            [("DELETE", ""), ("POST", "/pause"), ("POST", "/test"), ("POST", "/rotate")]
        {
            let request = Request::new(method, &format!("/v1/targets/partner{path}")).token(who);
            service.send(request).await.problem(403, "forbidden");
        }
    }
    assert_eq!(service.send(put(&admin)).await.status, 201);
    let aim =
        Request::new("PATCH", "/v1/queues/orders/settings").json(&json!({"target": "partner"}));
    service.send(aim.clone().token(&tenant)).await.problem(403, "forbidden");
    assert_eq!(service.send(aim.token(&admin)).await.status, 200);
    let job = json!({"text": "x", "target": "partner"});
    let put = Request::new("POST", "/v1/queues/orders-2/jobs").json(&job);
    for who in [&produce, &tenant] {
        service.send(put.clone().token(who)).await.problem(403, "forbidden");
    }
    assert_eq!(service.send(put.token(&admin)).await.status, 201);
    let list = Request::new("GET", "/v1/targets");
    assert_eq!(service.send(list.clone().token(&produce)).await.status, 200);
    service.send(list.token(&tenant)).await.problem(403, "forbidden");
    let remove = Request::new("DELETE", "/v1/targets/partner").token(&admin);
    service.send(remove).await.problem(409, "wrong-state");
    service.stop().await;
}

#[tokio::test]
async fn wrong_settings_are_refused_with_their_field() {
    let service = Service::start().await;
    let long = "x".repeat(70_000);
    for (settings, field) in [
        (json!({"url": "ftp://x/"}), "/url"),
        (json!({"url": "http://{key}/"}), "/url"),
        (json!({"url": "http://x/", "timeout": 0}), "/timeout"),
        (json!({"url": "http://x/", "timeout": "31m"}), "/timeout"),
        (json!({"url": "http://x/", "pacing": {"starts": 0, "window": "1s"}}), "/pacing/starts"),
        (json!({"url": "http://x/", "pacing": {"concurrency": 5000}}), "/pacing/concurrency"),
        (json!({"url": "http://x/", "headers": {"webhook-id": "1"}}), "/headers"),
        (json!({"url": "http://x/", "headers": {"a b": "1"}}), "/headers"),
        (json!({"url": "http://x/", "headers": {"authorization": "…"}}), "/headers"),
        (json!({"url": "http://x/", "forward": ["host"]}), "/forward"),
        (json!({"url": "http://x/", "ca": "none"}), "/ca"),
        (json!({"url": "http://x/", "ca": long}), "/ca"),
        (json!({"url": "http://x/", "max_attempts": 0}), "/max_attempts"),
        (json!({"url": "http://x/", "retry": {"list": []}}), "/retry/list"),
    ] {
        let refused = service.put("/v1/targets/partner", settings.clone()).await;
        let found = refused.problem(422, "invalid-field");
        assert_eq!(found.as_deref(), Some(field), "{settings}");
    }
    let half = json!({"url": "http://x/", "pacing": {"starts": 5}});
    let refused = service.put("/v1/targets/partner", half).await;
    assert_eq!(refused.problem(422, "missing-field").as_deref(), Some("/pacing/window"));
    service
        .put("/v1/targets/.x", json!({"url": "http://x/"}))
        .await
        .problem(400, "invalid-parameter");
    let unknown =
        Request::new("PATCH", "/v1/queues/orders/settings").json(&json!({"target": "no"}));
    let refused = service.send(unknown).await;
    assert_eq!(refused.problem(422, "invalid-field").as_deref(), Some("/target"));
    service.get("/v1/targets/no").await.problem(404, "not-found");
    service.stop().await;
}

#[tokio::test]
async fn changes_of_a_target_are_told_as_events() {
    let (service, target) = (service().await, HttpTarget::start().await);
    aim(&service, &target, json!({})).await;
    let mut client = service.connect().await;
    client.write(&Request::new("GET", "/v1/target-events").bytes()).await;
    let (status, _) = client.head().await.unwrap();
    assert_eq!(status, 200);
    let mut told = String::new();
    while !told.contains("event: active\ndata: {\"target\":\"partner\"") {
        told.push_str(&String::from_utf8(client.chunk().await.unwrap()).unwrap());
    }
    target.next([with_header(429, "retry-after", "100")]);
    service.put_text("orders", "x").await;
    while !told.contains("event: held\n") {
        told.push_str(&String::from_utf8(client.chunk().await.unwrap()).unwrap());
    }
    assert!(told.contains("answered 429") && told.contains("\"next_probe_ms\":"), "{told}");
    service.stop().await;
}
