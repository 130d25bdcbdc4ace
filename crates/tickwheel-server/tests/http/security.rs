//! Tokens, scopes, patterns, and requests that a browser can be tricked into sending.

use serde_json::json;
use tickwheel_server::tokens::{Scope, TokenStore};
use tickwheel_server::{Server, StartError};

use crate::client::{PATIENCE, Request, Service, config, token};

#[tokio::test]
async fn a_token_is_needed_once_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let admin = token(&folder, "admin", &[Scope::Admin], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    let get = || Request::new("GET", "/v1/queues");
    let refused = service.send(get()).await;
    assert_eq!(refused.problem(401, "unauthorized").as_deref(), Some("authorization"));
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(service.send(get().token(&admin)).await.status, 200);
    let longer = format!("{admin}0");
    let wrong_id = admin.replacen("twk_", "twk_0", 1);
    for wrong in ["", "twk_", "x", &admin[4..], &admin[..admin.len() - 1], &longer, &wrong_id] {
        service.send(get().token(wrong)).await.problem(401, "unauthorized");
    }
    service
        .send(get().header("authorization", &format!("Basic {admin}")))
        .await
        .problem(401, "unauthorized");
    for open in ["/healthz", "/readyz", "/openapi.json", "/docs", "/problems/forbidden"] {
        assert_eq!(service.get(open).await.status, 200, "{open}");
    }
    for closed in ["/metrics", "/v1/stats", "/v1/nowhere", "/nowhere"] {
        service.get(closed).await.problem(401, "unauthorized");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_token_that_comes_later_holds_and_one_that_goes_does_not_open_the_door() {
    let service = Service::start().await;
    assert_eq!(service.get("/v1/queues").await.status, 200);
    let secret = token(&service.folder, "late", &[Scope::Read], &["*"]);
    let until = async |wanted: u16, request: Request| {
        let poll = async {
            while service.send(request.clone()).await.status != wanted {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, poll).await.expect("the tokens are read again");
    };
    until(401, Request::new("GET", "/v1/queues")).await;
    let with_token = Request::new("GET", "/v1/queues").token(&secret);
    assert_eq!(service.send(with_token.clone()).await.status, 200);
    TokenStore::new(service.folder.path()).remove("late").unwrap();
    until(401, with_token).await;
    service.get("/v1/queues").await.problem(401, "unauthorized");
    service.stop().await;
}

#[tokio::test]
async fn scopes_and_patterns_bound_what_a_token_can_do() {
    let folder = tempfile::tempdir().unwrap();
    let admin = token(&folder, "admin", &[Scope::Admin], &["*"]);
    let reader = token(&folder, "reader", &[Scope::Read], &["a-*"]);
    let producer = token(&folder, "producer", &[Scope::Produce], &["a-*", "c"]);
    let consumer = token(&folder, "consumer", &[Scope::Consume], &["a-*"]);
    let boss = token(&folder, "boss", &[Scope::Admin], &["a-*"]);
    let service = Service::on(folder, |_| {}).await;
    let send = async |token: &str, method: &str, path: &str, json: serde_json::Value| {
        let mut request = Request::new(method, path).token(token);
        if method != "GET" && method != "DELETE" {
            request = request.json(&json);
        }
        service.send(request).await
    };
    let put = async |queue: &str| {
        let path = format!("/v1/queues/{queue}/jobs");
        send(&admin, "POST", &path, json!({"text": ""})).await.json()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (ours, theirs) = (put("a-1").await, put("b").await);
    let text = json!({"text": ""});
    let delay = json!({"delay": 1});
    let lease = json!({"token": "00000000000000ff"});
    // The token, the request, and the status for the tenant's own queue. Other scopes always get
    // 403.
    let cases = [
        (&reader, "GET", "/v1/queues/{q}", json!({}), 200),
        (&reader, "GET", "/v1/queues/{q}/jobs", json!({}), 200),
        (&reader, "GET", "/v1/jobs/{id}", json!({}), 200),
        (&reader, "GET", "/v1/queues/{q}/keys/none", json!({}), 404),
        (&producer, "POST", "/v1/queues/{q}/jobs", text, 201),
        (&producer, "POST", "/v1/jobs/{id}/reschedule", delay.clone(), 200),
        (&producer, "POST", "/v1/queues/{q}/keys/none/reschedule", delay, 404),
        (&producer, "DELETE", "/v1/queues/{q}/keys/none", json!({}), 404),
        (&consumer, "POST", "/v1/queues/{q}/reserve", json!({}), 200),
        (&consumer, "POST", "/v1/jobs/{id}/ack", lease.clone(), 409),
        (&consumer, "POST", "/v1/jobs/{id}/fail", lease.clone(), 409),
        (&consumer, "POST", "/v1/jobs/{id}/release", lease, 409),
        (
            &consumer,
            "POST",
            "/v1/jobs/{id}/extend",
            json!({"token": "00000000000000ff", "lease": 1}),
            409,
        ),
        (&boss, "POST", "/v1/jobs/{id}/kick", json!({}), 409),
        (&boss, "POST", "/v1/queues/{q}/kick", json!({}), 200),
        (&boss, "POST", "/v1/queues/{q}/purge", json!({"state": "dead"}), 200),
        (&boss, "POST", "/v1/queues/{q}/pause", json!({}), 200),
        (&boss, "POST", "/v1/queues/{q}/resume", json!({}), 200),
        (&boss, "PUT", "/v1/queues/{q}/settings", json!({}), 200),
        (&boss, "PATCH", "/v1/queues/{q}/settings", json!({}), 200),
        (&boss, "POST", "/v1/queues/{q}/drain", json!({}), 200),
    ];
    for (who, method, path, body, wanted) in cases {
        let ours = path.replace("{q}", "a-1").replace("{id}", &ours);
        let theirs = path.replace("{q}", "b").replace("{id}", &theirs);
        let answer = send(who, method, &ours, body.clone()).await;
        assert_eq!(answer.status, wanted, "{method} {ours}: {answer:?}");
        // A request that names a foreign queue is forbidden; a job of such a queue is not found.
        let (status, code) =
            if path.contains("{q}") { (403, "forbidden") } else { (404, "not-found") };
        send(who, method, &theirs, body.clone()).await.problem(status, code);
        for other in [&reader, &producer, &consumer] {
            if other != who {
                send(other, method, &ours, body.clone()).await.problem(403, "forbidden");
            }
        }
    }
    let batch = json!({"jobs": [{"queue": "c", "text": ""}, {"queue": "b", "text": ""}]});
    let results = send(&producer, "POST", "/v1/jobs/batch", batch).await.json()["results"].clone();
    assert_eq!(results[0]["ok"]["outcome"], "created");
    assert_eq!(results[1]["error"]["code"], "forbidden");
    let batch = json!({"items": [{"id": theirs}, {"id": results[0]["ok"]["id"]}]});
    let results =
        send(&producer, "POST", "/v1/jobs/batch/cancel", batch.clone()).await.json()["results"]
            .clone();
    assert_eq!(results[0]["error"]["code"], "not-found");
    assert_eq!(results[1]["ok"]["was"], "ready");
    send(&reader, "POST", "/v1/jobs/batch/cancel", batch).await.problem(403, "forbidden");
    let names = send(&reader, "GET", "/v1/queues", json!({})).await.json()["queues"].clone();
    assert_eq!(names.as_array().unwrap().len(), 1);
    let metrics = send(&reader, "GET", "/metrics", json!({})).await.body;
    assert!(metrics.contains("queue=\"a-1\"") && !metrics.contains("queue=\"b\""));
    service.stop().await;
}

#[tokio::test]
async fn schedules_belong_to_those_who_administer_their_queue() {
    let folder = tempfile::tempdir().unwrap();
    let ours = token(&folder, "a", &[Scope::Admin], &["a"]);
    let theirs = token(&folder, "b", &[Scope::Admin], &["b"]);
    let service = Service::on(folder, |_| {}).await;
    let put = |token: &str, queue: &str| {
        let request = json!({"queue": queue, "every": "1h", "text": ""});
        service.send(Request::new("PUT", "/v1/schedules/s").json(&request).token(token))
    };
    put(&ours, "b").await.problem(403, "forbidden");
    assert_eq!(put(&ours, "a").await.status, 201);
    put(&theirs, "b").await.problem(400, "invalid-parameter");
    for (method, path) in [("GET", ""), ("GET", "/next"), ("POST", "/pause"), ("DELETE", "")] {
        let path = format!("/v1/schedules/s{path}");
        service.send(Request::new(method, &path).token(&theirs)).await.problem(404, "not-found");
        assert_eq!(
            service.send(Request::new(method, &path).token(&ours)).await.status,
            200,
            "{path}"
        );
    }
    let seen = service.send(Request::new("GET", "/v1/schedules").token(&theirs)).await.json();
    assert_eq!(seen, json!({"schedules": []}));
    service.stop().await;
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let one = token(&folder, "one", &[Scope::Produce], &["*"]);
    let two = token(&folder, "two", &[Scope::Produce], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    let put = |token: &str| {
        let request = Request::new("POST", "/v1/queues/q/jobs").json(&json!({"text": ""}));
        service.send(request.token(token).header("idempotency-key", "k"))
    };
    let (first, other, again) = (put(&one).await, put(&two).await, put(&one).await);
    assert_ne!(first.json()["id"], other.json()["id"]);
    assert_eq!(first.body, again.body);
    service.stop().await;
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_a_token_or_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut open = config(folder.path());
    open.listen = "0.0.0.0:0".parse().unwrap();
    let error = Server::bind(open.clone()).await.unwrap_err();
    assert!(matches!(error, StartError::NeedsTokens(_)));
    assert!(error.to_string().contains("--insecure"), "{error}");
    open.insecure = true;
    drop(Server::bind(open.clone()).await.unwrap());
    open.insecure = false;
    token(&folder, "t", &[Scope::Read], &["*"]);
    drop(Server::bind(open).await.unwrap());
}

#[tokio::test]
async fn a_page_of_somebody_else_cannot_make_a_browser_use_the_service() {
    let service = Service::start().await;
    let get = Request::new("GET", "/v1/queues").header("host", "evil.example");
    assert_eq!(service.send(get).await.problem(403, "wrong-host").as_deref(), Some("host"));
    service.put_text("q", "x").await;
    let pause = || Request::new("POST", "/v1/queues/q/pause");
    let cross = service.send(pause().header("origin", "https://evil.example")).await;
    assert_eq!(cross.problem(403, "cross-origin").as_deref(), Some("origin"));
    service.send(pause().header("origin", "null")).await.problem(403, "cross-origin");
    assert_eq!(service.send(pause().header("origin", "http://localhost")).await.status, 200);
    let form = Request::new("POST", "/v1/queues/q/jobs").body("text/plain", b"{\"text\": \"\"}");
    service.send(form).await.problem(415, "unsupported-media-type");
    service.stop().await;
}

#[tokio::test]
async fn whoever_guesses_tokens_is_slowed_down_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let right = token(&folder, "t", &[Scope::Read], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    let mut client = service.connect().await;
    let mut statuses = Vec::new();
    for _ in 0..40 {
        let request = Request::new("GET", "/v1/queues").token("twk_000000000000_00");
        statuses.push(client.send(request).await.status);
    }
    assert!(statuses[..20].iter().all(|status| *status == 401), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    let answer = client.send(Request::new("GET", "/v1/queues")).await;
    answer.problem(429, "rate-limited");
    assert_eq!(answer.header("retry-after"), Some("1"));
    // A client with a valid token at the same address, for example behind a proxy, is still served.
    let answer = client.send(Request::new("GET", "/v1/queues").token(&right)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    service.stop().await;
}
