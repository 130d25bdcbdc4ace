//! Requests that are too large, too slow, too many or malformed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Client, PATIENCE, Request, Service};

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
    let service = Service::with(|config| config.limits.connections = 3).await;
    let wait = Request::new("POST", "/v1/queues/empty/reserve").json(&json!({"wait": "60s"}));
    let mut first = service.connect().await;
    first.write(&wait.bytes()).await;
    let mut second = service.connect().await;
    second.write(&wait.bytes()).await;
    service.in_flight(2).await;
    // A connection that waits for its client is closed to make room.
    let mut idle = service.connect().await;
    assert_eq!(idle.send(Request::new("GET", "/healthz")).await.status, 200);
    let mut busy = service.connect().await;
    busy.write(&wait.bytes()).await;
    idle.closed().await;
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
async fn a_flood_of_connections_without_requests_disturbs_nobody() {
    const LIMIT: usize = 64;
    let service = Service::with(|config| config.limits.connections = LIMIT).await;
    let mut normal = service.connect().await;
    let mut half = service.connect().await;
    let put = Request::new("POST", "/v1/queues/q/jobs").json(&json!({"text": ""}));
    half.write(&put.bytes()[..put.bytes().len() - 1]).await;
    let mut flood = Vec::new();
    for number in 0..4 * LIMIT {
        let client = service.connect().await;
        if number % 2 == 0 {
            // The server may close a connection of the flood while the client writes.
            let _ = client.stream.try_write(b"GET /healthz HTTP/1.1\r\nx-slow: ");
        }
        flood.push(client);
        if number % 16 == 0 {
            assert_eq!(normal.send(put.clone()).await.status, 201);
            assert_eq!(service.send(put.clone()).await.status, 201);
        }
    }
    // The first connections of the flood are closed; the connection that sent requests is not.
    for client in &mut flood[..LIMIT] {
        client.closed().await;
    }
    half.write(&put.bytes()[put.bytes().len() - 1..]).await;
    assert_eq!(half.answer(false).await.expect("an answer").status, 201);
    assert_eq!(normal.send(Request::new("GET", "/healthz")).await.status, 200);
    service.stop().await;
}

#[tokio::test]
async fn connections_that_sent_a_request_and_wait_make_room_too() {
    let service = Service::with(|config| config.limits.connections = 8).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut client = service.connect().await;
        assert_eq!(client.send(Request::new("GET", "/healthz")).await.status, 200);
        idle.push(client);
    }
    for client in &mut idle[..12] {
        client.closed().await;
    }
    let head = Request::new("POST", "/v1/queues/q/jobs")
        .header("content-type", "application/json")
        .header("content-length", "100")
        .bytes();
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut client = service.connect().await;
        client.write(&head).await;
        slow.push(client);
        assert_eq!(service.get("/healthz").await.status, 200);
    }
    service.stop().await;
}

#[tokio::test]
async fn one_host_is_named() {
    let service = Service::start().await;
    let two =
        Request::new("GET", "/healthz").header("host", "localhost").header("host", "a.example");
    assert_eq!(service.send(two).await.problem(400, "invalid-header").as_deref(), Some("host"));
    let same =
        Request::new("GET", "/healthz").header("host", "localhost").header("host", "localhost");
    service.send(same).await.problem(400, "invalid-header");
    let mut client = service.connect().await;
    client.write(b"GET /healthz HTTP/1.1\r\n\r\n").await;
    client.answer(false).await.expect("an answer").problem(400, "invalid-header");
    service.stop().await;
}

#[tokio::test]
async fn what_will_be_refused_is_refused_before_it_is_sent() {
    let service = Service::with(|config| {
        config.limits.body = 4 << 20;
        config.limits.memory = 4 << 20;
    })
    .await;
    let announce = |length: usize| {
        Request::new("POST", "/v1/queues/q/jobs")
            .header("content-type", "application/json")
            .header("content-length", &length.to_string())
            .header("expect", "100-continue")
            .bytes()
    };
    let mut client = service.connect().await;
    client.write(&announce((4 << 20) + 1)).await;
    client.answer(false).await.expect("an answer").problem(413, "too-large");
    // A body that has arrived counts twice, so only one of these two fits.
    let mut holding = service.connect().await;
    holding.write(&announce(1 << 20)).await;
    assert_eq!(holding.head().await.expect("an answer").0, 100);
    holding.write(&vec![b' '; 1 << 19]).await;
    let refused = async {
        loop {
            let mut client = service.connect().await;
            client.write(&announce(3 << 19)).await;
            let (status, headers) = client.head().await.expect("an answer");
            if status != 100 {
                break (status, headers);
            }
        }
    };
    let (status, headers) = tokio::time::timeout(PATIENCE, refused).await.expect("no room");
    assert_eq!(status, 503);
    assert!(headers.contains(&("retry-after".to_owned(), "1".to_owned())));
    // There is always room for small requests.
    service.put_text("q", "small").await;
    service.stop().await;
}

