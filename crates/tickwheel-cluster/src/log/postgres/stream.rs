//! A log in the tables.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::session::{Announcements, Parameter, Session, StatementError};
use super::{Postgres, Shared, no_answer, panicked, sql, stream_id};
use crate::log::{AppendError, AppendId, Entry, Log, LogError, LogState, Position, StreamId};

/// The largest record. A row could have a gigabyte, but a record is sent whole.
const MAX_RECORD_BYTES: usize = 4 << 20;
/// Announcements of records may get lost, so a wait ends after this time in any case.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// Between two attempts of an operation.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A log in a `PostgreSQL` database; [`Postgres::open`](super::Postgres::open) opens it.
///
/// ```
/// use bytes::Bytes;
/// use tickwheel_cluster::log::{AppendError, AppendId, Log, PostgresLog, Position, SimulatedLog};
///
/// /// Appends a record, and repeats that until the log has decided.
/// fn append(log: &dyn Log, after: Position, record: &Bytes) -> Result<Position, AppendError> {
///     loop {
///         match log.append(after, AppendId::of(record), record) {
///             Err(error) if error.is_worth_repeating() => {}
///             decided => return decided,
///         }
///     }
/// }
///
/// /// The same code runs on a database and in tests.
/// fn append_first(log: &PostgresLog, record: &Bytes) -> Result<Position, AppendError> {
///     append(log, Position::START, record)
/// }
///
/// assert_eq!(append(&SimulatedLog::new(1), Position::START, &"first".into())?, Position(1));
/// # Ok::<(), AppendError>(())
/// ```
pub struct PostgresLog {
    stream: Arc<Stream>,
    announced: watch::Receiver<u64>,
}

/// What the operations need, on the thread of the client.
struct Stream {
    shared: Arc<Shared>,
    name: String,
    id: StreamId,
    announcements: Announcements,
    /// `None` after a failure; the next operation connects again.
    session: Mutex<Option<Arc<Session>>>,
}

/// What one attempt to append has shown.
enum Attempt {
    Settled(Result<Position, AppendError>),
    /// The database was not changed by this attempt.
    NotSent(LogError),
    /// The record may have been appended.
    NoAnswer(LogError),
}

impl PostgresLog {
    pub(super) async fn open(shared: Arc<Shared>, name: String) -> Result<Self, LogError> {
        let (sender, announced) = watch::channel(0);
        let announcements = Announcements::of(&name, Arc::new(sender));
        let mut stream = Stream {
            id: StreamId::new(""),
            announcements,
            session: Mutex::new(None),
            name,
            shared,
        };
        stream.id = stream.extent().await?.stream;
        Ok(Self { stream: Arc::new(stream), announced })
    }

    fn database(&self) -> Postgres {
        Postgres { shared: Arc::clone(&self.stream.shared) }
    }

    fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Stream>) -> F,
    ) -> Option<T> {
        self.stream.shared.runtime.run(work(Arc::clone(&self.stream)))
    }
}

impl Log for PostgresLog {
    fn state(&self) -> Result<LogState, LogError> {
        self.run(|stream| async move { stream.state().await }).unwrap_or_else(|| Err(panicked()))
    }

    fn append(
        &self,
        after: Position,
        id: AppendId,
        record: &Bytes,
    ) -> Result<Position, AppendError> {
        if record.len() > MAX_RECORD_BYTES {
            return Err(AppendError::TooLarge { max: MAX_RECORD_BYTES });
        }
        let record = record.clone();
        self.run(move |stream| async move { stream.append(after, id, &record).await })
            .unwrap_or_else(|| Err(AppendError::Unknown(panicked())))
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Entry>, LogError> {
        let from = from.max(Position(1));
        self.run(move |stream| async move { stream.read(from, max_bytes).await })
            .unwrap_or_else(|| Err(panicked()))
    }

    fn wait(&self, from: Position, limit: Duration) -> Result<(), LogError> {
        let mut announced = self.announced.clone();
        self.run(move |stream| async move {
            // Announcements need a connection.
            stream.session().await?;
            let known = announced.wait_for(|last| *last >= from.0);
            // The sender lives as long as the stream.
            let _ = timeout(limit.min(MAX_WAIT), known).await;
            Ok(())
        })
        .unwrap_or_else(|| Err(panicked()))
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.run(move |stream| async move { stream.trim(below).await })
            .unwrap_or_else(|| Err(panicked()))
    }

    fn max_record_bytes(&self) -> usize {
        MAX_RECORD_BYTES
    }

    fn reopen(&self) -> Result<Arc<dyn Log>, LogError> {
        Ok(Arc::new(self.database().open(&self.stream.name)?))
    }

    fn replace(&self) -> Result<Arc<dyn Log>, LogError> {
        let database = self.database();
        database.delete(&self.stream.name)?;
        database.create(&self.stream.name)?;
        self.reopen()
    }
}

impl Stream {
    /// Returns the connection; makes a new one if it was lost.
    async fn session(&self) -> Result<Arc<Session>, LogError> {
        let mut session = self.session.lock().await;
        match &*session {
            Some(session) if !session.is_closed() => Ok(Arc::clone(session)),
            _ => {
                *session = None;
                let new = Session::connect(&self.shared, self.announcements.clone()).await?;
                Ok(Arc::clone(session.insert(Arc::new(new))))
            }
        }
    }

