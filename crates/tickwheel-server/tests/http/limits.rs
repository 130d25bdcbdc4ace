//! What is too large, too slow, too much, or malformed.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{PATIENCE, Request, Service};

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let service = Service::with(|config| config.limits.body = 1_000).await;
    let body = vec![b' '; 1_001];
    let request = Request::new("POST", "/v1/queues/q/jobs").body("application/json", &body);
    service.send(request).await.problem(413, "too-large");
    let chunked = Request::new("POST", "/v1/queues/q/jobs")
        .header("content-type", "application/json")
        .header("transfer-encoding", "chunked");
    let mut client = service.connect().await;
    client.write(&chunked.bytes()).await;
    client.write(b"1f4\r\n").await;
    client
        .write(
            &[vec![b' '; 500], b"\r\n3e8\r\n".to_vec(), vec![b' '; 1_000], b"\r\n".to_vec()]
                .concat(),
        )
        .await;
    client.answer(false).await.unwrap().problem(413, "too-large");
    service.stop().await;
}

#[tokio::test]
async fn a_batch_over_the_limit_is_refused() {
    let service = Service::with(|config| config.queue_limits.batch = 3).await;
    let jobs = |count: usize| json!({"jobs": vec![json!({"queue": "q", "text": ""}); count]});
    assert_eq!(service.post("/v1/jobs/batch", jobs(3)).await.status, 200);
    let over = service.post("/v1/jobs/batch", jobs(4)).await;
    assert_eq!(over.problem(413, "too-large").as_deref(), Some("/jobs"));
    let request =
        Request::new("POST", "/v1/jobs/batch").json(&jobs(3)).header("idempotency-key", "k");
    assert_eq!(service.send(request).await.status, 200);
    let items = json!({"items": vec![json!({"id": "0190163d-8694-739b-aea5-966c26f8ad91"}); 4]});
    let over = service.post("/v1/jobs/batch/cancel", items).await;
    assert_eq!(over.problem(413, "too-large").as_deref(), Some("/items"));
    service.stop().await;
}

#[tokio::test]
async fn what_finds_no_room_may_find_it_later() {
    let service = Service::with(|config| config.queue_limits.pending = 1).await;
    service.put_text("q", "").await;
    let full = service.post("/v1/queues/q/jobs", json!({"text": ""})).await;
    full.problem(429, "full");
    assert_eq!(full.header("retry-after"), Some("1"));
    service.stop().await;
}

#[tokio::test]
async fn headers_over_the_limits_are_refused() {
    let service = Service::start().await;
    let mut many = Request::new("GET", "/healthz");
    for index in 0..200 {
        many = many.header(&format!("x-{index}"), "1");
    }
    assert_eq!(service.send(many).await.status, 431);
    let long = Request::new("GET", "/healthz").header("x-long", &"x".repeat(40_000));
    assert_eq!(service.send(long).await.status, 431);
    let path = format!("/v1/queues/{}", "x".repeat(10_000));
    service.get(&path).await.problem(414, "uri-too-long");
    service.stop().await;
}

#[tokio::test]
async fn a_client_that_asks_too_fast_is_told_to_wait() {
    let service = Service::with(|config| config.limits.rate = 5).await;
    let mut client = service.connect().await;
    let mut refused = 0;
    for _ in 0..20 {
        let answer = client.send(Request::new("GET", "/v1/queues")).await;
        if answer.status == 429 {
            answer.problem(429, "rate-limited");
            assert_eq!(answer.header("retry-after"), Some("1"));
            refused += 1;
        }
    }
    assert!(refused >= 10, "{refused}");
    service.stop().await;
}

