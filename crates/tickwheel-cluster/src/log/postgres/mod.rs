//! The log in a `PostgreSQL` database with a synchronous standby.
//!
//! A log is a row of `tickwheel.log` with its identity and its first and last position, and the rows
//! of `tickwheel.record` that belong to it. An append is one statement: it moves the last position
//! if that is the expected one, and inserts the record.
//!
//! | rule of a log | how it is kept |
//! |---|---|
//! | durable on a quorum | sessions run with `synchronous_commit = on`; `synchronous_standby_names` must not be empty, at every connection and in every append |
//! | idempotent for ever | the id is stored beside the record; a refused append compares it, and makes a commit of its own before it answers |
//! | a handle belongs to one stream | every statement names the random identity of the log |
//!
//! `PostgreSQL` can make a commit visible that is not replicated: if the wait for the standby is
//! cancelled, it sends a warning and reports success. So a warning during an append counts as a lost
//! answer, and no statement is ever cancelled or given a time limit. A reader can see such a commit
//! too. A fail-over may lose it, and then the chain of hashes in the records shows that; see
//! [`record`](crate::record).
//!
//! Connections are not encrypted; a connection string that demands encryption is refused.
//!
//! | file | what it holds |
//! |---|---|
//! | `options` | [`PostgresOptions`] |
//! | `session` | one connection: its settings, their checks, warnings and notifications |
//! | `sql` | the statements |
//! | `stream` | [`PostgresLog`] |

mod options;
mod session;
mod sql;
mod stream;

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::types::Type;

use self::session::{Announcements, Session};
use super::blocking::BlockingRuntime;
use super::{LogError, StreamId};

pub use options::PostgresOptions;
pub use stream::PostgresLog;

/// A database that contains logs.
///
/// ```
/// use tickwheel_cluster::log::{LogError, Postgres, PostgresLog, PostgresOptions};
///
/// fn open_log(url: &str, is_first_start: bool) -> Result<PostgresLog, LogError> {
///     let postgres = Postgres::connect(PostgresOptions::new(url))?;
///     // Only the first start of a cluster creates its logs: a log that is missing later is lost.
///     if is_first_start {
///         postgres.create("tickwheel-0")?;
///     }
///     postgres.open("tickwheel-0")
/// }
///
/// let unreachable = open_log("postgresql://tickwheel@127.0.0.1:1/tickwheel", true);
/// assert!(matches!(unreachable, Err(LogError::Unavailable(_))));
/// ```
#[derive(Clone, Debug)]
pub struct Postgres {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    runtime: BlockingRuntime,
    options: PostgresOptions,
    config: tokio_postgres::Config,
}

impl Postgres {
    /// Connects to the database, and checks that its commits wait for a standby.
    ///
    /// # Errors
    ///
    /// * [`LogError::Unsafe`] if the server acknowledges commits that a standby does not have.
    /// * [`LogError::Unavailable`] if no server accepts writes.
    pub fn connect(options: PostgresOptions) -> Result<Self, LogError> {
        let config = options.config()?;
        let runtime = BlockingRuntime::start("tickwheel-postgres")?;
        let postgres = Self { shared: Arc::new(Shared { runtime, options, config }) };
        postgres.with_session(|_| async { Ok(()) })?;
        Ok(postgres)
    }

    /// Creates a log, and the tables if they are missing.
    ///
    /// # Errors
    ///
    /// * [`LogError::Exists`] if there is a log of this name.
    /// * [`LogError::Unavailable`] if the database does not answer or refuses.
    pub fn create(&self, name: &str) -> Result<(), LogError> {
        let name = name.to_owned();
        self.with_session(|session| async move {
            session.batch(sql::CREATE_TABLES).await?;
            let stream = format!("{:032x}", fastrand::u128(..));
            let rows =
                session.query(sql::CREATE_LOG, &[(&name, Type::TEXT), (&stream, Type::TEXT)]).await;
            if rows?.is_empty() {
                return Err(LogError::Exists(format!("the log {name}")));
            }
            Ok(())
        })
    }

    /// Opens a log that exists.
    ///
    /// # Errors
    ///
    /// * [`LogError::Missing`] if there is no such log.
    /// * [`LogError::Unavailable`] if the database does not answer.
    pub fn open(&self, name: &str) -> Result<PostgresLog, LogError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.run(async move { PostgresLog::open(shared, name).await })
    }

    /// Deletes a log with all its records. Deleting a log that does not exist does nothing.
    ///
    /// # Errors
    ///
    /// If the database does not answer.
    pub fn delete(&self, name: &str) -> Result<(), LogError> {
        let name = name.to_owned();
        self.with_session(|session| async move {
            session
                .query(sql::DELETE_LOG, &[(&name, Type::TEXT)])
                .await
                .map(drop)
                .map_err(Into::into)
        })
    }

    /// Returns how to connect, for other uses of the database.
    pub(crate) fn config(&self) -> &tokio_postgres::Config {
        &self.shared.config
    }

    /// Runs a task beside the connections.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.shared.runtime.handle().spawn(task)
    }

    /// Runs work on a connection of its own.
    fn with_session<T: Send + 'static, F: Future<Output = Result<T, LogError>> + Send>(
        &self,
        work: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Result<T, LogError> {
        let shared = Arc::clone(&self.shared);
        self.run(async move {
            let session = Session::connect(&shared, Announcements::unheard()).await?;
            let limit = shared.options.timeout;
            tokio::time::timeout(limit, work(session)).await.map_err(|_| no_answer())?
        })
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, LogError>> + Send + 'static,
    ) -> Result<T, LogError> {
        self.shared.runtime.run(work).unwrap_or_else(|| Err(panicked()))
    }
}

/// The identity of a log.
fn stream_id(text: &str) -> StreamId {
    StreamId::new(text)
}

fn no_answer() -> LogError {
    LogError::Unavailable("PostgreSQL did not answer in time".into())
}

fn panicked() -> LogError {
    LogError::Unavailable("the client of the log failed".into())
}
