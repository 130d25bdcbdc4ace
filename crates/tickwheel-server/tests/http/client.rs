//! A service on a free port, and a client that sends exactly the given bytes.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tickwheel_server::tokens::{Scope, TokenStore};
use tickwheel_server::{Config, Server, Shutdown};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// The limit after which a test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Service {
    pub(crate) address: std::net::SocketAddr,
    /// The address for the beanstalkd protocol, if it is enabled.
    pub(crate) beanstalk: Option<std::net::SocketAddr>,
    pub(crate) shutdown: Shutdown,
    serving: JoinHandle<()>,
    pub(crate) folder: TempDir,
}

pub(crate) fn config(folder: &Path) -> Config {
    Config { listen: "127.0.0.1:0".parse().unwrap(), data: folder.into(), ..Config::default() }
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::on(tempfile::tempdir().unwrap(), change).await
    }

    pub(crate) async fn on(folder: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(folder.path());
        change(&mut config);
        Self::run(folder, Server::bind(config).await.unwrap())
    }

    /// Runs a service that is already bound to its port.
    pub(crate) fn run(folder: TempDir, server: Server) -> Self {
        let (address, shutdown) = (server.local_addr(), Shutdown::new());
        let beanstalk = server.beanstalk_addr();
        let serving = tokio::spawn(server.run(shutdown.clone()));
        Self { address, beanstalk, shutdown, serving, folder }
    }

    /// Stops the service and returns its folder, which can be used again.
    pub(crate) async fn stop(self) -> TempDir {
        self.shutdown.begin();
        tokio::time::timeout(PATIENCE, self.serving).await.expect("it stops").unwrap();
        self.folder
    }

    pub(crate) async fn connect(&self) -> Client<TcpStream> {
        Client::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Sends one request on a new connection.
    pub(crate) async fn send(&self, request: Request) -> Answer {
        self.connect().await.send(request).await
    }

    /// Waits until `count` requests are in flight, not counting the one that asks.
    pub(crate) async fn in_flight(&self, count: u64) {
        let line = format!("tickwheel_http_requests_in_flight {}\n", count + 1);
        let reached = async {
            while !self.get("/metrics").await.body.contains(&line) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("they are in flight");
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::new("GET", path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Request::new("DELETE", path)).await
    }

    pub(crate) async fn post(&self, path: &str, json: Value) -> Answer {
        self.send(Request::new("POST", path).json(&json)).await
    }

    /// Sends a POST without a body.
    pub(crate) async fn poke(&self, path: &str) -> Answer {
        self.send(Request::new("POST", path)).await
    }

    pub(crate) async fn put(&self, path: &str, json: Value) -> Answer {
        self.send(Request::new("PUT", path).json(&json)).await
    }

    /// Puts a job that is due at once, and returns its id.
    pub(crate) async fn put_text(&self, queue: &str, text: &str) -> String {
        let path = format!("/v1/queues/{queue}/jobs");
        let answer = self.post(&path, serde_json::json!({"text": text})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Reserves one job, and returns its id and the token of the delivery.
    pub(crate) async fn reserve_one(&self, queue: &str) -> (String, String) {
        let path = format!("/v1/queues/{queue}/reserve");
        let answer = self.post(&path, serde_json::json!({"wait": "10s"})).await.json();
        let delivery = &answer["deliveries"][0];
        let text = |value: &Value| value.as_str().expect("a delivery").to_owned();
        (text(&delivery["job"]["id"]), text(&delivery["token"]))
    }
}

/// Creates a token, which a service that starts afterwards knows.
pub(crate) fn token(folder: &TempDir, name: &str, scopes: &[Scope], queues: &[&str]) -> String {
    let queues: Vec<_> = queues.iter().map(|queue| queue.parse().unwrap()).collect();
    TokenStore::new(folder.path()).create(name, scopes, &queues).unwrap().secret
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self { method: method.into(), path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(self, json: &Value) -> Self {
        self.body("application/json", json.to_string().as_bytes())
    }

    pub(crate) fn body(mut self, kind: &str, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self.header("content-type", kind).header("content-length", &body.len().to_string())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            text.push_str("host: localhost\r\n");
        }
        for (name, value) in &self.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        [text.as_bytes(), b"\r\n", &self.body].concat()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| &value[..])
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that the answer is a complete problem with this status and code, and returns its
    /// field.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Option<String> {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{self:?}");
        assert_eq!(problem["code"], code, "{self:?}");
        assert_eq!(problem["type"], format!("/problems/{code}"));
        assert!(problem["title"].is_string() && problem["instance"].is_string());
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"));
        problem["field"].as_str().map(str::to_owned)
    }
}

/// A connection.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, request: Request) -> Answer {
        self.write(&request.bytes()).await;
        let head_only = request.method == "HEAD";
        self.answer(head_only).await.expect("an answer")
    }

    /// Returns the next answer; `None` if the connection was closed instead.
    pub(crate) async fn answer(&mut self, head_only: bool) -> Option<Answer> {
        let (status, headers) = self.head().await?;
        Some(self.rest(status, headers, head_only).await)
    }

    /// Returns the rest of an answer whose head was read.
    pub(crate) async fn rest(
        &mut self,
        status: u16,
        headers: Vec<(String, String)>,
        head_only: bool,
    ) -> Answer {
        let mut answer = Answer { status, headers, body: String::new() };
        let mut body = Vec::new();
        if let Some(length) = answer.header("content-length").filter(|_| !head_only) {
            let length: usize = length.parse().unwrap();
            while self.buffer.len() < length {
                assert!(self.read().await > 0, "the body is cut off");
            }
            body = self.buffer.drain(..length).collect();
        } else if answer.header("transfer-encoding") == Some("chunked") && !head_only {
            while let Some(chunk) = self.chunk().await {
                body.extend(chunk);
            }
        }
        answer.body = String::from_utf8(body).unwrap();
        answer
    }

    /// Returns the status and headers; the body is read separately.
    pub(crate) async fn head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if self.read().await == 0 {
                return None;
            }
        };
        let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Some((status, lines.map(header).collect()))
    }

    /// Returns the next chunk of a chunked body; `None` after the last.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let size = std::str::from_utf8(&self.buffer[..end]).unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                if self.buffer.len() >= end + 2 + size + 2 {
                    let chunk = self.buffer[end + 2..end + 2 + size].to_vec();
                    self.buffer.drain(..end + 2 + size + 2);
                    return (size > 0).then_some(chunk);
                }
            }
            if self.read().await == 0 {
                return None;
            }
        }
    }

    async fn read(&mut self) -> usize {
        let mut bytes = vec![0; 64 << 10];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut bytes));
        let count = read.await.expect("an answer in time").unwrap_or(0);
        self.buffer.extend(&bytes[..count]);
        count
    }

    /// Waits until the server closes the connection.
    pub(crate) async fn closed(&mut self) {
        while self.read().await > 0 {}
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
