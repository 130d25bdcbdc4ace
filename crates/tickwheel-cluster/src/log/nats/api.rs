//! Requests and answers of `JetStream` as JSON, as far as a log needs them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_nats::{Client, Request, RequestErrorKind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::log::LogError;

/// The key of the random id in the metadata of a stream.
const ID_KEY: &str = "tickwheel-log";
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// Codes of errors, as the server's documentation lists them.
pub(super) const STREAM_NOT_FOUND: u32 = 10059;
pub(super) const CREATE_IN_USE: u32 = 10058;
pub(super) const MESSAGE_TOO_LARGE: u32 = 10054;
pub(super) const WRONG_LAST_SEQUENCE: [u32; 2] = [10071, 10164];

/// The configuration of a stream: what a log sets and checks.
#[allow(clippy::struct_excessive_bools)] // The server's names and types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StreamConfig {
    pub(super) name: String,
    pub(super) subjects: Vec<String>,
    retention: String,
    storage: String,
    discard: String,
    num_replicas: u32,
    max_msgs: i64,
    max_bytes: i64,
    max_msgs_per_subject: i64,
    pub(super) max_msg_size: i64,
    /// Nanoseconds.
    max_age: u64,
    /// Nanoseconds.
    duplicate_window: u64,
    deny_delete: bool,
    deny_purge: bool,
    allow_rollup_hdrs: bool,
    allow_direct: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    republish: Option<Republish>,
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing)]
    mirror: Option<serde_json::Value>,
    #[serde(skip_serializing)]
    sources: Option<Vec<serde_json::Value>>,
    #[serde(skip_serializing)]
    persist_mode: Option<String>,
    #[serde(skip_serializing)]
    subject_transform: Option<serde_json::Value>,
    #[serde(skip_serializing)]
    allow_msg_ttl: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Republish {
    src: String,
    dest: String,
    headers_only: bool,
}

impl StreamConfig {
    /// A new stream with a random id.
    pub(super) fn new(name: &str, replicas: u32) -> Self {
        let id = format!("{:032x}", fastrand::u128(..));
        let subject = subject(name, &id);
        let dest = tail_subject(name, &id);
        Self {
            name: name.to_owned(),
            subjects: vec![subject.clone()],
            retention: "limits".into(),
            storage: "file".into(),
            discard: "new".into(),
            num_replicas: replicas,
            max_msgs: -1,
            max_bytes: -1,
            max_msgs_per_subject: -1,
            max_msg_size: -1,
            duplicate_window: DUPLICATE_WINDOW.as_nanos() as u64,
            deny_delete: true,
            allow_direct: true,
            republish: Some(Republish { src: subject, dest, headers_only: true }),
            metadata: BTreeMap::from([(ID_KEY.to_owned(), id)]),
            ..Self::default()
        }
    }

    /// The random id that the stream was created with.
    pub(super) fn id(&self) -> Option<&str> {
        self.metadata.get(ID_KEY).map(String::as_str)
    }

    /// Says what is wrong with the stream of a log.
    pub(super) fn check(&self, name: &str, replicas: u32) -> Result<(), String> {
        let Some(id) = self.id() else {
            return Err("Tickwheel did not create it".into());
        };
        let is_unlimited = |limit: i64| limit <= 0;
        let wanted = [
            (self.subjects == [subject(name, id)], "`subjects` was changed"),
            (self.retention == "limits", "`retention` must be `limits`"),
            (self.storage == "file", "`storage` must be `file`"),
            (self.discard == "new", "`discard` must be `new`"),
            (self.max_age == 0, "`max_age` must be 0: records never expire"),
            (is_unlimited(self.max_msgs_per_subject), "`max_msgs_per_subject` must be -1"),
            (self.allow_direct, "`allow_direct` must be true"),
            (!self.deny_purge, "`deny_purge` must be false: the log is trimmed by purges"),
            (!self.allow_rollup_hdrs, "`allow_rollup_hdrs` must be false"),
            (!self.allow_msg_ttl, "`allow_msg_ttl` must be false: records never expire"),
            (self.mirror.is_none(), "it must not be a mirror"),
            (self.sources.as_ref().is_none_or(Vec::is_empty), "it must not have sources"),
            (self.subject_transform.is_none(), "it must not have a `subject_transform`"),
            (
                self.persist_mode.as_deref().is_none_or(|mode| matches!(mode, "" | "default")),
                "`persist_mode` must be `default`",
            ),
        ];
        if let Some((_, what)) = wanted.iter().find(|(is_right, _)| !is_right) {
            return Err((*what).to_owned());
        }
        if self.num_replicas < replicas {
            return Err(format!(
                "it has {} replicas, and at least {replicas} are needed",
                self.num_replicas
            ));
        }
        Ok(())
    }
}

/// The subject of a log's records.
pub(super) fn subject(name: &str, id: &str) -> String {
    format!("tickwheel.log.{name}.{id}")
}

