//! Streams of events.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_server::tokens::{Scope, TokenStore};
use tokio::net::TcpStream;

use crate::client::{Client, PATIENCE, Request, Service, token};

pub(crate) struct Stream {
    client: Client<TcpStream>,
    text: String,
}

/// A server-sent event: its name, its id and its data.
#[derive(Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) event: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) async fn open(service: &Service, request: Request) -> Self {
        let mut client = service.connect().await;
        client.write(&request.bytes()).await;
        let (status, headers) = client.head().await.unwrap();
        assert_eq!(status, 200);
        let kind = headers.iter().find(|(name, _)| name == "content-type");
        assert_eq!(kind.unwrap().1, "text/event-stream");
        Self { client, text: String::new() }
    }

    async fn of(service: &Service, path: &str) -> Self {
        let mut stream = Self::open(service, Request::new("GET", path)).await;
        // The stream begins with its position.
        assert!(stream.block().await.unwrap().starts_with("retry: 1000\nid: "));
        stream
    }

    /// Returns the next block of lines; `None` at the end.
    pub(crate) async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            self.text.push_str(&String::from_utf8(self.client.chunk().await?).unwrap());
        }
    }

    pub(crate) async fn next(&mut self) -> Sent {
        loop {
            let block = self.block().await.expect("an event");
            let field = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
            };
            if let Some(data) = field("data: ") {
                return Sent {
                    event: field("event: ").unwrap(),
                    id: field("id: ").unwrap(),
                    data: serde_json::from_str(&data).unwrap(),
                };
            }
        }
    }
}

#[tokio::test]
async fn a_jobs_life_is_told_in_order() {
    let service = Service::start().await;
    let mut all = Stream::of(&service, "/v1/events").await;
    let mut other = Stream::of(&service, "/v1/queues/other/events").await;
    let id = service.put_text("q", "x").await;
    let (_, token) = service.reserve_one("q").await;
    service.post(&format!("/v1/jobs/{id}/fail"), json!({"token": token, "delay": 0})).await;
    let (_, token) = service.reserve_one("q").await;
    service.post(&format!("/v1/jobs/{id}/ack"), json!({"token": token})).await;
    let kept = service.put_text("other", "y").await;
    for (event, state) in [
        ("put", "ready"),
        ("leased", "leased"),
        ("failed", "ready"),
        ("leased", "leased"),
        ("acked", "done"),
    ] {
        let sent = all.next().await;
        assert_eq!((&sent.event[..], &sent.data["event"]), (event, &json!(event)));
        assert_eq!((&sent.data["state"], &sent.data["job"]), (&json!(state), &json!(id)));
        assert!(sent.data["at_ms"].is_u64() && sent.data["at"].is_string());
    }
    let sent = all.next().await;
    assert_eq!(sent.data["job"], kept);
    assert_eq!(other.next().await, sent);
    let metrics = service.get("/metrics").await.body;
    assert!(metrics.contains("tickwheel_http_event_streams 2\n"));
    service.shutdown.begin();
    assert_eq!(all.block().await, None);
    service.stop().await;
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was() {
    let service = Service::start().await;
    let mut stream = Stream::of(&service, "/v1/queues/q/events").await;
    service.put_text("q", "a").await;
    let first = stream.next().await;
    drop(stream);
    let second = service.put_text("q", "b").await;
    let again = Request::new("GET", "/v1/queues/q/events").header("last-event-id", &first.id);
    assert_eq!(Stream::open(&service, again).await.next().await.data["job"], second);
    let path = format!("/v1/events?last_event_id={}", first.id);
    let sent = Stream::open(&service, Request::new("GET", &path)).await.next().await;
    assert_eq!(sent.data["job"], second);

    let service = Service::on(service.stop().await, |_| {}).await;
    let again = Request::new("GET", "/v1/events").header("last-event-id", &sent.id);
    let mut stream = Stream::open(&service, again).await;
    let reset = stream.next().await;
    assert_eq!(reset.event, "reset");
    assert!(reset.data["reason"].is_string());
    let third = service.put_text("q", "c").await;
    assert_eq!(stream.next().await.data["job"], third);
    service.stop().await;
}

#[tokio::test]
async fn odd_ids_are_refused() {
    let service = Service::start().await;
    let odd = Request::new("GET", "/v1/events").header("last-event-id", "yesterday");
    assert_eq!(
        service.send(odd).await.problem(400, "invalid-header").as_deref(),
        Some("last-event-id")
    );
    let odd = service.get("/v1/events?last_event_id=1").await;
    assert_eq!(odd.problem(400, "invalid-parameter").as_deref(), Some("last_event_id"));
    let odd = service.get("/v1/queues/q/events?from=1").await;
    assert_eq!(odd.problem(400, "invalid-parameter").as_deref(), Some("from"));
    service.stop().await;
}

#[tokio::test]
async fn a_stream_shows_only_what_its_token_may_see() {
    let folder = tempfile::tempdir().unwrap();
    let admin = token(&folder, "admin", &[Scope::Admin], &["*"]);
    let reader = token(&folder, "reader", &[Scope::Read], &["a"]);
    let service = Service::on(folder, |_| {}).await;
    let follow = Request::new("GET", "/v1/events").token(&reader);
    let mut stream = Stream::open(&service, follow).await;
    for queue in ["b", "a"] {
        let put =
            Request::new("POST", &format!("/v1/queues/{queue}/jobs")).json(&json!({"text": ""}));
        let put = put.token(&admin).header("idempotency-key", queue);
        assert_eq!(service.send(put).await.status, 201);
    }
    assert_eq!(stream.next().await.data["queue"], "a");
    let other = Request::new("GET", "/v1/queues/b/events").token(&reader);
    service.send(other).await.problem(403, "forbidden");
    tokio::time::timeout(PATIENCE, service.stop()).await.unwrap();
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let admin = token(&folder, "admin", &[Scope::Admin], &["*"]);
    let reader = token(&folder, "reader", &[Scope::Read], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    let follow = |token: &str| Request::new("GET", "/v1/events").token(token);
    let mut removed = Stream::open(&service, follow(&reader)).await;
    let mut kept = Stream::open(&service, follow(&admin)).await;
    let mut text = 0;
    let mut put = async || {
        text += 1;
        let job = json!({"text": text.to_string()});
        let put = Request::new("POST", "/v1/queues/q/jobs").json(&job).token(&admin);
        assert_eq!(service.send(put).await.status, 201);
    };
    put().await;
    assert_eq!(removed.next().await.event, "put");
    TokenStore::new(service.folder.path()).remove("reader").unwrap();
    // The stream ends soon after the tokens are read again. It checks its token with each event, so
    // the test keeps putting jobs.
    let ended = async {
        while tokio::time::timeout(Duration::from_millis(100), removed.block()).await != Ok(None) {
            put().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("the stream ends");
    service.send(follow(&reader)).await.problem(401, "unauthorized");
    for _ in 0..text {
        assert_eq!(kept.next().await.event, "put");
    }
    service.stop().await;
}
