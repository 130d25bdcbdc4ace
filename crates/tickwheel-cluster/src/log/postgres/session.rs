//! One connection to the database.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, NoTls, Row};

use super::{Shared, no_answer, sql};
use crate::log::LogError;

/// A connection whose settings were checked.
pub(super) struct Session {
    client: Client,
    /// How many warnings the server has sent.
    warnings: Arc<AtomicU64>,
    driver: JoinHandle<()>,
}

/// A value for a statement, with its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Where announcements of records go.
#[derive(Clone)]
pub(super) struct Announcements {
    log: String,
    last: Option<Arc<watch::Sender<u64>>>,
}

/// Why a statement failed.
#[derive(Debug)]
pub(super) struct StatementError {
    /// Whether the statement certainly changed nothing.
    pub(super) changed_nothing: bool,
    pub(super) cause: LogError,
}

impl From<StatementError> for LogError {
    fn from(error: StatementError) -> Self {
        error.cause
    }
}

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(answer) = error.as_db_error() else {
            let cause = LogError::Unavailable(format!("PostgreSQL: {error}"));
            return Self { changed_nothing: false, cause };
        };
        let text = format!("PostgreSQL: {}", answer.message());
        let cause = match *answer.code() {
            SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => LogError::Missing(text),
            _ => LogError::Unavailable(text),
        };
        // A server that shuts down ends sessions that have committed and wait for the standby.
        let class = &answer.code().code()[..2];
        Self { changed_nothing: !matches!(class, "08" | "57" | "58" | "XX"), cause }
    }
}

impl Announcements {
    pub(super) fn of(log: &str, last: Arc<watch::Sender<u64>>) -> Self {
        Self { log: log.to_owned(), last: Some(last) }
    }

    pub(super) fn unheard() -> Self {
        Self { log: String::new(), last: None }
    }

    /// What a writer announces.
    pub(super) fn text(log: &str, position: u64) -> String {
        format!("{position} {log}")
    }

    fn hear(&self, text: &str) {
        let Some((position, log)) = text.split_once(' ') else { return };
        let (Ok(position), Some(last)) = (position.parse::<u64>(), &self.last) else { return };
        if log == self.log {
            last.send_if_modified(|known| {
                let is_new = position > *known;
                *known = position.max(*known);
                is_new
            });
        }
    }
}

impl Session {
    /// Connects and checks that commits are durable.
    pub(super) async fn connect(
        shared: &Shared,
        announcements: Announcements,
    ) -> Result<Self, LogError> {
        let limit = shared.options.attempt_timeout;
        let connecting = tokio::time::timeout(limit, shared.config.connect(NoTls));
        let (client, mut connection) =
            connecting.await.map_err(|_| no_answer())?.map_err(|error| {
                LogError::Unavailable(format!("cannot connect to PostgreSQL: {error}"))
            })?;
        let warnings = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&warnings);
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                match message {
                    AsyncMessage::Notice(notice) if notice.severity() == "WARNING" => {
                        tracing::warn!(warning = notice.message(), "PostgreSQL warns");
                        counter.fetch_add(1, Ordering::SeqCst);
                    }
                    AsyncMessage::Notification(it) => announcements.hear(it.payload()),
                    _ => {}
                }
            }
        });
        let session = Self { client, warnings, driver };
        let preparing = async {
            let settings = sql::session_settings(limit.as_millis());
            session.client.batch_execute(&settings).await?;
            session.client.query_one(sql::SAFETY, &[]).await
        };
        let row = tokio::time::timeout(limit, preparing).await.map_err(|_| no_answer())?;
        let row = row.map_err(StatementError::from)?;
        if !shared.options.allow_lazy_sync {
            check_safety(row.get(0), row.get(1), row.get(2))?;
        }
        Ok(session)
    }

    /// Runs a statement. A warning during it counts as a failure: its commit may not be replicated.
    ///
    /// The statement is one message, so it takes effect even if no answer ever arrives.
    pub(super) async fn query(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        let before = self.warnings.load(Ordering::SeqCst);
        let rows = self.client.query_typed(statement, parameters).await?;
        if self.warnings.load(Ordering::SeqCst) != before {
            let cause = LogError::Unavailable("PostgreSQL warned during a commit".into());
            return Err(StatementError { changed_nothing: false, cause });
        }
        Ok(rows)
    }

    /// Runs statements without parameters.
    pub(super) async fn batch(&self, statements: &str) -> Result<(), StatementError> {
        Ok(self.client.batch_execute(statements).await?)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Closes the connection even if a statement is still waiting.
        self.driver.abort();
    }
}

fn check_safety(fsync: &str, full_page_writes: &str, standbys: &str) -> Result<(), LogError> {
    let unsafe_because = |what: &str| Err(LogError::Unsafe(format!("PostgreSQL: {what}")));
    if fsync != "on" {
        return unsafe_because("`fsync` is off; turn it on");
    }
    if full_page_writes != "on" {
        return unsafe_because("`full_page_writes` is off; turn it on");
    }
    if standbys.trim().is_empty() {
        return unsafe_because(
            "`synchronous_standby_names` is empty, so a commit is acknowledged before a standby has \
             it; name a standby, or allow lazy sync and accept the loss of acknowledged jobs",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_could_lose_commits_are_refused() {
        assert_eq!(check_safety("on", "on", "standby"), Ok(()));
        for (settings, name) in [
            (("off", "on", "standby"), "fsync"),
            (("on", "off", "standby"), "full_page_writes"),
            (("on", "on", " "), "synchronous_standby_names"),
        ] {
            let refused = check_safety(settings.0, settings.1, settings.2).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }

    #[test]
    fn announcements_of_other_logs_are_not_heard() {
        let (sender, last) = watch::channel(3);
        let announcements = Announcements::of("a log", Arc::new(sender));
        for text in [&Announcements::text("another", 9)[..], "9", "x a log", ""] {
            announcements.hear(text);
            assert_eq!(*last.borrow(), 3, "{text}");
        }
        announcements.hear(&Announcements::text("a log", 7));
        announcements.hear(&Announcements::text("a log", 5));
        assert_eq!(*last.borrow(), 7);
    }
}
