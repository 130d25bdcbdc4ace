//! A log on one stream.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, Message, Request, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::api::{self, MESSAGE_TOO_LARGE, PublishAck, Purged, StreamInfo, WRONG_LAST_SEQUENCE};
use super::{HEADER_BYTES, Nats, RETRY_PAUSE, Shared, panicked, stream_id, within};
use crate::log::{AppendError, AppendId, Entry, Log, LogError, LogState, Position, StreamId};

/// How many records one request reads at most.
const MAX_READ_RECORDS: u32 = 512;
/// Announcements of records may get lost, so a wait ends after this time in any case.
const MAX_WAIT: Duration = Duration::from_millis(500);

const MSG_ID: &str = "Nats-Msg-Id";
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
const EXPECTED_LAST_SEQUENCE: &str = "Nats-Expected-Last-Sequence";
const SEQUENCE: &str = "Nats-Sequence";
const SUBJECT: &str = "Nats-Subject";
/// The status that ends a batch of messages.
const END_OF_BATCH: u16 = 204;

/// A log on a stream of NATS `JetStream`; [`Nats::open`](super::Nats::open) opens it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_cluster::log::{Log, LogError, NatsLog, Position, SimulatedLog};
///
/// /// Follows a log from a position on, until a record is empty.
/// fn follow(log: &dyn Log, mut next: Position) -> Result<Position, LogError> {
///     loop {
///         for entry in log.read(next, 1 << 20)? {
///             if entry.record.is_empty() {
///                 return Ok(entry.position);
///             }
///             next = entry.position.next();
///         }
///         log.wait(next, Duration::from_secs(60))?;
///     }
/// }
///
/// /// The same code runs on a stream of NATS and in tests.
/// fn follow_stream(log: &NatsLog) -> Result<Position, LogError> {
///     follow(log, Position(1))
/// }
///
/// let log = SimulatedLog::new(1);
/// let end = bytes::Bytes::new();
/// log.append(Position::START, tickwheel_cluster::log::AppendId::of(&end), &end)?;
/// assert_eq!(follow(&log, Position(1))?, Position(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NatsLog {
    stream: Arc<Stream>,
    /// Listens for announcements of records.
    tail: JoinHandle<()>,
    announced: watch::Receiver<u64>,
}

/// What the operations need, on the thread of the client.
struct Stream {
    shared: Arc<Shared>,
    name: String,
    subject: String,
    id: StreamId,
    max_record_bytes: usize,
}

/// What one attempt to append has shown.
enum Attempt {
    Appended(Position),
    /// The server has refused the condition.
    Refused,
    TooLarge,
    /// No server has the record from this attempt.
    NotSent(LogError),
    /// The record may have been appended.
    NoAnswer(LogError),
}

/// What the log says about a position that a server refused to fill.
enum Verdict {
    Final(Result<Position, AppendError>),
    PastEnd(Position),
    Undecided(LogError),
}

impl NatsLog {
    pub(super) async fn open(
        shared: Arc<Shared>,
        name: String,
        info: &StreamInfo,
    ) -> Result<Self, LogError> {
        let random_id = info.config.id().unwrap_or_default();
        let tail_subject = api::tail_subject(&name, random_id);
        let mut max = shared.client.max_payload();
        if info.config.max_msg_size > 0 {
            max = max.min(usize::try_from(info.config.max_msg_size).unwrap_or(usize::MAX));
        }
        let stream = Stream {
            subject: api::subject(&name, random_id),
            id: stream_id(info),
            max_record_bytes: max.saturating_sub(HEADER_BYTES),
            name,
            shared,
        };
        let mut announcements = within(
            stream.shared.options.timeout,
            "subscribing to a log",
            stream.shared.client.subscribe(tail_subject),
        )
        .await?
        .map_err(|error| LogError::Unavailable(error.to_string()))?;
        let (sender, announced) = watch::channel(info.state.last_seq);
        let tail = tokio::spawn(async move {
            while let Some(message) = announcements.next().await {
                if let Some(sequence) = number(&message, SEQUENCE) {
                    sender.send_if_modified(|last| {
                        let is_new = sequence > *last;
                        *last = sequence.max(*last);
                        is_new
                    });
                }
            }
        });
        Ok(Self { stream: Arc::new(stream), tail, announced })
    }