#[tokio::test]
async fn connections_over_the_limit_are_told_so() {
    let service = Service::with(|config| config.limits.connections = 2).await;
    let mut first = service.connect().await;
    let mut second = service.connect().await;
    for client in [&mut first, &mut second] {
        assert_eq!(client.send(Request::new("GET", "/healthz")).await.status, 200);
    }
    let mut third = service.connect().await;
    let answer = third.answer(false).await.unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(answer.json()["code"], "unavailable");
    drop(first);
    let again = async {
        while service.get("/healthz").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("there is room again");
    service.stop().await;
}

#[tokio::test]
async fn connections_that_say_nothing_or_half_are_closed() {
    let service = Service::with(|config| {
        config.limits.header_timeout = Duration::from_millis(300);
        config.limits.body_timeout = Duration::from_millis(300);
    })
    .await;
    let started = Instant::now();
    let mut silent = service.connect().await;
    let mut half = service.connect().await;
    half.write(b"GET /healthz HTTP/1.1\r\nhost: lo").await;
    let mut idle = service.connect().await;
    assert_eq!(idle.send(Request::new("GET", "/healthz")).await.status, 200);
    let mut without_body = service.connect().await;
    let request = Request::new("POST", "/v1/queues/q/jobs")
        .header("content-type", "application/json")
        .header("content-length", "100");
    without_body.write(&request.bytes()).await;
    without_body.answer(false).await.unwrap().problem(400, "incomplete-body");
    for client in [&mut silent, &mut half, &mut idle, &mut without_body] {
        client.closed().await;
    }
    assert!(started.elapsed() < Duration::from_secs(10));
    service.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_given_up() {
    let service =
        Service::with(|config| config.limits.write_timeout = Duration::from_millis(300)).await;
    for _ in 0..20 {
        let job = json!({"text": "x".repeat(1_000_000), "delay": "1h"});
        assert_eq!(service.post("/v1/queues/q/jobs", job).await.status, 201);
    }
    let mut slow = service.connect().await;
    slow.write(&Request::new("GET", "/v1/queues/q/jobs").bytes()).await;
    let gone = async {
        loop {
            let metrics = service.get("/metrics").await.body;
            if metrics.contains("tickwheel_http_connections 1\n") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the connection is closed");
    drop(slow);
    service.stop().await;
}

#[tokio::test]
async fn tricks_with_paths_lead_nowhere() {
    let service = Service::start().await;
    for (path, status) in [
        ("/v1/queues/../../etc/passwd", 404),
        ("/v1/queues/..%2F..%2Fetc%2Fpasswd", 400),
        ("/v1/queues/%2e%2e", 400),
        ("/v1/queues/%00", 400),
        ("/v1/queues/a%0d%0ax", 400),
        ("/v1/queues/%ff", 400),
        ("/v1/queues/tickwheel:idempotency", 400),
        ("/v1/queues/tickwheel%3Aidempotency/jobs", 400),
        ("//v1/queues", 404),
        ("/v1/queues/", 404),
        ("/v1//queues", 404),
        ("/V1/queues", 404),
        ("/v1/jobs/%20", 400),
        ("/problems/../../x", 404),
        ("/problems/none", 404),
    ] {
        let answer = service.get(path).await;
        let code = if status == 404 { "not-found" } else { "invalid-parameter" };
        answer.problem(status, code);
    }
    service.stop().await;
}

#[tokio::test]
async fn malformed_requests_are_answered_or_closed_and_harm_nobody() {
    let service = Service::start().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n",
        b"POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let mut client = service.connect().await;
        client.write(bytes).await;
        if let Some(answer) = client.answer(false).await {
            assert_eq!(answer.status, 400, "{bytes:?}");
        }
    }
    for (kind, body, status, code) in [
        ("application/json", &b"{"[..], 400, "malformed-json"),
        ("application/json", b"", 400, "malformed-json"),
        ("application/json", b"\xff\xfe", 400, "malformed-json"),
        ("application/json; charset=utf-8", b"{} {}", 400, "malformed-json"),
        ("text/plain", b"{}", 415, "unsupported-media-type"),
        ("application/x-www-form-urlencoded", b"a=b", 415, "unsupported-media-type"),
    ] {
        let request = Request::new("POST", "/v1/queues/q/jobs").body(kind, body);
        service.send(request).await.problem(status, code);
    }
    let deep = format!("{{\"payload\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let request =
        Request::new("POST", "/v1/queues/q/jobs").body("application/json", deep.as_bytes());
    let status = service.send(request).await.status;
    assert!(status == 201 || status == 400, "{status}");
    assert_eq!(service.get("/healthz").await.status, 200);
    service.stop().await;
}
