//! The real binary in a process of its own.

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::{env, fs, thread};

use crate::{Client, Error};

/// The settings of a [`Server`].
///
/// ```
/// use tickwheel_client::testing::Server;
///
/// fn start_with_a_rate_limit() -> std::io::Result<Server> {
///     Server::builder().system_clock().argument("--limits-rate").argument("50").start()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    binary: PathBuf,
    clock: &'static str,
    arguments: Vec<String>,
}

impl ServerBuilder {
    /// Uses this binary. Defaults to the environment variable `TICKWHEEL_BIN`, and then to
    /// `tickwheel` on the path.
    #[must_use]
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = binary.into();
        self
    }

    /// Uses the clock of the system instead of a manual one.
    #[must_use]
    pub fn system_clock(mut self) -> Self {
        self.clock = "system";
        self
    }

    /// Adds an argument of `tickwheel serve`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts the server on an empty directory and a free port of loopback.
    ///
    /// # Errors
    ///
    /// If the binary cannot be started, or ends before it listens.
    pub fn start(self) -> io::Result<Server> {
        let directory = env::temp_dir().join(format!("tickwheel-{:016x}", fastrand::u64(..)));
        fs::create_dir_all(&directory)?;
        let started = spawn(&self, &directory, "127.0.0.1:0");
        let (process, url) = started.inspect_err(|_| drop(fs::remove_dir_all(&directory)))?;
        Ok(Server { builder: self, directory, process, url })
    }
}

/// A real server on a manual clock, with a data directory of its own. Dropping it kills the process
/// and removes the directory.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_client::NewJob;
/// use tickwheel_client::api::ReserveRequest;
/// use tickwheel_client::testing::Server;
///
/// // A test; it needs the binary `tickwheel`.
/// async fn an_unpaid_order_is_closed() -> Result<(), Box<dyn std::error::Error>> {
///     let server = Server::start()?;
///     let client = server.client()?;
///     client.put(NewJob::text("orders", "42").delay(Duration::from_secs(30 * 60))).await?;
///     client.advance(Duration::from_secs(31 * 60)).await?;
///     assert_eq!(client.reserve("orders", ReserveRequest::default()).await?.len(), 1);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Server {
    builder: ServerBuilder,
    directory: PathBuf,
    process: Child,
    url: String,
}

impl Server {
    /// Starts a server with the default settings.
    ///
    /// # Errors
    ///
    /// If the binary cannot be started, or ends before it listens.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Returns the default settings.
    pub fn builder() -> ServerBuilder {
        let binary = env::var_os("TICKWHEEL_BIN").unwrap_or_else(|| "tickwheel".into()).into();
        ServerBuilder { binary, clock: "manual", arguments: Vec::new() }
    }

    /// Returns the address, such as `http://127.0.0.1:41234`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a client of the server.
    ///
    /// # Errors
    ///
    /// As [`Client::new`].
    pub fn client(&self) -> Result<Client, Error> {
        Client::new(self.url.clone())
    }

    /// Kills the server, and starts it again with the same data at the same address.
    ///
    /// # Errors
    ///
    /// If the binary cannot be started again.
    pub fn kill_and_restart(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        let listen = self.url.trim_start_matches("http://").to_owned();
        (self.process, self.url) = spawn(&self.builder, &self.directory, &listen)?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
        drop(fs::remove_dir_all(&self.directory));
    }
}

fn spawn(
    builder: &ServerBuilder,
    directory: &PathBuf,
    listen: &str,
) -> io::Result<(Child, String)> {
    let mut command = Command::new(&builder.binary);
    command.args(["serve", "--clock", builder.clock, "--access-log", "none", "--listen", listen]);
    command.arg("--data").arg(directory).args(&builder.arguments);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("TICKWHEEL_") {
            command.env_remove(name);
        }
    }
    let binary = builder.binary.display();
    let mut process =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|error| {
            let why = format!(
                "cannot start {binary}: {error}; set TICKWHEEL_BIN to the path of the binary"
            );
            io::Error::new(error.kind(), why)
        })?;
    let stderr = process.stderr.take().ok_or_else(|| io::Error::other("no standard error"))?;
    match address(BufReader::new(stderr)) {
        Ok(url) => Ok((process, url)),
        Err(log) => {
            drop(process.kill());
            drop(process.wait());
            Err(io::Error::other(format!("{binary} ended before it listened: {log}")))
        }
    }
}

/// Returns the address that the server reports, or what it wrote instead.
fn address(mut lines: BufReader<ChildStderr>) -> Result<String, String> {
    let mut log = String::new();
    loop {
        let mut line = String::new();
        match lines.read_line(&mut line) {
            Ok(0) | Err(_) => return Err(log),
            Ok(_) => {}
        }
        if let Some((_, rest)) = line.split_once("listening on ") {
            let url = rest.split_whitespace().next().unwrap_or_default().to_owned();
            // Keep reading, so that the pipe never fills.
            thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
            return Ok(url);
        }
        log.push_str(&line);
    }
}