    fn servers(&self) -> Nats {
        Nats { shared: Arc::clone(&self.stream.shared) }
    }

    fn run<T: Send + 'static, F: Future<Output = Result<T, LogError>> + Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Stream>) -> F,
    ) -> Result<T, LogError> {
        let work = work(Arc::clone(&self.stream));
        self.stream.shared.run(work).unwrap_or_else(|| Err(panicked()))
    }
}

impl Log for NatsLog {
    fn state(&self) -> Result<LogState, LogError> {
        self.run(|stream| async move { stream.state().await })
    }

    fn append(
        &self,
        after: Position,
        id: AppendId,
        record: &Bytes,
    ) -> Result<Position, AppendError> {
        let max = self.stream.max_record_bytes;
        if record.len() > max {
            return Err(AppendError::TooLarge { max });
        }
        let (stream, record) = (Arc::clone(&self.stream), record.clone());
        let work = async move { stream.append(after, id, record).await };
        let appended = self.stream.shared.run(work);
        appended.unwrap_or_else(|| Err(AppendError::Unknown(panicked())))
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Entry>, LogError> {
        let from = from.max(Position(1));
        self.run(move |stream| async move { stream.read(from, max_bytes).await })
    }

    fn wait(&self, from: Position, limit: Duration) -> Result<(), LogError> {
        let mut announced = self.announced.clone();
        self.run(move |_| async move {
            // Ends early if the connection was closed for good; the next read reports that.
            let known = announced.wait_for(|last| *last >= from.0);
            let _ = timeout(limit.min(MAX_WAIT), known).await;
            Ok(())
        })
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.run(move |stream| async move { stream.trim(below).await })
    }

    fn max_record_bytes(&self) -> usize {
        self.stream.max_record_bytes
    }

    fn reopen(&self) -> Result<Arc<dyn Log>, LogError> {
        Ok(Arc::new(self.servers().open(&self.stream.name)?))
    }

    fn replace(&self) -> Result<Arc<dyn Log>, LogError> {
        let servers = self.servers();
        servers.delete(&self.stream.name)?;
        servers.create(&self.stream.name)?;
        self.reopen()
    }
}

impl Drop for NatsLog {
    fn drop(&mut self) {
        self.tail.abort();
    }
}

impl Stream {
    fn attempt_timeout(&self) -> Duration {
        self.shared.options.attempt_timeout
    }

    async fn info(&self) -> Result<StreamInfo, LogError> {
        let info =
            api::stream_info(&self.shared.client, &self.name, self.attempt_timeout()).await?;
        let found = stream_id(&info);
        if found == self.id {
            Ok(info)
        } else {
            Err(LogError::Recreated { expected: self.id.clone(), found })
        }
    }

    async fn state(&self) -> Result<LogState, LogError> {
        let deadline = Instant::now() + self.shared.options.timeout;
        loop {
            match self.info().await {
                Err(LogError::Unavailable(_)) if Instant::now() + RETRY_PAUSE < deadline => {
                    sleep(RETRY_PAUSE).await;
                }
                info => return info.map(|info| self.state_of(&info)),
            }
        }
    }

    fn state_of(&self, info: &StreamInfo) -> LogState {
        let last = Position(info.state.last_seq);
        let first =
            if info.state.messages == 0 { last.next() } else { Position(info.state.first_seq) };
        LogState { stream: self.id.clone(), first, last }
    }