/// The subject on which the server announces records that were stored.
pub(super) fn tail_subject(name: &str, id: &str) -> String {
    format!("tickwheel.tail.{name}.{id}")
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamInfo {
    pub(super) config: StreamConfig,
    pub(super) created: String,
    pub(super) state: StreamState,
    cluster: Option<ClusterInfo>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamState {
    pub(super) messages: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
}

#[derive(Debug, Deserialize)]
struct ClusterInfo {
    leader: Option<String>,
    #[serde(default)]
    replicas: Vec<Peer>,
}

#[derive(Debug, Deserialize)]
struct Peer {
    name: String,
    #[serde(default)]
    offline: bool,
}

impl StreamInfo {
    /// The names of the servers that have a replica and are online.
    pub(super) fn online_servers(&self) -> impl Iterator<Item = &str> {
        let cluster = self.cluster.iter();
        cluster.flat_map(|it| {
            let others = it.replicas.iter().filter(|peer| !peer.offline);
            it.leader.as_deref().into_iter().chain(others.map(|peer| peer.name.as_str()))
        })
    }
}

/// The answer to a publish.
#[derive(Debug, Deserialize)]
pub(super) struct PublishAck {
    pub(super) seq: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Purged {}

#[derive(Deserialize)]
struct Envelope {
    error: Option<ServerError>,
}

#[derive(Debug, Deserialize)]
struct ServerError {
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

/// Why a request to `JetStream` failed.
#[derive(Debug)]
pub(super) struct ApiError {
    /// The server's code; 0 if no server answered.
    pub(super) code: u32,
    /// Whether the request certainly reached no server.
    pub(super) not_sent: bool,
    text: String,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<async_nats::RequestError> for ApiError {
    fn from(error: async_nats::RequestError) -> Self {
        let kind = error.kind();
        let not_sent = matches!(
            kind,
            RequestErrorKind::NoResponders
                | RequestErrorKind::InvalidSubject
                | RequestErrorKind::MaxPayloadExceeded
        );
        let text = match kind {
            RequestErrorKind::NoResponders => "no server leads the stream".to_owned(),
            RequestErrorKind::TimedOut => "no answer in time".to_owned(),
            _ => error.to_string(),
        };
        Self { code: 0, not_sent, text }
    }
}

/// Sends a request with a JSON body.
pub(super) async fn request<A: DeserializeOwned>(
    client: &Client,
    subject: String,
    body: &impl Serialize,
    timeout: Duration,
) -> Result<A, ApiError> {
    let body = serde_json::to_vec(body).map_err(|error| ApiError {
        code: 0,
        not_sent: true,
        text: error.to_string(),
    })?;
    send(client, subject, Request::new().payload(body.into()), timeout).await
}

/// Sends a request and reads its answer.
pub(super) async fn send<A: DeserializeOwned>(
    client: &Client,
    subject: String,
    request: Request,
    timeout: Duration,
) -> Result<A, ApiError> {
    let answer = client.send_request(subject, request.timeout(Some(timeout))).await?;
    parse(&answer.payload)
}

fn parse<A: DeserializeOwned>(payload: &[u8]) -> Result<A, ApiError> {
    let unreadable = |error: serde_json::Error| ApiError {
        code: 0,
        not_sent: false,
        text: format!("the server's answer cannot be read: {error}"),
    };
    let envelope: Envelope = serde_json::from_slice(payload).map_err(unreadable)?;
    match envelope.error {
        Some(ServerError { err_code, description }) => {
            Err(ApiError { code: err_code, not_sent: false, text: description })
        }
        None => serde_json::from_slice(payload).map_err(unreadable),
    }
}

/// Asks for the state of a stream.
pub(super) async fn stream_info(
    client: &Client,
    name: &str,
    timeout: Duration,
) -> Result<StreamInfo, LogError> {
    let info = send(client, format!("$JS.API.STREAM.INFO.{name}"), Request::new(), timeout).await;
    info.map_err(|error| match error.code {
        STREAM_NOT_FOUND => LogError::Missing(name.to_owned()),
        _ => LogError::Unavailable(format!("stream {name}: {error}")),
    })
}

/// Deletes a stream; one that does not exist is deleted already.
pub(super) async fn delete_stream(
    client: &Client,
    subject: String,
    timeout: Duration,
) -> Result<(), LogError> {
    let deleted: Result<serde_json::Value, _> =
        send(client, subject, Request::new(), timeout).await;
    match deleted {
        Err(error) if error.code != STREAM_NOT_FOUND => {
            Err(LogError::Unavailable(format!("cannot delete a stream: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut StreamConfig);

    #[test]
    fn streams_that_could_lose_records_are_refused() {
        let good = StreamConfig::new("log", 3);
        assert_eq!(good.check("log", 3), Ok(()));
        let changes: [(&str, Change); 9] = [
            ("max_age", |it| it.max_age = 1),
            ("discard", |it| it.discard = "old".into()),
            ("storage", |it| it.storage = "memory".into()),
            ("retention", |it| it.retention = "workqueue".into()),
            ("max_msgs_per_subject", |it| it.max_msgs_per_subject = 5),
            ("replicas", |it| it.num_replicas = 1),
            ("persist_mode", |it| it.persist_mode = Some("async".into())),
            ("sources", |it| it.sources = Some(vec![serde_json::Value::Null])),
            ("did not create", |it| it.metadata.clear()),
        ];
        for (what, change) in changes {
            let mut config = good.clone();
            change(&mut config);
            let refused = config.check("log", 3).unwrap_err();
            assert!(refused.contains(what), "{what}: {refused}");
        }
    }

    #[test]
    fn errors_of_the_server_are_told_from_answers() {
        let refused: Result<PublishAck, _> = parse(
            br#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"s","seq":0}"#,
        );
        assert!(WRONG_LAST_SEQUENCE.contains(&refused.unwrap_err().code));
        let ack: PublishAck = parse(br#"{"stream":"s","seq":7,"duplicate":true}"#).unwrap();
        assert_eq!(ack.seq, 7);
        assert!(parse::<PublishAck>(b"something else").is_err());
    }
}
