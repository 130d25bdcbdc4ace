//! `/varz` of a server: whether it syncs every write before it acknowledges it.
//!
//! A NATS server by default syncs its files every two minutes. An acknowledged record is then lost
//! if a majority of the servers lose power at once, or one of them at the wrong moment.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde::Deserialize;

use super::NatsOptions;
use crate::log::LogError;

/// No answer of `/varz` is near as long.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// A server that syncs every write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
}

#[derive(Deserialize)]
struct Varz {
    #[serde(default)]
    server_name: String,
    jetstream: Option<JetStream>,
}

#[derive(Deserialize)]
struct JetStream {
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    sync_always: bool,
    /// Nanoseconds.
    #[serde(default)]
    sync_interval: u64,
}

/// What a look at all servers has shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Checked {
    /// The servers that sync every write.
    pub(super) servers: Vec<Server>,
    /// Why the others could not be asked.
    pub(super) unreachable: Vec<String>,
}

/// Checks all servers. A minority of them may be down.
pub(super) fn check_all(options: &NatsOptions) -> Result<Checked, LogError> {
    let mut checked = Checked::default();
    if options.allow_lazy_sync {
        return Ok(checked);
    }
    for monitor in &options.monitors {
        match fetch(monitor, options.attempt_timeout) {
            Ok(body) => checked.servers.push(check(monitor, &body)?),
            Err(why) => {
                tracing::warn!(%monitor, %why, "cannot check whether a NATS server syncs writes");
                checked.unreachable.push(format!("{monitor}/varz: {why}"));
            }
        }
    }
    if checked.servers.len() * 2 > options.monitors.len() {
        Ok(checked)
    } else {
        Err(LogError::Unavailable(format!(
            "cannot check whether NATS servers sync every write: {}; start each server with \
             `http_port` and name all monitoring addresses",
            checked.unreachable.join("; ")
        )))
    }
}

/// Checks the answer of one server.
fn check(monitor: &str, body: &str) -> Result<Server, LogError> {
    let unsafe_because = |what: String| LogError::Unsafe(format!("NATS server {monitor}: {what}"));
    let varz: Varz = serde_json::from_str(body)
        .map_err(|error| unsafe_because(format!("cannot read its /varz: {error}")))?;
    let Some(config) = varz.jetstream.and_then(|jetstream| jetstream.config) else {
        return Err(unsafe_because("JetStream is not enabled".into()));
    };
    if !config.sync_always {
        let interval = Duration::from_nanos(config.sync_interval);
        return Err(unsafe_because(format!(
            "it syncs its files every {interval:?} and acknowledges writes before; set \
             `jetstream {{ sync_interval: always }}`, or allow lazy sync and accept the loss of \
             acknowledged jobs"
        )));
    }
    Ok(Server { name: varz.server_name })
}

/// Fetches `/varz`. With HTTP/1.0 the answer ends with the connection and is not chunked.
fn fetch(monitor: &str, timeout: Duration) -> Result<String, String> {
    let address = monitor
        .strip_prefix("http://")
        .ok_or("a monitoring address begins with http://")?
        .trim_end_matches('/');
    let connect = || {
        let mut last = std::io::Error::other("the host has no address");
        for socket in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&socket, timeout) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    let ask = || {
        let mut stream = connect()?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        write!(stream, "GET /varz HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|error: std::io::Error| error.to_string())?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("not an answer of HTTP")?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_owned()),
        status => Err(format!("status {}", status.unwrap_or("missing"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_syncs_every_write_is_accepted() {
        let body = r#"{"server_name":"n1","jetstream":{"config":{"sync_always":true}}}"#;
        assert_eq!(check("m", body), Ok(Server { name: "n1".into() }));
    }

    #[test]
    fn a_server_that_syncs_later_is_refused() {
        let body = r#"{"server_name":"n1","jetstream":{"config":{"sync_interval":120000000000}}}"#;
        let refused = check("http://n1:8222", body).unwrap_err().to_string();
        assert!(refused.contains("http://n1:8222") && refused.contains("120s"), "{refused}");
        assert!(refused.contains("sync_interval: always"), "{refused}");
    }

    #[test]
    fn a_server_without_jetstream_and_other_answers_are_refused() {
        for body in [r#"{"server_name":"n1"}"#, r#"{"jetstream":{}}"#, "{", "[]", ""] {
            assert!(matches!(check("m", body), Err(LogError::Unsafe(_))), "{body}");
        }
    }
}
