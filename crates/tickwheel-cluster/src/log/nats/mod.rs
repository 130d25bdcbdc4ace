//! The log on a stream of NATS `JetStream`.
//!
//! A position is the sequence number of a message. An append is a publish with the headers
//! `Nats-Expected-Last-Sequence`, which makes it conditional, and `Nats-Msg-Id`, by which the server
//! recognises a repeated publish.
//!
//! | rule of a log | how it is kept |
//! |---|---|
//! | durable on a quorum | three replicas on file storage; every server must run with `sync_interval: always`, which `/varz` of each server shows |
//! | idempotent for ever | the servers remember message ids for two minutes only; after that, the message at the position is compared |
//! | nothing is dropped | no limit by age or by number, `discard: new`, messages cannot be deleted; [`Nats::open`] refuses a stream with other settings |
//! | a handle belongs to one stream | the subject contains a random id that a stream is created with, so a publish to an older stream finds no responder; the time of creation belongs to the identity as well |
//!
//! A refusal by the server is not final: a deposed leader may refuse an append because it does not
//! know the end of the log, or because it knows messages that never become durable. So `append`
//! reports a conflict only after it has read another record at the position.
//!
//! | file | what it holds |
//! |---|---|
//! | `api` | requests and answers of `JetStream` as JSON |
//! | `monitor` | `/varz`: whether a server syncs every write |
//! | `options` | [`NatsOptions`] |
//! | `stream` | [`NatsLog`] |

mod api;
mod monitor;
mod options;
mod stream;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::Client;
use tokio::time::{Instant, sleep, timeout};

use self::api::{CREATE_IN_USE, StreamConfig, StreamInfo};
use self::monitor::Checked;
use super::blocking::BlockingRuntime;
use super::{LogError, StreamId};

pub use options::NatsOptions;
pub use stream::NatsLog;

/// Appending without the headers of a publish would not fit: room for those that we send, and for
/// those that the server adds when it hands a message out.
const HEADER_BYTES: usize = 1024;

/// Between two attempts of an operation.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A connection to NATS servers, for any number of logs.
///
/// ```
/// use tickwheel_cluster::log::{LogError, Nats, NatsLog, NatsOptions};
///
/// fn open_log(options: NatsOptions, is_first_start: bool) -> Result<NatsLog, LogError> {
///     let nats = Nats::connect(options)?;
///     // Only the first start of a cluster creates its logs: a log that is missing later is lost.
///     if is_first_start {
///         nats.create("tickwheel-0")?;
///     }
///     nats.open("tickwheel-0")
/// }
///
/// // No server can be asked whether it syncs every write.
/// let mut options = NatsOptions::new(["nats://127.0.0.1:1"]);
/// options.monitors = vec!["http://127.0.0.1:1".into()];
/// assert!(matches!(open_log(options, true), Err(LogError::Unavailable(_))));
/// ```
#[derive(Clone, Debug)]
pub struct Nats {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    runtime: BlockingRuntime,
    client: Client,
    options: NatsOptions,
    /// The servers that were checked.
    checked: Mutex<Checked>,
}

impl Nats {
    /// Connects to NATS servers, after checking that every one syncs each write to its disk.
    ///
    /// # Errors
    ///
    /// * [`LogError::Unsafe`] if a server acknowledges writes before it syncs them.
    /// * [`LogError::Unavailable`] if no server can be reached, or if more than a minority cannot
    ///   be checked.
    pub fn connect(options: NatsOptions) -> Result<Self, LogError> {
        let checked = Mutex::new(monitor::check_all(&options)?);
        let runtime = BlockingRuntime::start("tickwheel-nats")?;
        let connecting = options::connect(options.clone());
        let client = runtime.run(connecting).unwrap_or_else(|| Err(panicked()))?;
        if !client.is_server_compatible(2, 11, 0) {
            let version = client.server_info().version;
            return Err(LogError::Unsafe(format!(
                "NATS server {version} is too old; upgrade it to 2.11 or newer"
            )));
        }
        Ok(Self { shared: Arc::new(Shared { runtime, client, options, checked }) })
    }

