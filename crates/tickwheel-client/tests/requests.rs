//! When requests are repeated: the client against a server that answers as the test says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_client::api::{Code, LeaseToken, Problem};
use tickwheel_client::{Client, Error, Lease, NewJob};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PUT: &str =
    r#"{"id":"0190163d-8694-739b-aea5-966c26f8ad91","queue":"q","outcome":"created"}"#;
const HEALTH: &str = r#"{"status":"ok","version":"0.1.0"}"#;

/// What the server does with a request.
enum Reply {
    /// Answers with a status, headers and a body.
    Answer(u16, &'static str, String),
    /// Closes the connection without an answer.
    Hang,
    /// Closes the connection in the middle of the body.
    BreakOff,
}

/// Starts a server that gives these replies, one to each request, and then closes its port. Gives
/// the client, and the requests that came.
async fn scripted(replies: Vec<Reply>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        for reply in replies {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read(&mut stream).await;
            seen.lock().unwrap().push(request);
            let answer = match reply {
                Reply::Answer(status, headers, body) => {
                    let length = body.len();
                    format!(
                        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\
                         connection: close\r\n{headers}\r\n{body}"
                    )
                }
                Reply::Hang => continue,
                Reply::BreakOff => "HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{".to_owned(),
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let client = Client::builder(url).patience(Duration::from_secs(30)).build().unwrap();
    (client, requests)
}

/// Reads a request with its body.
async fn read(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text.into_owned();
            }
        }
        let mut bytes = [0; 4_096];
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the request ends early");
        request.extend_from_slice(&bytes[..count]);
    }
}

fn refusal(code: Code) -> String {
    serde_json::to_string(&Problem::new(code, "not now")).unwrap()
}

fn ok(body: &str) -> Reply {
    Reply::Answer(200, "", body.to_owned())
}

fn idempotency_key(request: &str) -> Option<&str> {
    request.lines().find_map(|line| line.strip_prefix("idempotency-key: "))
}

#[tokio::test]
async fn a_put_whose_answer_is_lost_is_repeated_with_its_key() {
    let (client, requests) = scripted(vec![Reply::Hang, ok(PUT)]).await;
    client.put(NewJob::text("q", "a")).await.unwrap();
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    assert!(idempotency_key(&requests[0]).is_some());
    assert_eq!(idempotency_key(&requests[0]), idempotency_key(&requests[1]));
}

#[tokio::test]
async fn a_report_that_may_have_arrived_is_not_repeated() {
    let (client, requests) = scripted(vec![Reply::Hang, ok(r#"{"state":"done"}"#)]).await;
    let id = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
    let error = client.ack(Lease { id, token: LeaseToken(1) }, None).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refusal_for_now_is_waited_out_and_one_for_good_is_not() {
    let busy = Reply::Answer(429, "retry-after: 0\r\n", refusal(Code::RateLimited));
    let (client, requests) = scripted(vec![busy, ok(HEALTH)]).await;
    assert_eq!(client.health().await.unwrap().status, "ok");
    assert_eq!(requests.lock().unwrap().len(), 2);

    let full = Reply::Answer(429, "retry-after: 0\r\n", refusal(Code::Full));
    let (client, requests) = scripted(vec![full, ok(HEALTH)]).await;
    assert_eq!(client.health().await.unwrap_err().code(), Some(Code::Full));
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_asks_for_an_endless_pause_gets_none() {
    let headers = "retry-after: 18446744073709551615\r\n";
    let busy = Reply::Answer(503, headers, refusal(Code::Unavailable));
    let (client, _) = scripted(vec![busy]).await;
    assert_eq!(client.health().await.unwrap_err().code(), Some(Code::Unavailable));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again() {
    let (client, requests) = scripted(vec![Reply::BreakOff, ok(HEALTH)]).await;
    assert_eq!(client.health().await.unwrap().status, "ok");
    assert_eq!(requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn one_bad_put_of_a_batch_harms_no_other() {
    let bad = || Reply::Answer(422, "", refusal(Code::InvalidField));
    // Both puts leave together, and then one by one.
    let (client, requests) = scripted(vec![bad(), bad(), ok(PUT)]).await;
    let (one, other) =
        tokio::join!(client.put(NewJob::text("q", "bad")), client.put(NewJob::text("q", "good")),);
    assert_eq!(one.unwrap_err().code(), Some(Code::InvalidField));
    assert_eq!(other.unwrap().queue, "q");
    let requests = requests.lock().unwrap();
    assert!(requests[0].starts_with("POST /v1/jobs/batch "), "{}", requests[0]);
    assert!(requests[1].starts_with("POST /v1/queues/q/jobs "), "{}", requests[1]);
}

#[tokio::test]
async fn a_batch_that_is_refused_for_its_token_is_not_taken_apart() {
    let (client, requests) =
        scripted(vec![Reply::Answer(401, "", refusal(Code::Unauthorized))]).await;
    let (one, other) =
        tokio::join!(client.put(NewJob::text("q", "a")), client.put(NewJob::text("q", "b")));
    assert_eq!(one.unwrap_err().code(), Some(Code::Unauthorized));
    assert_eq!(other.unwrap_err().code(), Some(Code::Unauthorized));
    assert_eq!(requests.lock().unwrap().len(), 1);
}
