//! A real HTTP target: it records every request with its time, and sends the replies that a test
//! sets.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use crate::client::PATIENCE;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) at: Instant,
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Arrived {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| &value[..])
    }

    pub(crate) fn id(&self) -> &str {
        self.header("webhook-id").expect("a webhook-id")
    }
}

/// A reply of the target.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A complete response, byte for byte.
    Raw(String),
    /// The same after a delay.
    Slow(Duration, String),
    /// A response whose body comes byte by byte, without end.
    Trickle,
    /// 200, once the test adds a permit for the request.
    Gated(Arc<Semaphore>),
    /// No answer, for ever.
    Silence,
    /// The connection is closed without an answer.
    Close,
    /// The beginning of a response, after which the connection is closed.
    Cut(String),
}

pub(crate) fn status(status: u16) -> Reply {
    Reply::Raw(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n"))
}

pub(crate) fn with_header(status: u16, name: &str, value: &str) -> Reply {
    Reply::Raw(format!("HTTP/1.1 {status} X\r\n{name}: {value}\r\ncontent-length: 0\r\n\r\n"))
}

pub(crate) fn with_body(status: u16, body: &str) -> Reply {
    let length = body.len();
    Reply::Raw(format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}"))
}

#[derive(Default)]
struct Shared {
    arrived: Mutex<Vec<Arrived>>,
    /// Answers to the next requests; then `otherwise`.
    script: Mutex<VecDeque<Reply>>,
    otherwise: Mutex<Option<Reply>>,
    /// How long requests lie before they are looked at, in turn.
    lags: Mutex<VecDeque<Duration>>,
    news: Notify,
}

impl Shared {
    fn next_lag(&self) -> Option<Duration> {
        let mut lags = self.lags.lock().unwrap();
        let lag = lags.pop_front()?;
        lags.push_back(lag);
        Some(lag)
    }
}

/// A target on a free port of this machine.
#[derive(Clone)]
pub(crate) struct HttpTarget {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl HttpTarget {
    /// Starts a target that answers 200 to every request.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&accepting)));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the replies to the next requests, in this order.
    pub(crate) fn next(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.script.lock().unwrap().extend(replies);
    }

    /// Sets the reply to all other requests.
    pub(crate) fn always(&self, reply: Reply) {
        *self.shared.otherwise.lock().unwrap() = Some(reply);
    }

    /// How many requests have arrived.
    pub(crate) fn count(&self) -> usize {
        self.shared.arrived.lock().unwrap().len()
    }

    /// Looks at requests, and notes their time, this long after they came, in turn.
    pub(crate) fn lag(&self, lags: impl IntoIterator<Item = Duration>) {
        self.shared.lags.lock().unwrap().extend(lags);
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.shared.arrived.lock().unwrap().clone()
    }

    /// Waits until `count` requests have arrived.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Arrived> {
        let reached = async {
            loop {
                let news = self.shared.news.notified();
                tokio::pin!(news);
                news.as_mut().enable();
                if self.count() >= count {
                    return self.arrived();
                }
                news.await;
            }
        };
        let waited = tokio::time::timeout(3 * PATIENCE, reached).await;
        waited.unwrap_or_else(|_| panic!("{} of {count} requests came", self.count()))
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut buffer = Vec::new();
    while let Some(mut arrived) = read_request(&mut stream, &mut buffer).await {
        if let Some(lag) = shared.next_lag() {
            tokio::time::sleep(lag).await;
            arrived.at = Instant::now();
        }
        shared.arrived.lock().unwrap().push(arrived);
        shared.news.notify_waiters();
        let next = shared.script.lock().unwrap().pop_front();
        let reply = next.or_else(|| shared.otherwise.lock().unwrap().clone());
        let written = match reply.unwrap_or_else(|| status(200)) {
            Reply::Raw(text) => stream.write_all(text.as_bytes()).await,
            Reply::Slow(wait, text) => {
                tokio::time::sleep(wait).await;
                stream.write_all(text.as_bytes()).await
            }
            Reply::Trickle => {
                let head = "HTTP/1.1 200 X\r\ncontent-length: 1000000\r\n\r\n";
                let mut written = stream.write_all(head.as_bytes()).await;
                while written.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    written = stream.write_all(b"x").await;
                }
                written
            }
            Reply::Gated(gate) => {
                gate.acquire().await.unwrap().forget();
                stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n").await
            }
            Reply::Silence => std::future::pending().await,
            Reply::Close => return,
            Reply::Cut(text) => {
                // What was written arrives before the end of the connection.
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.shutdown().await;
                return;
            }
        };
        if written.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Arrived> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|it| it == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let at = Instant::now();
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer[end..end + length].to_vec();
    buffer.drain(..end + length);
    Some(Arrived { at, line, headers, body })
}

/// Returns a field of JSON as text.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