    /// Returns the client, for other uses of the connection. Its futures need no runtime of the
    /// caller's.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The runtime of the connection.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        self.shared.runtime.handle()
    }

    /// Creates the stream of a log.
    ///
    /// # Errors
    ///
    /// * [`LogError::Exists`] if there is a stream of this name.
    /// * [`LogError::Unavailable`] if the servers do not answer, or cannot place the replicas.
    pub fn create(&self, name: &str) -> Result<(), LogError> {
        check_name(name)?;
        let config = StreamConfig::new(name, self.shared.options.replicas);
        let subject = format!("$JS.API.STREAM.CREATE.{name}");
        let shared = Arc::clone(&self.shared);
        let name = name.to_owned();
        self.run(async move {
            let deadline = Instant::now() + shared.options.timeout;
            loop {
                // Repeating it is safe: a stream with the same id was created by an earlier request.
                let limit = shared.options.attempt_timeout;
                let created: Result<StreamInfo, _> =
                    api::request(&shared.client, subject.clone(), &config, limit).await;
                let exists = || LogError::Exists(format!("the stream {name}"));
                let created = match created {
                    Ok(info) if info.config.id() == config.id() => Ok(Ok(())),
                    Ok(_) => Ok(Err(exists())),
                    Err(error) if error.code == CREATE_IN_USE => Ok(Err(exists())),
                    Err(error) => Err(error),
                };
                match created {
                    Ok(outcome) => {
                        // A stream that another node has just created may be in use and unknown.
                        shared.await_stream(&name, deadline).await?;
                        return outcome;
                    }
                    Err(error) if Instant::now() + RETRY_PAUSE >= deadline => {
                        let why = format!("cannot create the stream {name}: {error}");
                        return Err(LogError::Unavailable(why));
                    }
                    // Servers that were just started have no leader yet.
                    Err(_) => sleep(RETRY_PAUSE).await,
                }
            }
        })
    }

    /// Opens the log on a stream that exists.
    ///
    /// # Errors
    ///
    /// * [`LogError::Missing`] if there is no such stream.
    /// * [`LogError::Unsafe`] if its settings could lose records, or if a server with one of its
    ///   replicas was not checked.
    /// * [`LogError::Unavailable`] if the servers do not answer.
    pub fn open(&self, name: &str) -> Result<NatsLog, LogError> {
        check_name(name)?;
        let (shared, stream) = (Arc::clone(&self.shared), name.to_owned());
        let info = self.run(async move {
            let deadline = Instant::now() + shared.options.timeout;
            loop {
                let limit = shared.options.attempt_timeout;
                match api::stream_info(&shared.client, &stream, limit).await {
                    Err(LogError::Unavailable(_)) if Instant::now() + RETRY_PAUSE < deadline => {
                        sleep(RETRY_PAUSE).await;
                    }
                    info => return info,
                }
            }
        })?;
        let safe = info.config.check(name, self.shared.options.replicas);
        safe.map_err(|what| LogError::Unsafe(format!("the stream {name}: {what}")))?;
        self.shared.check_replicas(&info)?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.run(async move { NatsLog::open(shared, name, &info).await })
    }

    /// Deletes the stream of a log with all its records. Deleting a stream that does not exist does
    /// nothing.
    ///
    /// # Errors
    ///
    /// If the servers do not answer.
    pub fn delete(&self, name: &str) -> Result<(), LogError> {
        check_name(name)?;
        let subject = format!("$JS.API.STREAM.DELETE.{name}");
        let shared = Arc::clone(&self.shared);
        self.run(async move {
            api::delete_stream(&shared.client, subject, shared.options.timeout).await
        })
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, LogError>> + Send + 'static,
    ) -> Result<T, LogError> {
        self.shared.run(work).unwrap_or_else(|| Err(panicked()))
    }
}

impl Shared {
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        self.runtime.run(work)
    }

    /// Waits until the servers know a stream. Ends without an error if they do not answer.
    async fn await_stream(&self, name: &str, deadline: Instant) -> Result<(), LogError> {
        loop {
            match api::stream_info(&self.client, name, self.options.attempt_timeout).await {
                Err(LogError::Missing(_)) if Instant::now() + RETRY_PAUSE < deadline => {
                    sleep(RETRY_PAUSE).await;
                }
                Err(missing @ LogError::Missing(_)) => return Err(missing),
                _ => return Ok(()),
            }
        }
    }

    /// Checks that every server with a replica that is online syncs every write. A server that is
    /// down takes no part in a quorum.
    fn check_replicas(&self, info: &StreamInfo) -> Result<(), LogError> {
        if self.options.allow_lazy_sync {
            return Ok(());
        }
        let unchecked = |checked: &Checked| {
            let is_unchecked = |name: &&str| !checked.servers.iter().any(|it| it.name == *name);
            info.online_servers().find(is_unchecked).map(str::to_owned)
        };
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if unchecked(&checked).is_none() {
            return Ok(());
        }
        // It may have been down before.
        *checked = monitor::check_all(&self.options)?;
        let Some(name) = unchecked(&checked) else { return Ok(()) };
        let why = format!(
            "the server {name} has a replica of the stream {}, but its /varz was not read",
            info.config.name
        );
        Err(if checked.unreachable.is_empty() {
            LogError::Unsafe(format!("{why}; add its monitoring address"))
        } else {
            LogError::Unavailable(format!("{why}: {}", checked.unreachable.join("; ")))
        })
    }
}

/// The identity of a stream.
fn stream_id(info: &StreamInfo) -> StreamId {
    StreamId::new(format!("{} of {}", info.config.id().unwrap_or("no id"), info.created))
}

/// Names are parts of subjects.
fn check_name(name: &str) -> Result<(), LogError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=128).contains(&name.len()) && name.chars().all(is_plain) {
        Ok(())
    } else {
        Err(LogError::Missing(format!(
            "{name:?} is no name of a log: use 1 to 128 letters, digits, `-` and `_`"
        )))
    }
}

fn panicked() -> LogError {
    LogError::Unavailable("the client of the log failed".into())
}

/// Gives a future a time limit.
async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = T>,
) -> Result<T, LogError> {
    timeout(limit, work)
        .await
        .map_err(|_| LogError::Unavailable(format!("{what}: no answer within {limit:?}")))
}
