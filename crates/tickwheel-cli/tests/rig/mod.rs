//! The real binary, as a server and as a command line.
//!
//! Every server has a directory and a port of its own, and is killed when its handle is dropped.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod http_target;
#[cfg(target_os = "linux")]
pub(crate) mod terminal;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The limit after which a test fails instead of waiting for a server to start or end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const FREE_PORT: &str = "127.0.0.1:0";

/// Returns the binary with an environment that contains no settings of the developer.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TICKWHEEL_") {
            command.env_remove(name);
        }
    }
    command.env("TZ", "UTC").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    /// Checks that the command succeeded, and returns its output.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        self.code(0);
        String::from_utf8(self.stdout.clone()).expect("UTF-8")
    }

    /// Checks that the command succeeded, and returns its JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text()).expect("standard output is one JSON document")
    }

    /// Checks the exit code, and returns the standard error.
    #[track_caller]
    pub(crate) fn code(&self, code: i32) -> &str {
        let (stdout, stderr) = (String::from_utf8_lossy(&self.stdout), &self.stderr);
        assert_eq!(self.code, code, "exit code; it said:\n{stdout}\n{stderr}");
        &self.stderr
    }
}

/// Runs the binary to its end.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let stdout = read_all(child.stdout.take().expect("a pipe"));
    let stderr = read_all(child.stderr.take().expect("a pipe"));
    // A command that reads no input may have ended by now.
    let _ = stdin.write_all(input);
    drop(stdin);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: stdout.join().expect("no panic"),
        stderr: String::from_utf8_lossy(&stderr.join().expect("no panic")).into_owned(),
    }
}

fn read_all(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

/// Runs the binary without a server.
pub(crate) fn tickwheel(args: &[&str]) -> Ran {
    run(binary().args(args), b"")
}

/// A server on a free port.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    log: Arc<Mutex<String>>,
    folder: Folder,
}

#[derive(Debug)]
enum Folder {
    Own(tempfile::TempDir),
    Given(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Own(own) => own.path(),
            Self::Given(path) => path,
        }
    }
}

fn serve(command: &mut Command, folder: &Path, listen: &str, args: &[&str]) {
    command.args(["serve", "--listen", listen, "--data"]).arg(folder).args(args);
}

/// Returns the binary with limits of the shell's `ulimit`. The shell executes the binary in its own
/// process, so the process id is that of the binary.
pub(crate) fn limited(limits: &str) -> Command {
    let binary = binary();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limits} && exec \"$0\" \"$@\"")]).arg(binary.get_program());
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

impl Server {
    /// Starts a server on a new directory.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server on a new directory, with more arguments.
    pub(crate) fn start_with(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::launch(Folder::Own(folder), FREE_PORT, args)
    }

    /// Starts a server on this directory.
    pub(crate) fn start_on(folder: &Path) -> Self {
        Self::start_at(folder, FREE_PORT)
    }

    /// Starts a server on this directory, at this address.
    pub(crate) fn start_at(folder: &Path, address: &str) -> Self {
        Self::launch(Folder::Given(folder.to_owned()), address, &[])
    }

    /// On a new directory, with these variables in its environment.
    pub(crate) fn start_in(environment: &[(&str, &str)], args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = binary();
        serve(&mut command, folder.path(), FREE_PORT, args);
        command.envs(environment.iter().copied());
        Self::spawn(Folder::Own(folder), command)
            .unwrap_or_else(|log| panic!("the server does not start:\n{log}"))
    }

    /// Starts a server on this directory, or returns the log of one that ended instead.
    ///
    /// `limits` are arguments of the shell's `ulimit`, like `-Sn 1024`, or empty.
    pub(crate) fn try_start(folder: &Path, limits: &str, args: &[&str]) -> Result<Self, String> {
        let mut command = if limits.is_empty() { binary() } else { limited(limits) };
        serve(&mut command, folder, FREE_PORT, args);
        Self::spawn(Folder::Given(folder.to_owned()), command)
    }

    fn launch(folder: Folder, listen: &str, args: &[&str]) -> Self {
        let mut command = binary();
        serve(&mut command, folder.path(), listen, args);
        Self::spawn(folder, command)
            .unwrap_or_else(|log| panic!("the server does not start:\n{log}"))
    }

    fn spawn(folder: Folder, mut command: Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let log = Arc::new(Mutex::new(String::new()));
        let collector = collect(child.stderr.take().expect("a pipe"), log.clone());
        if let Some(url) = address(&mut child, &log) {
            return Ok(Self { child, url, log, folder });
        }
        let _ = child.kill();
        let _ = child.wait();
        collector.join().expect("no panic");
        let log = log.lock().expect("no panic");
        Err(log.clone())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the id of the process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Runs a command against this server.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs a command against this server, with this standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        run(self.command().args(args), input)
    }

    /// Returns the binary as a command line of this server.
    pub(crate) fn command(&self) -> Command {
        let mut command = binary();
        command.env("TICKWHEEL_URL", &self.url);
        command
    }

    /// Returns the address and port.
    pub(crate) fn address(&self) -> &str {
        self.url.split_once("://").expect("an address").1
    }

    /// Returns the value of a metric, read over plain HTTP.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(self.address()).expect("a connection");
        let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it is read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {answer}")).parse().expect("a number")
    }

    /// Waits until this number of requests is in flight, not counting the one that asks.
    #[track_caller]
    pub(crate) fn until_in_flight(&self, requests: u64) {
        until(|| self.metric("tickwheel_http_requests_in_flight") > requests);
    }

    /// Sends a signal: `TERM`, `INT`, `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        // std has no safe call for this; every system with signals has a shell.
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().expect("a shell");
        assert!(status.success(), "{kill}");
    }

    /// Waits until the server has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the end of its log, for a message.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Returns its log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("nobody panics here").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects the output of a program, so that the program never blocks on a full pipe.
fn collect(stream: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut log = into.lock().expect("nobody panics here");
            log.push_str(&line);
            log.push('\n');
        }
    })
}

/// Waits for the address that the server logs. Returns `None` if the server ends, or does not start
/// in time.
fn address(child: &mut Child, log: &Mutex<String>) -> Option<String> {
    let start = Instant::now();
    loop {
        let text = log.lock().expect("nobody panics here").clone();
        if let Some((scheme, place)) = ["http://", "https://"]
            .iter()
            .find_map(|scheme| text.find(scheme).map(|place| (scheme, place)))
        {
            let rest = &text[place + scheme.len()..];
            let end = rest.find(|c: char| !(c.is_ascii_hexdigit() || ".:[]".contains(c)));
            if let Some(end) = end {
                return Some(format!("{scheme}{}", &rest[..end]));
            }
        }
        let has_ended = child.try_wait().expect("it is ours").is_some();
        if has_ended || start.elapsed() > PATIENCE {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a condition holds; panics after the limit of these tests.
#[track_caller]
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}
