//! The stream of events: server-sent events, with reconnection.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use tickwheel_api::{Event, JobState, Reset, TargetEvent};
use tokio::time::timeout;

use crate::client::query;
use crate::error::Error;
use crate::transport::{Call, Transport};

/// The server sends something at least every 15 seconds. After this time without input the connection
/// counts as broken.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// An item of a stream of events.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are events")]
pub enum Told {
    /// Something happened to a job.
    Event(Event),
    /// Events were missed: list the jobs again.
    Reset(Reset),
}

/// Which events to follow. An event has to match every field that is given.
///
/// ```
/// # async fn example(client: tickwheel_client::Client) -> Result<(), tickwheel_client::Error> {
/// use tickwheel_client::EventFilter;
///
/// let events = vec!["failed".to_owned(), "dead".to_owned()];
/// let filter = EventFilter { events, ..EventFilter::default() };
/// let mut failures = client.events_matching(Some("mail"), &filter).await?;
/// println!("{:?}", failures.next().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The names of the events, such as `failed`; all of them if this is empty.
    pub events: Vec<String>,
    /// Events after which the job is in this state.
    pub state: Option<JobState>,
    /// Events of jobs with this key.
    pub key: Option<String>,
    /// Events of jobs whose key begins with this.
    pub key_prefix: Option<String>,
    /// Failures whose error contains this text. The case of ASCII letters does not matter.
    pub error: Option<String>,
}

impl EventFilter {
    pub(crate) fn query(&self) -> String {
        let events = self.events.join(",");
        let state = self.state.map(|state| state.to_string());
        query(&[
            ("event", Some(&events[..]).filter(|events| !events.is_empty())),
            ("state", state.as_deref()),
            ("key", self.key.as_deref()),
            ("key_prefix", self.key_prefix.as_deref()),
            ("error", self.error.as_deref()),
        ])
    }
}

/// What happens to jobs, as it happens. After a broken connection the stream resumes after the last
/// event.
///
/// ```
/// # async fn example(client: tickwheel_client::Client) -> Result<(), tickwheel_client::Error> {
/// use tickwheel_client::Told;
///
/// let mut events = client.events(Some("orders")).await?;
/// loop {
///     if let Told::Event(event) = events.next().await? {
///         println!("{} {}", event.event, event.job);
///     }
/// }
/// # }
/// ```
pub struct Events(Stream);

/// The states of targets, as they change. The stream begins with the state of each target, also
/// after a broken connection.
///
/// ```
/// # async fn example(client: tickwheel_client::Client) -> Result<(), tickwheel_client::Error> {
/// let mut states = client.target_events().await?;
/// loop {
///     let event = states.next().await?;
///     println!("{}: {:?} {:?}", event.target, event.state, event.reason);
/// }
/// # }
/// ```
pub struct TargetEvents(Stream);

/// A stream of server-sent events that reconnects.
struct Stream {
    transport: Arc<Transport>,
    path: String,
    body: Incoming,
    /// Bytes of a line that is not complete.
    rest: Vec<u8>,
    lines: VecDeque<String>,
    /// The id of the last event.
    last: Option<String>,
    kind: String,
    data: String,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for TargetEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetEvents").finish_non_exhaustive()
    }
}

impl Events {
    pub(crate) async fn open(transport: Arc<Transport>, path: String) -> Result<Self, Error> {
        Stream::open(transport, path).await.map(Self)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// If the stream broke and cannot be opened again within the client's patience.
    pub async fn next(&mut self) -> Result<Told, Error> {
        let (kind, data) = self.0.next().await?;
        let told = if kind == "reset" {
            serde_json::from_str(&data).map(Told::Reset)
        } else {
            serde_json::from_str(&data).map(Told::Event)
        };
        told.map_err(|error| unreadable(&data, &error))
    }
}

impl TargetEvents {
    pub(crate) async fn open(transport: Arc<Transport>) -> Result<Self, Error> {
        Stream::open(transport, "/v1/target-events".to_owned()).await.map(Self)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// If the stream broke and cannot be opened again within the client's patience.
    pub async fn next(&mut self) -> Result<TargetEvent, Error> {
        let (_, data) = self.0.next().await?;
        serde_json::from_str(&data).map_err(|error| unreadable(&data, &error))
    }
}

fn unreadable(data: &str, error: &serde_json::Error) -> Error {
    Error::Answer(format!("an event {data:?}: {error}"))
}

impl Stream {
    async fn open(transport: Arc<Transport>, path: String) -> Result<Self, Error> {
        let body = connect(&transport, &path, None).await?;
        let (rest, lines, last) = (Vec::new(), VecDeque::new(), None);
        let (kind, data) = (String::new(), String::new());
        Ok(Self { transport, path, body, rest, lines, last, kind, data })
    }

    /// Returns the name and the data of the next event.
    async fn next(&mut self) -> Result<(String, String), Error> {
        loop {
            while let Some(line) = self.lines.pop_front() {
                if let Some(event) = self.take(&line) {
                    return Ok(event);
                }
            }
            match timeout(SIGN_OF_LIFE, self.body.frame()).await {
                Ok(Some(Ok(frame))) => self.split(frame.data_ref().map_or(&[][..], |data| data)),
                Ok(Some(Err(_)) | None) | Err(_) => self.reconnect().await?,
            }
        }
    }

    async fn reconnect(&mut self) -> Result<(), Error> {
        self.rest.clear();
        self.data.clear();
        self.body = connect(&self.transport, &self.path, self.last.as_deref()).await?;
        Ok(())
    }

    fn split(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.lines.push_back(line.trim_end_matches(['\r', '\n']).to_owned());
        }
    }

    /// Takes a line. An empty line ends an event, which is returned.
    fn take(&mut self, line: &str) -> Option<(String, String)> {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.kind),
            "id" => self.last = Some(value.to_owned()),
            "data" => self.data.push_str(value),
            "" if line.is_empty() && !self.data.is_empty() => {
                return Some((std::mem::take(&mut self.kind), std::mem::take(&mut self.data)));
            }
            // A sign of life, or a field that this client does not know.
            _ => {}
        }
        None
    }
}

async fn connect(transport: &Transport, path: &str, last: Option<&str>) -> Result<Incoming, Error> {
    let mut call = Call::new(Method::GET, path).header("accept", "text/event-stream");
    if let Some(last) = last {
        call = call.header("last-event-id", last);
    }
    transport.stream(&call).await
}
