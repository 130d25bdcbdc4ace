//! The options of the service, in one table.

/// An option of the service.
///
/// ```
/// use tickwheel_server::config::OPTIONS;
///
/// let body = OPTIONS.iter().find(|option| option.name == "limits.body").unwrap();
/// assert_eq!(body.flag(), "limits-body");
/// assert_eq!(body.variable(), "TICKWHEEL_LIMITS_BODY");
/// assert_eq!(body.default, "8MiB");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The name in the file, with the table before a dot.
    pub name: &'static str,
    /// The kind of value, for a help text.
    pub value: &'static str,
    /// The default; empty if there is none.
    pub default: &'static str,
    /// What the option does.
    pub help: &'static str,
}

impl OptionSpec {
    /// Returns the name of the flag, without the hyphens before it.
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    /// Returns the name of the environment variable.
    pub fn variable(&self) -> String {
        format!("TICKWHEEL_{}", self.name.replace('.', "_").to_uppercase())
    }
}

macro_rules! options {
    ($($name:literal, $value:literal, $default:literal, $help:literal;)*) => {
        /// All options of the service.
        pub const OPTIONS: &[OptionSpec] = &[$(
            OptionSpec { name: $name, value: $value, default: $default, help: $help },
        )*];
    };
}

options! {
    "listen", "ADDRESS", "127.0.0.1:7300",
        "Address and port to listen on; port 0 takes a free one";
    "beanstalk", "ADDRESS", "",
        "Address and port for the beanstalkd protocol, such as `127.0.0.1:11300`; off if empty";
    "data", "DIRECTORY", "./tickwheel-data",
        "Directory for jobs (`queue/`) and tokens (`tokens.json`); if the service creates it, only its owner has access";
    "insecure", "BOOLEAN", "false",
        "Serve every client without tokens on an address that is not loopback";
    "durability", "sync|none|DURATION", "sync",
        "When changes are synced to disk: before each answer (`sync`), never (`none`), or at an interval such as `100ms`";
    "horizon", "DURATION", "5m",
        "How far ahead jobs are kept in memory";
    "near", "NUMBER", "500000",
        "Approximate number of jobs that are kept in memory";
    "cache", "SIZE", "32MiB",
        "Memory for the cache of disk reads";
    "reserve", "SIZE", "32MiB",
        "Disk space that is kept for a time when the disk is full: 0, or from 16MiB to 1GiB; at most a sixteenth of `limits.disk`, but not less than 16MiB";
    "salvage", "BOOLEAN", "false",
        "Open a damaged directory with what can be read; copies of the rest are kept in `damaged/`, logged and counted";
    "clock", "system|manual", "system",
        "Source of time; `manual` is for tests: time moves only with `tickwheel clock advance`, on a loopback address and in a data directory of its own";
    "page", "BOOLEAN", "true",
        "Serve the dashboard to browsers at `/`; `--no-page` disables it";
    "access_log", "all|errors|none", "all",
        "Which requests are logged";
    "log", "text|json", "text",
        "Format of the log, which goes to standard error";
    "log_level", "LEVEL", "info",
        "What is logged: `error`, `warn`, `info`, `debug` or `trace`, also per module: `info,tickwheel_queue=debug`";
    "shutdown_grace", "DURATION", "30s",
        "How long requests may take after the signal to stop";
    "tls.cert", "FILE", "",
        "Certificate chain in PEM; with it the service speaks TLS";
    "tls.key", "FILE", "",
        "Private key of the certificate in PEM";
    "tls.reload", "DURATION", "10s",
        "How often the two files are checked for changes";
    "push.allow", "LIST", "",
        "Networks and host patterns, with commas between, that push targets may have besides public addresses: `10.0.0.0/8,*.internal.example`";
    "push.connections", "NUMBER", "1024",
        "Concurrent connections to all push targets";
    "otlp.endpoint", "URL", "",
        "Address of an OpenTelemetry collector that gets traces by OTLP over HTTP, such as `http://127.0.0.1:4318`; without it nothing is sent";
    "otlp.service", "NAME", "tickwheel",
        "Name of this service in traces";
    "otlp.sample", "PERCENT", "100",
        "Share of traces that is recorded, for jobs that are put without a `traceparent`: 0 to 100";
    "cluster", "LIST", "",
        "Servers of the log of a cluster, which makes the service a node of it: addresses of NATS servers, `nats://a,nats://b,nats://c`, or a PostgreSQL database, `postgres://user@a,b/database`";
    "cluster_name", "NAME", "tickwheel",
        "Name of the cluster, with which the names of its NATS streams begin";
    "cluster_create", "BOOLEAN", "false",
        "Create the stream of a new cluster if there is none; a stream that lost its records is never replaced silently";
    "cluster_partitions", "NUMBER", "",
        "Number of partitions that the queues of a new cluster are spread over, 1 to 256; without this, 1 for a new cluster and the number of an existing one, which never changes";
    "cluster_monitors", "LIST", "",
        "Monitoring addresses of all NATS servers, with commas between; without this, port 8222 of each server";
    "cluster_allow_lazy_sync", "BOOLEAN", "false",
        "Accept NATS servers that acknowledge writes before they sync them; a power failure can then lose acknowledged jobs";
    "cluster_credentials", "FILE", "",
        "Credentials for NATS servers, as `nsc` creates them; a user and a password, or a token, can be part of their addresses instead";
    "cluster_ca", "FILE", "",
        "Certificates in PEM to trust in NATS servers, instead of those of the system; addresses that begin with `tls://` demand TLS";
    "cluster_cert", "FILE", "",
        "Certificate in PEM by which NATS servers know this node";
    "cluster_key", "FILE", "",
        "Private key of that certificate in PEM";
    "node", "NAME", "",
        "Name of this node, which no other node of the cluster has";
    "node_address", "URL", "",
        "Where other nodes reach this one; without this, `http://`, or `https://` with `tls.cert`, and the address of `listen`";
    "node_ca", "FILE", "",
        "Certificates in PEM to trust in other nodes that serve TLS; without this, the public ones";
    "limits.body", "SIZE", "8MiB",
        "Bytes of a request's body";
    "limits.header", "SIZE", "32KiB",
        "Bytes of a request's headers, including the URL";
    "limits.connections", "NUMBER", "0",
        "Concurrent connections; 0 is as many as file descriptors allow, up to 4096";
    "limits.memory", "SIZE", "128MiB",
        "Bytes of request bodies and answers in flight";
    "limits.rate", "NUMBER", "100000",
        "Requests per second of one token or address; 0 is no limit";
    "limits.header_timeout", "DURATION", "30s",
        "How long headers may take to arrive, and a connection may be idle";
    "limits.body_timeout", "DURATION", "30s",
        "How long a body may take to arrive";
    "limits.write_timeout", "DURATION", "30s",
        "How long a client may take to read any part of an answer";
    "limits.payload", "SIZE", "1MiB",
        "Bytes of a job's payload";
    "limits.batch", "NUMBER", "10000",
        "Items of a batch";
    "limits.queues", "NUMBER", "10000",
        "Queues; a token for some queues can create at most a tenth of them, and the last tenth is kept for tokens for all queues";
    "limits.pending", "NUMBER", "0",
        "Jobs that are scheduled, ready or leased; 0 is no limit";
    "limits.leased", "NUMBER", "1000000",
        "Jobs that are leased";
    "limits.disk", "SIZE", "0",
        "Bytes on disk; 0 is no limit";
}

/// Variables of the same family that are not options of the service.
pub(super) const OTHER_VARIABLES: [&str; 4] =
    ["TICKWHEEL_CONFIG", "TICKWHEEL_URL", "TICKWHEEL_TOKEN", "TICKWHEEL_CA"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_its_own_names() {
        let mut flags: Vec<_> = OPTIONS.iter().map(OptionSpec::flag).collect();
        flags.sort();
        flags.dedup();
        assert_eq!(flags.len(), OPTIONS.len());
    }
}