    /// Runs a statement once. After a failure the next one gets another connection: a server that
    /// does not answer, or that became a standby, is left.
    async fn query(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        let session = self
            .session()
            .await
            .map_err(|cause| StatementError { changed_nothing: true, cause })?;
        let limit = self.shared.options.attempt_timeout;
        let rows = match timeout(limit, session.query(statement, parameters)).await {
            Ok(rows) => rows,
            Err(_) => Err(StatementError { changed_nothing: false, cause: no_answer() }),
        };
        if rows.is_err() {
            let mut current = self.session.lock().await;
            if current.as_ref().is_some_and(|it| Arc::ptr_eq(it, &session)) {
                *current = None;
            }
        }
        rows
    }

    /// Runs a statement that may be repeated.
    async fn query_repeatedly(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, LogError> {
        let deadline = Instant::now() + self.shared.options.timeout;
        loop {
            match self.query(statement, parameters).await {
                Err(StatementError { cause: LogError::Unavailable(_), .. })
                    if Instant::now() + RETRY_PAUSE < deadline =>
                {
                    sleep(RETRY_PAUSE).await;
                }
                rows => return rows.map_err(Into::into),
            }
        }
    }

    /// The log's extent, whichever stream it is.
    async fn extent(&self) -> Result<LogState, LogError> {
        let rows = self.query_repeatedly(sql::STATE, &[(&self.name, Type::TEXT)]).await?;
        let row = rows.first().ok_or_else(|| LogError::Missing(self.name.clone()))?;
        Ok(extent_of(row))
    }

    async fn state(&self) -> Result<LogState, LogError> {
        self.extent().await.and_then(|state| self.own(state))
    }

    /// Refuses a log that was created again.
    fn own(&self, state: LogState) -> Result<LogState, LogError> {
        if state.stream == self.id {
            Ok(state)
        } else {
            Err(LogError::Recreated { expected: self.id.clone(), found: state.stream })
        }
    }

    async fn append(
        &self,
        after: Position,
        id: AppendId,
        record: &Bytes,
    ) -> Result<Position, AppendError> {
        let deadline = Instant::now() + self.shared.options.timeout;
        // Whether an earlier attempt may have appended the record.
        let mut may_be_there = false;
        loop {
            let why = match self.try_append(after, id, record).await {
                Attempt::Settled(result) => return result,
                Attempt::NotSent(why) => why,
                Attempt::NoAnswer(why) => {
                    may_be_there = true;
                    why
                }
            };
            let is_final = !matches!(why, LogError::Unavailable(_));
            if is_final || Instant::now() + RETRY_PAUSE >= deadline {
                let error = if may_be_there { AppendError::Unknown } else { AppendError::Failed };
                return Err(error(why));
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn try_append(&self, after: Position, id: AppendId, record: &Bytes) -> Attempt {
        let lazy = self.shared.options.allow_lazy_sync;
        let (expected, id_bytes) = (number(after), id.0.to_be_bytes());
        let (stream, id_bytes, record) = (self.id.as_str(), &id_bytes[..], &record[..]);
        let parameters: [Parameter<'_>; 6] = [
            (&self.name, Type::TEXT),
            (&stream, Type::TEXT),
            (&expected, Type::INT8),
            (&id_bytes, Type::BYTEA),
            (&record, Type::BYTEA),
            (&lazy, Type::BOOL),
        ];
        match self.query(sql::APPEND, &parameters).await {
            Ok(rows) if rows.is_empty() => self.settle(after, id).await,
            Ok(_) => {
                self.announce(after.next());
                Attempt::Settled(Ok(after.next()))
            }
            Err(error) if error.changed_nothing => Attempt::NotSent(error.cause),
            Err(error) => Attempt::NoAnswer(error.cause),
        }
    }

    /// Finds out which record follows `after`, because an append there changed nothing.
    async fn settle(&self, after: Position, id: AppendId) -> Attempt {
        let lazy = self.shared.options.allow_lazy_sync;
        let position = after.next();
        let number = number(position);
        let parameters: [Parameter<'_>; 3] =
            [(&self.name, Type::TEXT), (&number, Type::INT8), (&lazy, Type::BOOL)];
        let rows = match self.query(sql::SETTLE, &parameters).await {
            Ok(rows) => rows,
            // This append has changed nothing; what an earlier one did stays open.
            Err(error) => return Attempt::NotSent(error.cause),
        };
        let Some(row) = rows.first() else {
            return match self.state().await {
                Ok(_) => Attempt::NotSent(LogError::Unsafe(
                    "PostgreSQL: `synchronous_standby_names` is empty; name a standby".into(),
                )),
                Err(why) => Attempt::NotSent(why),
            };
        };
        let LogState { first, last, .. } = match self.own(extent_of(row)) {
            Ok(state) => state,
            Err(why) => return Attempt::NotSent(why),
        };
        if position < first {
            let unknown = AppendError::Unknown(LogError::Trimmed { first });
            return Attempt::Settled(Err(unknown));
        }
        if after > last {
            return Attempt::Settled(Err(AppendError::PastEnd { last }));
        }
        match row.get::<_, Option<&[u8]>>(3) {
            Some(found) if found == id.0.to_be_bytes() => Attempt::Settled(Ok(position)),
            Some(_) => Attempt::Settled(Err(AppendError::Conflict { last })),
            // The statement began before an append at this position, and has waited for it.
            None => Attempt::NotSent(LogError::Unavailable(format!(
                "log {}: the record at {position} is not decided",
                self.name
            ))),
        }
    }

    /// Wakes readers. They also look by themselves from time to time, so this may fail.
    fn announce(&self, position: Position) {
        let text = Announcements::text(&self.name, position.0);
        let Some(session) = self.session.try_lock().ok().and_then(|it| it.clone()) else { return };
        tokio::spawn(
            async move { session.query(sql::ANNOUNCE, &[(&text, Type::TEXT)]).await.ok() },
        );
    }

    async fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Entry>, LogError> {
        let (start, bytes) = (number(from), i64::try_from(max_bytes).unwrap_or(i64::MAX));
        let parameters: [Parameter<'_>; 3] =
            [(&self.name, Type::TEXT), (&start, Type::INT8), (&bytes, Type::INT8)];
        let rows = self.query_repeatedly(sql::READ, &parameters).await?;
        let row = rows.first().ok_or_else(|| LogError::Missing(self.name.clone()))?;
        let LogState { first, last, .. } = self.own(extent_of(row))?;
        if from < first {
            return Err(LogError::Trimmed { first });
        }
        let mut entries: Vec<Entry> = Vec::new();
        for row in rows {
            let Some(position) = row.get::<_, Option<i64>>(3) else { break };
            let expected = entries.last().map_or(from, |last| last.position.next());
            if position != number(expected) {
                break;
            }
            let id = <[u8; 16]>::try_from(row.get::<_, &[u8]>(4)).map_err(|_| {
                LogError::Damaged(format!("the record at {position} has no id of an append"))
            })?;
            let record = Bytes::copy_from_slice(row.get(5));
            let id = AppendId(u128::from_be_bytes(id));
            entries.push(Entry { position: expected, id, record });
        }
        if entries.is_empty() && from <= last {
            return Err(LogError::Damaged(format!(
                "the log {} reaches from {first} to {last}, but the record at {from} is missing",
                self.name
            )));
        }
        Ok(entries)
    }

    async fn trim(&self, below: Position) -> Result<(), LogError> {
        let LogState { first, last, .. } = self.state().await?;
        if below > last {
            return Err(LogError::TrimPastEnd { last });
        }
        if below <= first {
            return Ok(());
        }
        let (stream, first) = (self.id.as_str(), number(below));
        let parameters: [Parameter<'_>; 3] =
            [(&self.name, Type::TEXT), (&stream, Type::TEXT), (&first, Type::INT8)];
        self.query_repeatedly(sql::TRIM, &parameters).await.map(drop)
    }
}

/// Reads the first three columns of a row.
fn extent_of(row: &Row) -> LogState {
    let position = |column| Position(u64::try_from(row.get::<_, i64>(column)).unwrap_or(0));
    LogState { stream: stream_id(row.get(0)), first: position(1), last: position(2) }
}

/// A position as the database stores it. No log becomes as long as that type allows.
fn number(position: Position) -> i64 {
    i64::try_from(position.0).unwrap_or(i64::MAX)
}

impl fmt::Debug for PostgresLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLog")
            .field("name", &self.stream.name)
            .field("stream", &self.stream.id)
            .finish_non_exhaustive()
    }
}
