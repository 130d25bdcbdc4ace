//! Streams of NATS JetStream, by plain requests.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_nats::{Client, HeaderMap, Subscriber};
use bytes::Bytes;
use futures_lite::StreamExt;
use serde_json::{Value, json};
use tickwheel_test_servers::nats::NatsCluster;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;

/// How long a request may take before it is repeated, and how long it is repeated.
const ATTEMPT: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_mins(1);
const STEP: Duration = Duration::from_millis(50);

/// A connection for the administration of streams, and the runtime of all connections.
pub(super) struct JetStream {
    runtime: Arc<Runtime>,
    client: Client,
    /// The addresses of the servers by their names.
    servers: Vec<(String, String)>,
}

/// The state of a stream.
pub(super) struct StreamState {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// The name of the server that leads it.
    pub(super) leader: String,
}

impl JetStream {
    pub(super) fn connect(nats: &NatsCluster) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let names = nats.servers.iter().map(|server| server.name.clone());
        let client = runtime.block_on(async_nats::connect(nats.urls()))?;
        Ok(Self { runtime: Arc::new(runtime), client, servers: names.zip(nats.urls()).collect() })
    }

    /// Sends a request with a JSON body, and returns the answer unless it is an error. Repeats it
    /// while the servers elect a leader.
    fn ask(&self, subject: &str, body: &Value) -> Result<Value> {
        let asked = Instant::now();
        loop {
            let asking = self.client.request(subject.to_owned(), body.to_string().into());
            match self.runtime.block_on(async { timeout(ATTEMPT, asking).await }) {
                Ok(Ok(answer)) => return read(&answer.payload).with_context(|| subject.to_owned()),
                _ if asked.elapsed() < PATIENCE => sleep(STEP),
                Ok(Err(error)) => return Err(error).with_context(|| subject.to_owned()),
                Err(elapsed) => return Err(elapsed).with_context(|| subject.to_owned()),
            }
        }
    }

    /// Creates a stream with three replicas on disk, which has these settings besides.
    pub(super) fn create(&self, name: &str, settings: Value) -> Result<()> {
        let mut config = json!({ "name": name, "storage": "file", "num_replicas": 3 });
        let Value::Object(settings) = settings else { bail!("settings are an object") };
        config.as_object_mut().context("an object")?.extend(settings);
        self.ask(&format!("$JS.API.STREAM.CREATE.{name}"), &config).map(drop)
    }

    /// Creates a consumer of a subject that workers share.
    pub(super) fn create_consumer(&self, stream: &str, name: &str, config: &Value) -> Result<()> {
        let subject = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}");
        let body = json!({ "stream_name": stream, "config": config });
        self.ask(&subject, &body).map(drop)
    }

    pub(super) fn state(&self, name: &str) -> Result<StreamState> {
        let info = self.ask(&format!("$JS.API.STREAM.INFO.{name}"), &json!({}))?;
        let number = |what: &str| info["state"][what].as_u64().context("a number");
        let leader = info["cluster"]["leader"].as_str().context("the stream has no leader")?;
        let (messages, bytes) = (number("messages")?, number("bytes")?);
        Ok(StreamState { messages, bytes, leader: leader.to_owned() })
    }

    /// Returns the names of all streams.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        let answer = self.ask("$JS.API.STREAM.NAMES", &json!({}))?;
        let names = answer["streams"].as_array().context("a list of streams")?;
        Ok(names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
    }

    /// Opens a connection of its own to the leader of a stream.
    pub(super) fn at_leader(&self, stream: &str) -> Result<Sender> {
        let leader = self.state(stream)?.leader;
        let found = self.servers.iter().find(|(name, _)| *name == leader);
        let (_, url) = found.with_context(|| format!("there is no server {leader}"))?;
        let handle = self.runtime.handle().clone();
        handle.block_on(async {
            let client = async_nats::connect(url).await?;
            let answers = Inbox::open(&handle, &client).await?;
            Ok(Sender { handle: handle.clone(), client, answers })
        })
    }
}

/// A subject of its own, with the messages that arrive there.
pub(super) struct Inbox {
    pub(super) subject: String,
    handle: Handle,
    /// `None` only while it is dropped.
    messages: Option<Subscriber>,
}

impl Inbox {
    pub(super) async fn open(handle: &Handle, client: &Client) -> Result<Self> {
        let subject = client.new_inbox();
        let messages = Some(client.subscribe(subject.clone()).await?);
        Ok(Self { subject, handle: handle.clone(), messages })
    }

    /// Waits for the next message.
    pub(super) async fn next(&mut self) -> Result<async_nats::Message> {
        let messages = self.messages.as_mut().context("the inbox is closed")?;
        messages.next().await.context("the connection is closed")
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // A subscriber ends its subscription by a task.
        let _runtime = self.handle.enter();
        self.messages = None;
    }
}

/// A message that is answered by the server.
pub(super) struct Message {
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
}

/// A connection that sends messages together and waits for all answers.
pub(super) struct Sender {
    pub(super) handle: Handle,
    pub(super) client: Client,
    answers: Inbox,
}

impl Sender {
    /// Sends messages and returns when all are answered. An error of one is an error.
    pub(super) fn send(&mut self, messages: Vec<Message>) -> Result<()> {
        let Self { handle, client, answers } = self;
        handle.block_on(async {
            let count = messages.len();
            for Message { subject, headers, payload } in messages {
                let inbox = answers.subject.clone();
                client.publish_with_reply_and_headers(subject, inbox, headers, payload).await?;
            }
            client.flush().await?;
            for _ in 0..count {
                let answer = answers.next().await?;
                ensure!(answer.status.is_none(), "a message was answered by {:?}", answer.status);
                if !answer.payload.is_empty() {
                    read(&answer.payload)?;
                }
            }
            Ok(())
        })
    }
}

/// Reads an answer as JSON. One that contains an error is an error.
fn read(payload: &[u8]) -> Result<Value> {
    let answer: Value = serde_json::from_slice(payload).context("an answer is not JSON")?;
    ensure!(answer["error"].is_null(), "NATS refused it: {}", answer["error"]);
    Ok(answer)
}
