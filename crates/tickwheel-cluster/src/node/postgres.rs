//! Messages between nodes through a table of a `PostgreSQL` database: they may be lost.
//!
//! A node inserts a message and notifies the others, which read what is new. The table is unlogged
//! and its sessions do not wait for commits, so messages cost the log's standby nothing. They are
//! deleted after a while.

use std::fmt;
use std::future::poll_fn;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::mpsc as channel;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use super::message::{Message, Transport};
use super::wire::{decode, encode};
use crate::log::{LogError, Postgres};

/// How long connecting and each statement may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Notifications may get lost, so messages are looked for after this time in any case.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// How often old messages are deleted.
const CLEAN_INTERVAL: Duration = Duration::from_secs(5);
/// Outgoing messages that wait for the database. What does not fit is lost.
const MAX_WAITING: usize = 256;

const PREPARE: &str = "
begin;
select pg_advisory_xact_lock(7233169);
create schema if not exists tickwheel;
create unlogged table if not exists tickwheel.message (
    id bigserial primary key,
    sent timestamptz not null default clock_timestamp(),
    cluster text not null,
    recipient text not null,
    content bytea not null
);
commit;
set synchronous_commit = off;
listen tickwheel_message";

/// `$1` cluster, `$2` recipient, empty for all, `$3` content.
const SEND: &str = "
with sent as (
    insert into tickwheel.message (cluster, recipient, content) values ($1, $2, $3) returning id
)
select pg_notify('tickwheel_message', $1) from sent";

/// Where messages end now.
const END: &str = "select coalesce(max(id), 0) from tickwheel.message";

/// `$1` cluster, `$2` this node, `$3` the last id that was read.
const RECEIVE: &str = "
select id, content from tickwheel.message
where cluster = $1 and recipient in ('', $2) and id > $3
order by id limit 256";

const CLEAN: &str = "
delete from tickwheel.message where sent < clock_timestamp() - interval '10 seconds'";

/// Messages between the nodes of a cluster through a `PostgreSQL` database.
///
/// ```
/// use tickwheel_cluster::PostgresTransport;
/// use tickwheel_cluster::log::{LogError, Postgres, PostgresOptions};
///
/// fn join(url: &str, node: &str) -> Result<PostgresTransport, LogError> {
///     let postgres = Postgres::connect(PostgresOptions::new(url))?;
///     Ok(PostgresTransport::connect(&postgres, "tickwheel", node))
/// }
/// ```
pub struct PostgresTransport {
    node: String,
    outgoing: channel::Sender<(String, Message)>,
    arrived: mpsc::Receiver<Message>,
    exchange: JoinHandle<()>,
    /// Keeps the runtime of the task.
    _postgres: Postgres,
}

impl fmt::Debug for PostgresTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTransport").field("node", &self.node).finish_non_exhaustive()
    }
}

impl PostgresTransport {
    /// Starts to exchange messages. Connects again whenever the connection is lost.
    pub fn connect(postgres: &Postgres, cluster: &str, node: &str) -> Self {
        let (outgoing, to_send) = channel::channel(MAX_WAITING);
        let (sender, arrived) = mpsc::channel();
        let exchange = Exchange {
            config: postgres.config().clone(),
            cluster: cluster.to_owned(),
            node: node.to_owned(),
            to_send,
            arrived: sender,
        };
        let exchange = postgres.spawn(exchange.run());
        let (node, postgres) = (node.to_owned(), postgres.clone());
        Self { node, outgoing, arrived, exchange, _postgres: postgres }
    }
}

impl Transport for PostgresTransport {
    fn send(&mut self, to: Option<&str>, message: Message) {
        // A full queue, as while the database does not answer, drops the message.
        let _ = self.outgoing.try_send((to.unwrap_or_default().to_owned(), message));
    }

    fn receive(&mut self, timeout: Duration) -> Vec<Message> {
        let first = self.arrived.recv_timeout(timeout).ok();
        let messages = first.into_iter().chain(self.arrived.try_iter());
        // A node hears itself.
        messages
            .filter(|it| !matches!(it, Message::SeedRequest { from, .. } if *from == self.node))
            .collect()
    }
}

impl Drop for PostgresTransport {
    fn drop(&mut self) {
        self.exchange.abort();
    }
}

/// The task that talks to the database.
struct Exchange {
    config: Config,
    cluster: String,
    node: String,
    to_send: channel::Receiver<(String, Message)>,
    arrived: mpsc::Sender<Message>,
}

impl Exchange {
    async fn run(mut self) {
        loop {
            match self.exchange().await {
                // The transport was dropped.
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "messages are interrupted"),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Exchanges messages over one connection.
    async fn exchange(&mut self) -> Result<(), LogError> {
        let (client, mut notified, driver) = self.connect().await?;
        // Dropping it closes the connection.
        let _driver = AbortOnDrop(driver);
        let row = within(client.query_typed(END, &[])).await?;
        let mut last: i64 = row.first().map_or(0, |row| row.get(0));
        let mut cleaned = Instant::now();
        loop {
            tokio::select! {
                message = self.to_send.recv() => {
                    let Some((to, message)) = message else { return Ok(()) };
                    self.send(&client, &to, message).await?;
                }
                notification = timeout(MAX_WAIT, notified.recv()) => {
                    if matches!(notification, Ok(None)) {
                        return Err(LogError::Unavailable("the connection was lost".into()));
                    }
                    while notified.try_recv().is_ok() {}
                    last = self.receive(&client, last).await?;
                }
            }
            if cleaned.elapsed() > CLEAN_INTERVAL {
                cleaned = Instant::now();
                within(client.query_typed(CLEAN, &[])).await?;
            }
        }
    }

    async fn connect(&self) -> Result<(Client, channel::Receiver<()>, JoinHandle<()>), LogError> {
        let (client, mut connection) = within(self.config.connect(NoTls)).await?;
        let (notify, notified) = channel::channel(1);
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(_) = message {
                    // One notification that waits is enough: all messages are read.
                    let _ = notify.try_send(());
                }
            }
        });
        within(client.batch_execute(PREPARE)).await?;
        Ok((client, notified, driver))
    }

    async fn send(&self, client: &Client, to: &str, message: Message) -> Result<(), LogError> {
        let bytes = encode(message);
        let content = &bytes[..];
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&self.cluster, Type::TEXT), (&to, Type::TEXT), (&content, Type::BYTEA)];
        within(client.query_typed(SEND, &parameters)).await.map(drop)
    }

    /// Reads new messages; returns the id of the last one.
    async fn receive(&self, client: &Client, mut last: i64) -> Result<i64, LogError> {
        loop {
            let after = last;
            let parameters: [(&(dyn ToSql + Sync), Type); 3] =
                [(&self.cluster, Type::TEXT), (&self.node, Type::TEXT), (&after, Type::INT8)];
            let rows = within(client.query_typed(RECEIVE, &parameters)).await?;
            if rows.is_empty() {
                return Ok(last);
            }
            for row in rows {
                last = row.get(0);
                let content: &[u8] = row.get(1);
                if let Some(message) = decode(content.to_vec().into()) {
                    // The receiver is dropped together with this task.
                    let _ = self.arrived.send(message);
                }
            }
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn within<T>(
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, LogError> {
    let answer = timeout(TIMEOUT, work).await;
    let answer = answer.map_err(|_| LogError::Unavailable("PostgreSQL is silent".into()))?;
    answer.map_err(|error| LogError::Unavailable(format!("PostgreSQL: {error}")))
}