#[tokio::test]
async fn unfinished_bodies_take_a_bounded_part_of_the_memory() {
    let service = Service::with(|config| config.limits.memory = 8 << 20).await;
    let head = Request::new("POST", "/v1/queues/q/jobs")
        .header("content-type", "application/json")
        .header("content-length", &(4 << 20).to_string())
        .bytes();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = service.connect().await;
        client.write(&head).await;
        // A connection without room gets an answer and is closed, so this write may fail.
        let _ = client.stream.write_all(&vec![b' '; 2 << 20]).await;
        clients.push(client);
        service.put_text("q", "small").await;
    }
    let mut refused = 0;
    for client in &mut clients[10..] {
        refused += usize::from(client.answer(false).await.is_some_and(|it| it.status == 503));
    }
    assert!(refused > 0);
    drop(clients);
    let freed = async {
        while !service.get("/metrics").await.body.contains("tickwheel_http_memory_bytes 0\n") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("all of it is given back");
    service.stop().await;
}

/// Returns all jobs of a queue, read page by page, and the number of jobs on each page.
async fn pages(service: &Service, queue: &str) -> (Vec<Value>, Vec<usize>) {
    let (mut jobs, mut sizes, mut page) = (Vec::new(), Vec::new(), String::new());
    loop {
        let path = format!("/v1/queues/{queue}/jobs?limit=1000{page}");
        let answer = service.get(&path).await.json();
        let some = answer["jobs"].as_array().expect("a list");
        sizes.push(some.len());
        jobs.extend(some.iter().cloned());
        match answer["next"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => return (jobs, sizes),
        }
    }
}

