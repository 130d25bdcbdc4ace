//! How to connect to a database.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;

use crate::log::LogError;

/// How to connect to a database, and what is demanded of it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_cluster::log::PostgresOptions;
///
/// // Several hosts are tried in turn, until one accepts writes.
/// let mut options = PostgresOptions::new("postgresql://tickwheel:secret@a,b/tickwheel");
/// options.timeout = Duration::from_secs(10);
/// // A password is not shown.
/// assert!(!format!("{options:?}").contains("secret"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The connection string: a URL, or keys and values as libpq reads them.
    pub url: String,
    /// Accept a server that acknowledges commits before a standby has them, or before they are
    /// synced. Acknowledged records can then be lost.
    pub allow_lazy_sync: bool,
    /// After this time an operation is not attempted again. Defaults to 5 seconds.
    pub timeout: Duration,
    /// How long one statement of an operation may take before it is repeated. Defaults to 2 seconds.
    pub attempt_timeout: Duration,
}

impl PostgresOptions {
    /// Demands a synchronous standby.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            allow_lazy_sync: false,
            timeout: Duration::from_secs(5),
            attempt_timeout: Duration::from_secs(2),
        }
    }

    pub(super) fn config(&self) -> Result<Config, LogError> {
        let mut config: Config = self.url.parse().map_err(|error| {
            LogError::Missing(format!("the connection string cannot be read: {error}"))
        })?;
        if config.get_application_name().is_none() {
            config.application_name("tickwheel");
        }
        config.connect_timeout(self.attempt_timeout);
        config.tcp_user_timeout(self.timeout);
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(config)
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        f.debug_struct("PostgresOptions")
            .field("allow_lazy_sync", &self.allow_lazy_sync)
            .field("timeout", &self.timeout)
            .field("attempt_timeout", &self.attempt_timeout)
            .finish_non_exhaustive()
    }
}
