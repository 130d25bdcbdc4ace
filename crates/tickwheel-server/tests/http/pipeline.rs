//! Puts that a client sends without waiting for answers.

use serde_json::json;
use tickwheel_server::tokens::Scope;

use crate::client::{Answer, Client, Request, Service, token};

const PATH: &str = "/v1/queues/orders/jobs";

fn put(text: &str) -> Request {
    Request::new("POST", PATH).json(&json!({"text": text, "delay": "1h"}))
}

/// Returns the same request with a header that makes it go through the router.
fn routed(request: Request) -> Request {
    request.header("te", "trailers")
}

async fn answers(client: &mut Client<tokio::net::TcpStream>, count: usize) -> Vec<Answer> {
    let mut answers = Vec::new();
    for _ in 0..count {
        answers.push(client.answer(false).await.expect("an answer"));
    }
    answers
}

/// Returns the parts of an answer that are the same for every request.
fn comparable(answer: &Answer) -> (u16, Vec<(String, String)>, serde_json::Value) {
    let varies = ["date", "x-request-id", "content-length"];
    let mut headers = answer.headers.clone();
    headers.retain(|(name, _)| !varies.contains(&&name[..]));
    headers.sort();
    let mut body = answer.json();
    for field in ["id", "due", "due_ms", "request_id"] {
        body.as_object_mut().unwrap().remove(field);
    }
    (answer.status, headers, body)
}

#[tokio::test]
async fn puts_that_arrive_together_share_a_commit_and_keep_their_order() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    client.send(put("first")).await;
    let commits = service.get("/v1/stats").await.json()["commits"].as_u64().unwrap();
    let requests: Vec<_> = (0..16).map(|number| put(&format!("job {number}"))).collect();
    client.write(&requests.iter().flat_map(Request::bytes).collect::<Vec<_>>()).await;
    let mut ids = Vec::new();
    for answer in answers(&mut client, 16).await {
        assert_eq!(answer.status, 201, "{answer:?}");
        ids.push(answer.json()["id"].as_str().unwrap().to_owned());
    }
    assert!(ids.is_sorted(), "ids grow in the order of the puts: {ids:?}");
    let after = service.get("/v1/stats").await.json()["commits"].as_u64().unwrap();
    assert!(after - commits < 16, "{} commits for 16 puts", after - commits);
    for (number, id) in ids.iter().enumerate() {
        let job = service.get(&format!("/v1/jobs/{id}")).await.json();
        assert_eq!(job["text"], format!("job {number}"));
    }
}

#[tokio::test]
async fn requests_of_all_kinds_are_answered_in_order() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let requests = [
        put("one"),
        put("two"),
        Request::new("GET", "/v1/queues/orders"),
        put("three"),
        put("four").header("idempotency-key", "four"),
        Request::new("GET", "/nowhere"),
        put("five"),
    ];
    client.write(&requests.iter().flat_map(Request::bytes).collect::<Vec<_>>()).await;
    let statuses: Vec<_> =
        answers(&mut client, 7).await.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [201, 201, 200, 201, 201, 404, 201]);
    let queue = service.get("/v1/queues/orders").await.json();
    assert_eq!(queue["jobs"]["scheduled"], 5, "{queue}");
}

#[tokio::test]
async fn puts_may_be_split_anywhere() {
    let service = Service::start().await;
    let two: Vec<u8> = [put("one"), put("two")].iter().flat_map(Request::bytes).collect();
    let mut client = service.connect().await;
    // From now on the connection expects more puts after a partial one.
    client.write(&two).await;
    answers(&mut client, 2).await;
    for end in 1..two.len() {
        let mut fresh = service.connect().await;
        for client in [&mut client, &mut fresh] {
            client.write(&two[..end]).await;
            tokio::task::yield_now().await;
            client.write(&two[end..]).await;
            for answer in answers(client, 2).await {
                assert_eq!(answer.status, 201, "split at {end}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_put_has_the_same_answer_as_through_the_router() {
    let service = Service::start().await;
    let odd = |body: &str| Request::new("POST", PATH).body("application/json", body.as_bytes());
    let requests = [
        put("plain"),
        odd(r#"{"text": "x", "key": "k", "delay": "1h"}"#),
        odd(r#"{"text": "x", "key": "k", "delay": "1h", "on_conflict": "keep"}"#),
        odd(r#"{"text": "x", "key": "k", "delay": "1h", "on_conflict": "reject"}"#),
        odd("{"),
        odd("[1]"),
        odd(r#"{"text": "x", "dealy": "1h"}"#),
        odd(r#"{"text": "x", "delay": "soon"}"#),
        odd(r#"{"text": "x", "queue": "other"}"#),
        odd(""),
        Request::new("POST", PATH).body("text/plain", b"{}"),
        put("x").header("host", "attacker.example"),
        put("x").header("host", "localhost").header("host", "localhost"),
        put("x").header("origin", "http://attacker.example"),
        put("x").header("x-request-id", "mine"),
        put(&"x".repeat(70_000)),
    ];
    for request in requests {
        let mut client = service.connect().await;
        client.send(put("before")).await;
        let direct = client.send(request.clone()).await;
        let through = service.send(routed(request.clone())).await;
        let (mut direct, mut through) = (comparable(&direct), comparable(&through));
        // The second of two puts with a key replaces the first.
        for (status, _, body) in [&mut direct, &mut through] {
            if *status == 201 {
                body["outcome"].take();
                body.as_object_mut().unwrap().remove("replaced");
            }
        }
        assert_eq!(direct, through, "{request:?}");
    }
}

#[tokio::test]
async fn a_refused_put_does_not_affect_its_neighbours() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let requests = [
        put("good"),
        Request::new("POST", PATH).body("application/json", b"{\"text\": 1}"),
        Request::new("POST", PATH).body("text/plain", b"{}"),
        put("good"),
    ];
    client.write(&requests.iter().flat_map(Request::bytes).collect::<Vec<_>>()).await;
    let answers = answers(&mut client, 4).await;
    assert_eq!((answers[0].status, answers[3].status), (201, 201));
    assert_eq!(answers[1].problem(422, "invalid-field").as_deref(), Some("/text"));
    answers[2].problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn each_put_has_the_rights_of_its_own_token() {
    let folder = tempfile::tempdir().unwrap();
    let may = token(&folder, "may", &[Scope::Produce], &["orders"]);
    let may_not = token(&folder, "may not", &[Scope::Produce], &["mail"]);
    let service = Service::on(folder, |_| {}).await;
    let mut client = service.connect().await;
    let requests = [put("a").token(&may), put("b").token(&may_not), put("c"), put("d").token(&may)];
    client.write(&requests.iter().flat_map(Request::bytes).collect::<Vec<_>>()).await;
    let statuses: Vec<_> =
        answers(&mut client, 4).await.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [201, 403, 401, 201]);
}