#[tokio::test]
async fn answers_are_limited_by_what_they_are_as_json() {
    let service = Service::start().await;
    // As JSON each payload takes 6 MiB.
    let zeros = "\0".repeat(1 << 20);
    for _ in 0..5 {
        service.put_text("q", &zeros).await;
    }
    let (jobs, sizes) = pages(&service, "q").await;
    assert_eq!(sizes, [3, 2]);
    assert!(jobs.iter().all(|job| job["text"] == zeros[..]));
    let mut ids: Vec<_> = jobs.iter().map(|job| job["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    let path = format!("/v1/jobs/{}", jobs[0]["id"].as_str().expect("an id"));
    assert_eq!(service.get(&path).await.json()["text"], zeros[..]);
    let mut reserved = Vec::new();
    for _ in 0..2 {
        let answer = service.post("/v1/queues/q/reserve", json!({"limit": 1000})).await.json();
        let deliveries = answer["deliveries"].as_array().expect("a list");
        assert!(deliveries.iter().all(|delivery| delivery["job"]["text"] == zeros[..]));
        reserved.push(deliveries.len());
    }
    assert_eq!(reserved, [3, 2]);
    service.stop().await;
}

#[tokio::test]
async fn a_page_that_is_made_in_steps_is_whole() {
    let service = Service::start().await;
    let text = |number: usize| format!("{number} {}", "\"".repeat(4_000));
    for batch in 0..10 {
        let job = |number| {
            let due = format!("2099-01-01T00:{:02}:{:02}Z", number / 60, number % 60);
            json!({"queue": "q", "text": text(number), "due": due})
        };
        let jobs: Vec<_> = (batch * 100..batch * 100 + 100).map(job).collect();
        assert_eq!(service.post("/v1/jobs/batch", json!({"jobs": jobs})).await.status, 200);
    }
    let (jobs, sizes) = pages(&service, "q").await;
    assert_eq!(sizes, [1_000]);
    for (number, job) in jobs.iter().enumerate() {
        assert_eq!(job["text"], text(number));
    }
    let freed = async {
        while !service.get("/metrics").await.body.contains("tickwheel_http_memory_bytes 0\n") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("all of it is given back");
    service.stop().await;
}

/// Returns the bytes that requests and answers in flight take together.
async fn memory_in_use(service: &Service) -> usize {
    let metrics = service.get("/metrics").await.body;
    let bytes = metrics.lines().find_map(|line| line.strip_prefix("tickwheel_http_memory_bytes "));
    bytes.expect("the metric").parse().expect("a number")
}

/// Sends the same request on many connections and reads only the heads of the answers, so that the
/// server must hold the rest.
async fn unread_answers(
    service: &Service,
    request: &Request,
    count: usize,
) -> Vec<(Client<TcpStream>, u16, Vec<(String, String)>)> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = service.connect().await;
        client.write(&request.bytes()).await;
        clients.push(client);
    }
    let mut answers = Vec::new();
    for mut client in clients {
        let (status, headers) = client.head().await.expect("an answer");
        answers.push((client, status, headers));
    }
    answers
}

#[tokio::test]
async fn concurrent_reserves_stay_within_the_memory() {
    const LIMIT: usize = 24 << 20;
    const JOBS: usize = 24;
    let service = Service::with(|config| config.limits.memory = LIMIT).await;
    // As JSON each payload takes 6 MiB, so two answers fit beside their payloads.
    let zeros = "\0".repeat(1 << 20);
    for _ in 0..JOBS {
        service.put_text("q", &zeros).await;
    }
    let reserve = Request::new("POST", "/v1/queues/q/reserve").json(&json!({"limit": 1}));
    let mut reserved = Vec::new();
    while reserved.len() < JOBS {
        let answers = unread_answers(&service, &reserve, JOBS - reserved.len()).await;
        let used = memory_in_use(&service).await;
        assert!(used <= LIMIT, "{} answers take {used} of {LIMIT} bytes", answers.len());
        let before = reserved.len();
        for (mut client, status, headers) in answers {
            let answer = client.rest(status, headers, false).await;
            if status == 200 {
                let delivery = answer.json()["deliveries"][0].take();
                assert!(delivery["job"]["text"] == zeros[..], "the payload is whole");
                assert_eq!(delivery["job"]["attempts"], 1);
                reserved.push(delivery["job"]["id"].to_string());
            } else {
                answer.problem(503, "unavailable");
                assert_eq!(answer.header("retry-after"), Some("1"));
            }
        }
        assert!(reserved.len() > before, "no answer was given");
    }
    reserved.sort();
    reserved.dedup();
    assert_eq!(reserved.len(), JOBS);
    service.stop().await;
}

#[tokio::test]
async fn concurrent_pages_stay_within_the_memory() {
    const LIMIT: usize = 32 << 20;
    let service = Service::with(|config| config.limits.memory = LIMIT).await;
    let zeros = "\0".repeat(1 << 20);
    for _ in 0..2 {
        service.put_text("q", &zeros).await;
    }
    let list = Request::new("GET", "/v1/queues/q/jobs?limit=10");
    let answers = unread_answers(&service, &list, 12).await;
    let used = memory_in_use(&service).await;
    assert!(used <= LIMIT, "{} answers take {used} of {LIMIT} bytes", answers.len());
    let mut whole = 0;
    for (mut client, status, headers) in answers {
        let answer = client.rest(status, headers, false).await;
        if status == 200 {
            let page = answer.json();
            let jobs = page["jobs"].as_array().expect("a list").len();
            // A page that finds no room for its next step ends early and says where to continue.
            assert!(jobs == 2 || (jobs == 1 && page["next"].is_string()), "{jobs} jobs");
            whole += usize::from(jobs == 2);
        } else {
            answer.problem(503, "unavailable");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    }
    assert!(whole > 0);
    let (jobs, _) = pages(&service, "q").await;
    assert_eq!(jobs.len(), 2);
    service.stop().await;
}

#[tokio::test]
async fn a_list_of_schedules_is_made_in_steps() {
    const LIMIT: usize = 32 << 20;
    const SCHEDULES: usize = 12;
    let service = Service::with(|config| config.limits.memory = LIMIT).await;
    // As JSON each has 6 MiB.
    let zeros = "\0".repeat(1 << 20);
    for number in 0..SCHEDULES {
        let schedule = json!({"queue": "q", "every": "1h", "text": zeros});
        let path = format!("/v1/schedules/s{number:02}");
        assert_eq!(service.send(Request::new("PUT", &path).json(&schedule)).await.status, 201);
    }
    let list = Request::new("GET", "/v1/schedules");
    let mut answers = unread_answers(&service, &list, 2).await;
    let used = memory_in_use(&service).await;
    assert!(used > 12 << 20 && used <= LIMIT, "{used} of {LIMIT} bytes");
    answers.truncate(1);
    let (mut client, status, headers) = answers.remove(0);
    let answer = client.rest(status, headers, false).await.json();
    let schedules = answer["schedules"].as_array().expect("a list");
    assert_eq!(schedules.len(), SCHEDULES);
    for (number, schedule) in schedules.iter().enumerate() {
        assert_eq!(schedule["name"], format!("s{number:02}"));
        assert!(schedule["text"] == zeros[..], "the payload is whole");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_batch_is_not_read_beyond_the_largest_there_can_be() {
    let service = Service::start().await;
    for (path, field) in [("/v1/jobs/batch", "jobs"), ("/v1/jobs/batch/cancel", "items")] {
        let item = if field == "jobs" {
            "{}"
        } else {
            r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91"}"#
        };
        let body = format!(r#"{{"{field}": [{}]}}"#, vec![item; 10_001].join(","));
        let request = Request::new("POST", path).body("application/json", body.as_bytes());
        let refused = service.send(request).await.problem(413, "too-large");
        assert_eq!(refused, Some(format!("/{field}")));
    }
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
    let refused = service.send(request).await.problem(422, "invalid-field");
    assert_eq!(refused.as_deref(), Some("/payload"));
    assert_eq!(service.get("/healthz").await.status, 200);
    service.stop().await;
}
