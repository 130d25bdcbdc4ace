//! How to connect to NATS servers.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectOptions};

use super::within;
use crate::log::LogError;

/// The port of a NATS server's monitoring address.
const MONITOR_PORT: u16 = 8222;

/// A server that does not answer this long is replaced by another after three pings.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// How to connect to NATS servers, and what is demanded of them.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_cluster::log::NatsOptions;
///
/// let mut options = NatsOptions::new(["nats://a:4222", "nats://b:4222", "nats://c:4222"]);
/// // Each server is asked at port 8222 whether it syncs every write.
/// assert_eq!(options.monitors[0], "http://a:8222");
/// options.timeout = Duration::from_secs(2);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NatsOptions {
    /// The addresses of the servers: `nats://host:port` or `tls://host:port`, with a user and a
    /// password or a token if needed.
    pub servers: Vec<String>,
    /// The monitoring addresses of all servers: `http://host:port`. Defaults to port 8222 of each
    /// server's host.
    pub monitors: Vec<String>,
    /// A file with credentials, as `nsc` creates it.
    pub credentials: Option<PathBuf>,
    /// A PEM file with the certificates to trust, instead of those of the system.
    pub ca: Option<PathBuf>,
    /// PEM files with the client's certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Replicas of a stream: the number for new streams, and the least number that is accepted.
    /// Defaults to 3.
    pub replicas: u32,
    /// Accept servers that acknowledge writes before they sync them, and skip all checks of
    /// servers. A power failure can then lose acknowledged records.
    pub allow_lazy_sync: bool,
    /// After this time an operation is not attempted again. Defaults to 5 seconds.
    pub timeout: Duration,
    /// How long one request of an operation may take before it is repeated. Defaults to 2 seconds.
    pub attempt_timeout: Duration,
    /// Use no other servers than the given ones, even if these name others.
    pub ignore_discovered_servers: bool,
}

impl NatsOptions {
    /// Demands three replicas and servers that sync every write.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Self {
        let servers: Vec<String> = servers.into_iter().map(Into::into).collect();
        let monitors = servers.iter().map(|server| monitor_of(server)).collect();
        Self {
            servers,
            monitors,
            credentials: None,
            ca: None,
            certificate: None,
            replicas: 3,
            allow_lazy_sync: false,
            timeout: Duration::from_secs(5),
            attempt_timeout: Duration::from_secs(2),
            ignore_discovered_servers: false,
        }
    }
}

/// The monitoring address of a server at the usual port.
fn monitor_of(server: &str) -> String {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    let host_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host_port.rsplit_once(':') {
        // The colons inside the brackets of an IPv6 address separate no port.
        Some((host, port)) if !port.contains(']') => host,
        _ => host_port,
    };
    format!("http://{host}:{MONITOR_PORT}")
}

/// Connects to the first server that answers.
pub(super) async fn connect(options: NatsOptions) -> Result<Client, LogError> {
    let mut connect = ConnectOptions::new()
        .name("tickwheel")
        .ping_interval(PING_INTERVAL)
        .connection_timeout(options.attempt_timeout)
        .request_timeout(Some(options.attempt_timeout));
    if options.ignore_discovered_servers {
        connect = connect.ignore_discovered_servers();
    }
    if let Some(path) = &options.ca {
        connect = connect.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &options.certificate {
        connect = connect.add_client_certificate(certificate.clone(), key.clone());
    }
    let unusable = |what: String| LogError::Unavailable(format!("cannot connect to NATS: {what}"));
    if let Some(path) = &options.credentials {
        let text = std::fs::read_to_string(path)
            .map_err(|error| unusable(format!("{}: {error}", path.display())))?;
        connect = connect
            .credentials(&text)
            .map_err(|error| unusable(format!("{}: {error}", path.display())))?;
    }
    let connecting = connect.connect(&options.servers);
    within(options.timeout, "connecting to NATS", connecting)
        .await?
        .map_err(|error| unusable(format!("{}: {error}", options.servers.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monitor_is_on_the_host_of_its_server() {
        for (server, monitor) in [
            ("nats://a:4222", "http://a:8222"),
            ("a", "http://a:8222"),
            ("tls://me:secret@a.example:1/", "http://a.example:8222"),
            ("nats://[::1]:4222", "http://[::1]:8222"),
            ("nats://[::1]", "http://[::1]:8222"),
        ] {
            assert_eq!(monitor_of(server), monitor, "{server}");
        }
    }
}