    async fn append(
        &self,
        after: Position,
        id: AppendId,
        record: Bytes,
    ) -> Result<Position, AppendError> {
        let deadline = Instant::now() + self.shared.options.timeout;
        // Whether an earlier attempt may have appended the record.
        let mut may_be_there = false;
        loop {
            let mut past_end = None;
            let why = match self.publish(after, id, &record).await {
                Attempt::Appended(position) => return Ok(position),
                Attempt::TooLarge => {
                    let max = self.max_record_bytes.min(record.len().saturating_sub(1));
                    return Err(AppendError::TooLarge { max });
                }
                Attempt::Refused => match self.judge(after, id).await {
                    Verdict::Final(result) => return result,
                    Verdict::PastEnd(last) => {
                        past_end = Some(last);
                        LogError::Unavailable(format!("the log ends at {last}"))
                    }
                    Verdict::Undecided(why) => why,
                },
                Attempt::NotSent(why) => why,
                Attempt::NoAnswer(why) => {
                    may_be_there = true;
                    why
                }
            };
            let is_final = !matches!(why, LogError::Unavailable(_));
            if is_final || Instant::now() + RETRY_PAUSE >= deadline {
                return Err(match past_end {
                    Some(last) => AppendError::PastEnd { last },
                    None if may_be_there => AppendError::Unknown(why),
                    None => AppendError::Failed(why),
                });
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Publishes the record once.
    async fn publish(&self, after: Position, id: AppendId, record: &Bytes) -> Attempt {
        let mut headers = HeaderMap::new();
        headers.insert(MSG_ID, message_id(after.next(), id));
        headers.insert(EXPECTED_STREAM, self.name.as_str());
        headers.insert(EXPECTED_LAST_SEQUENCE, after.to_string());
        let request = Request::new().headers(headers).payload(record.clone());
        // Not less at the end of an operation: an attempt that is cut short settles nothing.
        let limit = self.attempt_timeout();
        let answer: Result<PublishAck, _> =
            api::send(&self.shared.client, self.subject.clone(), request, limit).await;
        match answer {
            Ok(ack) if ack.seq == after.next().0 => Attempt::Appended(after.next()),
            Ok(ack) => Attempt::NoAnswer(LogError::Damaged(format!(
                "the stream {} has put a record to {} that had to follow {after}",
                self.name, ack.seq
            ))),
            Err(error) if WRONG_LAST_SEQUENCE.contains(&error.code) => Attempt::Refused,
            Err(error) if error.code == MESSAGE_TOO_LARGE => Attempt::TooLarge,
            Err(error) if error.not_sent => {
                let why = LogError::Unavailable(format!("stream {}: {error}", self.name));
                // The subject has no responder either if the stream was created again.
                match self.info().await {
                    Err(gone @ (LogError::Recreated { .. } | LogError::Missing(_))) => {
                        Attempt::NotSent(gone)
                    }
                    _ => Attempt::NotSent(why),
                }
            }
            Err(error) => {
                Attempt::NoAnswer(LogError::Unavailable(format!("stream {}: {error}", self.name)))
            }
        }
    }

    /// Finds out which record follows `after`, because a server has refused to append one there.
    async fn judge(&self, after: Position, id: AppendId) -> Verdict {
        let position = after.next();
        let info = match self.info().await {
            Ok(info) => info,
            // The refused attempt did not append the record, but an earlier one may have.
            Err(LogError::Unavailable(why)) => {
                return Verdict::Undecided(LogError::Unavailable(why));
            }
            Err(gone) => return Verdict::Final(Err(AppendError::Unknown(gone))),
        };
        let LogState { first, last, .. } = self.state_of(&info);
        match self.read_batch(position, 1, 1).await {
            Ok(entries) => match entries.first() {
                Some(entry) if entry.id == id => Verdict::Final(Ok(position)),
                Some(entry) => {
                    let last = last.max(entry.position);
                    Verdict::Final(Err(AppendError::Conflict { last }))
                }
                None if position < first => {
                    Verdict::Final(Err(AppendError::Unknown(LogError::Trimmed { first })))
                }
                None if last < after => Verdict::PastEnd(last),
                // Another append is under way there, or the answering server is out of date.
                None => Verdict::Undecided(LogError::Unavailable(format!(
                    "stream {}: the record at {position} is not decided",
                    self.name
                ))),
            },
            Err(LogError::Unavailable(why)) => Verdict::Undecided(LogError::Unavailable(why)),
            Err(error) => Verdict::Final(Err(AppendError::Unknown(error))),
        }
    }

    async fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Entry>, LogError> {
        let entries = self.read_batch(from, MAX_READ_RECORDS, max_bytes).await?;
        if entries.is_empty() {
            // There is nothing new, or all was removed, or this is another stream.
            let state = self.state().await?;
            if from < state.first {
                return Err(LogError::Trimmed { first: state.first });
            }
        }
        Ok(entries)
    }

    /// Reads records from any replica, in one request.
    async fn read_batch(
        &self,
        from: Position,
        count: u32,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, LogError> {
        let client = &self.shared.client;
        let unavailable =
            |why: String| LogError::Unavailable(format!("stream {}: {why}", self.name));
        let deadline = Instant::now() + self.shared.options.timeout;
        let inbox = client.new_inbox();
        let subscribing =
            within(self.attempt_timeout(), "reading", client.subscribe(inbox.clone()));
        let mut answers = subscribing.await?.map_err(|error| unavailable(error.to_string()))?;
        let body = json!({ "seq": from.0, "batch": count, "max_bytes": max_bytes.max(1) });
        let subject = format!("$JS.API.DIRECT.GET.{}", self.name);
        let asking = client.publish_with_reply(subject, inbox, body.to_string().into());
        within(self.attempt_timeout(), "reading", asking)
            .await?
            .map_err(|error| unavailable(error.to_string()))?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        loop {
            let wait_until = deadline.min(Instant::now() + self.attempt_timeout());
            let message = match timeout_at(wait_until, answers.next()).await {
                Ok(Some(message)) => message,
                // What has arrived is in order and can be used.
                _ if !entries.is_empty() => return Ok(entries),
                _ => return Err(unavailable("no answer in time".into())),
            };
            match message.status {
                None => {}
                Some(StatusCode::NOT_FOUND) => return Ok(entries),
                Some(status) if status.as_u16() == END_OF_BATCH => return Ok(entries),
                Some(_) if !entries.is_empty() => return Ok(entries),
                Some(status) => return Err(unavailable(format!("status {status}"))),
            }
            let expected = entries.last().map_or(from, |last| last.position.next());
            let entry = self.entry(message)?;
            if entry.position != expected {
                // A batch begins with the first message that is left.
                return if entries.is_empty() {
                    Err(LogError::Trimmed { first: entry.position })
                } else {
                    Ok(entries)
                };
            }
            bytes += entry.record.len();
            if bytes > max_bytes && !entries.is_empty() {
                return Ok(entries);
            }
            entries.push(entry);
        }
    }

    /// Reads a message of the stream.
    fn entry(&self, message: Message) -> Result<Entry, LogError> {
        let position = number(&message, SEQUENCE).map(Position);
        let position = position
            .ok_or_else(|| LogError::Damaged("a message without a sequence number".into()))?;
        let subject = header(&message, SUBJECT);
        if subject != Some(&self.subject) {
            let found = StreamId::new(subject.unwrap_or("a stream without subjects"));
            return Err(LogError::Recreated { expected: self.id.clone(), found });
        }
        let id = header(&message, MSG_ID).and_then(|text| parse_message_id(text, position));
        let id = id.ok_or_else(|| {
            LogError::Damaged(format!("the message at {position} has no id of an append there"))
        })?;
        Ok(Entry { position, id, record: message.payload })
    }

    async fn trim(&self, below: Position) -> Result<(), LogError> {
        let LogState { first, last, .. } = self.state().await?;
        if below > last {
            return Err(LogError::TrimPastEnd { last });
        }
        if below <= first {
            return Ok(());
        }
        // The filter leaves a stream alone that was created again.
        let body = json!({ "seq": below.0, "filter": self.subject });
        let subject = format!("$JS.API.STREAM.PURGE.{}", self.name);
        let limit = self.shared.options.timeout;
        let purged: Result<Purged, _> =
            api::request(&self.shared.client, subject, &body, limit).await;
        purged.map(|Purged {}| ()).map_err(|error| {
            LogError::Unavailable(format!("cannot trim the stream {}: {error}", self.name))
        })
    }
}

/// The id of a message. It contains the position, because the servers compare ids of all positions.
fn message_id(position: Position, id: AppendId) -> String {
    format!("{position}-{id}")
}

fn parse_message_id(text: &str, position: Position) -> Option<AppendId> {
    AppendId::parse(text.strip_prefix(&position.to_string())?.strip_prefix('-')?)
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.headers.as_ref()?.get(name).map(async_nats::HeaderValue::as_str)
}

fn number(message: &Message, name: &str) -> Option<u64> {
    header(message, name)?.parse().ok()
}

impl fmt::Debug for NatsLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsLog")
            .field("name", &self.stream.name)
            .field("stream", &self.stream.id)
            .finish_non_exhaustive()
    }
}
