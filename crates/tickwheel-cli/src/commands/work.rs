//! `work`: runs a command for each job of a queue.
//!
//! The worker of the client library reserves jobs, extends leases and reports outcomes. This module
//! runs the commands.
//!
//! Ground rules:
//! * A command is the leader of a process group. Whatever ends the attempt early (the timeout, a
//!   lost lease, a second signal) kills the whole group.
//! * Standard error passes through, and its end is kept for the error of the job.
//! * One line on standard error says what became of each job.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::{RawValue, to_raw_value};
use tickwheel_api::{Delay, ExtendRequest, Job, LeaseToken};
use tickwheel_client::{Client, Outcome, Payload, Retry, Work};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use ureq::http::Method;

use super::{Context, queue};
use crate::args::{Connection, ResultFrom, WorkArgs};
use crate::client::{Extra, Path};
use crate::failure::Failure;
use crate::output::text::safe;

/// The exit code of a command that wants to be run again: `EX_TEMPFAIL` of `sysexits.h`.
const TRY_AGAIN: i32 = 75;
/// Bytes of standard error that are kept for the error of a job.
const ERROR_BYTES: usize = 2 << 10;
/// Bytes that a result may have.
const RESULT_BYTES: usize = 64 << 10;
/// How long a process group has between the polite signal and the final one.
const KILL_DELAY: Duration = Duration::from_secs(5);
/// How long streams are read after the end of a command.
const STREAMS_GRACE: Duration = Duration::from_secs(1);
/// No deadline for commands after the signal to stop: they may finish.
const NO_GRACE_LIMIT: Duration = Duration::from_secs(365 * 86_400);

pub(crate) fn run(
    context: &Context,
    connection: &Connection,
    args: &WorkArgs,
) -> Result<(), Failure> {
    check_server(context)?;
    let queue = context.client.get(&Path::new(&["queues", &args.queue]));
    if queue.is_err_and(|failure| failure.is_not_found()) {
        say(&queue::not_there_yet(context, &args.queue));
    }
    start_log();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Other(format!("the runtime does not start: {error}")))?;
    runtime.block_on(work(connection, args))
}

/// Fails early if no server answers, or the token does not allow to work: the worker itself keeps
/// trying. Extending the lease of a job that does not exist changes nothing and needs the same scope.
fn check_server(context: &Context) -> Result<(), Failure> {
    let path = Path::new(&["jobs", "00000000-0000-0000-0000-000000000000", "extend"]);
    let lease = Delay(Duration::from_secs(1));
    let request = ExtendRequest { token: LeaseToken(0), lease };
    match context.client.call(Method::POST, &path, Some(&request), &Extra::default()) {
        Err(failure) if failure.is_not_found() => Ok(()),
        answer => answer.map(drop),
    }
}

/// Problems of the worker go to standard error.
fn start_log() {
    let layer = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::WARN)
        .with_target(false);
    // It is the only one of this process.
    let _ = layer.try_init();
}

async fn work(connection: &Connection, args: &WorkArgs) -> Result<(), Failure> {
    let signals = Signals::listen().map_err(|error| Failure::Other(error.to_string()))?;
    let mut builder = Client::builder(connection.url.clone());
    if let Some(token) = &connection.token {
        builder = builder.token(token.clone());
    }
    if let Some(path) = &connection.ca {
        let pem = fs::read(path)
            .map_err(|error| Failure::Usage(format!("--ca {}: {error}", path.display())))?;
        builder = builder.ca(pem);
    }
    let client = builder.build().map_err(|error| Failure::Usage(error.to_string()))?;
    let runner = Arc::new(Runner {
        command: args.command.clone(),
        timeout: args.timeout.map(|timeout| timeout.0),
        retry_delay: args.retry_delay.0,
        result: args.result,
        killed: signals.count.clone(),
    });
    let mut worker = client
        .worker()
        .concurrency(args.concurrency.into())
        .lease(args.lease.0)
        .grace(NO_GRACE_LIMIT);
    if let Some(name) = &args.worker {
        worker = worker.name(name.clone());
    }
    let handler = move |work: Work| {
        let runner = Arc::clone(&runner);
        async move { runner.handle(work.job()).await }
    };
    say(&format!("working on queue {:?}; Ctrl-C ends it", safe(&args.queue)));
    worker.handle(args.queue.clone(), handler).run(signals.at_least(1)).await;
    say("stopped");
    Ok(())
}

/// Writes a line to standard error.
fn say(line: &str) {
    // A failed write is ignored: standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// How often the process was told to stop.
struct Signals {
    count: watch::Receiver<u32>,
}

impl Signals {
    #[cfg(unix)]
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, count) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self { count })
    }

    #[cfg(not(unix))]
    fn listen() -> std::io::Result<Self> {
        let (sender, count) = watch::channel(0);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self { count })
    }

    /// Waits until at least `signals` signals have arrived.
    async fn at_least(&self, signals: u32) {
        at_least(self.count.clone(), signals).await;
    }
}

async fn at_least(mut count: watch::Receiver<u32>, signals: u32) {
    if count.wait_for(|count| *count >= signals).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Runs the command of one job after the other.
struct Runner {
    command: Vec<OsString>,
    timeout: Option<Duration>,
    retry_delay: Duration,
    result: Option<ResultFrom>,
    /// How often the process was told to stop: the second time kills.
    killed: watch::Receiver<u32>,
}

/// How a command ended.
enum End {
    Exited(ExitStatus),
    TimedOut(Duration),
    /// By a second signal.
    Killed,
}

/// What a command left behind.
struct Ran {
    end: End,
    stdout: Vec<u8>,
    /// The end of standard error.
    stderr: Vec<u8>,
}

impl Runner {
    async fn handle(&self, job: &Job) -> Outcome {
        let start = Instant::now();
        let (outcome, told) = match self.run(job).await {
            Ok(ran) => self.outcome(&ran),
            Err(error) => {
                let program = self.command[0].to_string_lossy().into_owned();
                let error = format!("{program} cannot be run: {error}");
                let outcome = Outcome::Failed { error: error.clone(), retry: Retry::ByPolicy };
                (outcome, format!("failed: {error}"))
            }
        };
        let took = Delay(Duration::from_millis(start.elapsed().as_millis() as u64));
        say(&format!("job {} attempt {}: {} after {took}", job.id, job.attempts, safe(&told)));
        outcome
    }

    async fn run(&self, job: &Job) -> std::io::Result<Ran> {
        let payload = job.bytes().map_err(std::io::Error::other)?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in variables(job) {
            command.env(name, value);
        }
        if self.result.is_some() {
            command.stdout(Stdio::piped());
        }
        #[cfg(unix)]
        command.process_group(0);
        let mut group = Group::new(command.kill_on_drop(true).spawn()?);
        let stdin = group.child.stdin.take();
        let stdout = group.child.stdout.take();
        let stderr = group.child.stderr.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command may end without reading all of it.
                let _ = stdin.write_all(&payload).await;
            }
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let streams = async {
            let (out, err) = (read_first(stdout, &mut out), read_last(stderr, &mut err));
            tokio::join!(feed, out, err);
        };
        let end = while_streaming(self.wait(&mut group), streams).await?;
        Ok(Ran { end, stdout: out, stderr: err })
    }

    /// Waits for the end of a command, and brings it about when its time is over.
    async fn wait(&self, group: &mut Group) -> std::io::Result<End> {
        let end = tokio::select! {
            status = group.child.wait() => End::Exited(status?),
            timeout = expired(self.timeout) => End::TimedOut(timeout),
            () = at_least(self.killed.clone(), 2) => End::Killed,
        };
        match end {
            End::Exited(_) => group.is_ended = true,
            End::TimedOut(_) | End::Killed => group.kill().await,
        }
        Ok(end)
    }

    /// What becomes of the job, and what is said about it.
    fn outcome(&self, ran: &Ran) -> (Outcome, String) {
        let status = match ran.end {
            End::Exited(status) => status,
            End::Killed => return (Outcome::Released(None), "given back: killed".to_owned()),
            End::TimedOut(timeout) => {
                let why = format!("killed after {}", Delay(timeout));
                return failed(&why, &ran.stderr);
            }
        };
        match status.code() {
            Some(0) => self.done(&ran.stdout),
            Some(TRY_AGAIN) => {
                let told = format!(
                    "given back: exit code {TRY_AGAIN}, again in {}",
                    Delay(self.retry_delay)
                );
                (Outcome::Released(Some(self.retry_delay)), told)
            }
            Some(code) => failed(&format!("exit code {code}"), &ran.stderr),
            None => failed(&status.to_string(), &ran.stderr),
        }
    }

    fn done(&self, stdout: &[u8]) -> (Outcome, String) {
        if self.result.is_none() {
            return (Outcome::Done(None), "done".to_owned());
        }
        match result_of(stdout) {
            Ok(result) => (Outcome::Done(Some(result)), "done".to_owned()),
            Err(error) => {
                let told = format!("failed: {error}");
                (Outcome::Failed { error, retry: Retry::ByPolicy }, told)
            }
        }
    }
}

/// The variables that a command gets. A value with a NUL cannot be one and is left out.
fn variables(job: &Job) -> Vec<(String, String)> {
    let mut variables = vec![
        ("TICKWHEEL_JOB_ID".to_owned(), job.id.to_string()),
        ("TICKWHEEL_JOB_QUEUE".to_owned(), job.queue.clone()),
        ("TICKWHEEL_JOB_ATTEMPT".to_owned(), job.attempts.to_string()),
    ];
    variables.extend(job.key.clone().map(|key| ("TICKWHEEL_JOB_KEY".to_owned(), key)));
    variables.extend(job.headers.iter().map(|(name, value)| {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let name: String = name.chars().map(plain).collect();
        (format!("TICKWHEEL_HEADER_{name}"), value.clone())
    }));
    variables.retain(|(_, value)| !value.contains('\0'));
    variables
}

/// The result that standard output is: JSON, else a text without the end of its last line.
fn result_of(stdout: &[u8]) -> Result<Box<RawValue>, String> {
    if stdout.len() > RESULT_BYTES {
        return Err(format!(
            "standard output has more than {RESULT_BYTES} bytes, the most that a result may have"
        ));
    }
    let text = std::str::from_utf8(stdout)
        .map_err(|_| "standard output is not UTF-8, so it cannot be a result".to_owned())?;
    if let Ok(json) = serde_json::from_str::<Box<RawValue>>(text.trim()) {
        return Ok(json);
    }
    to_raw_value(text.strip_suffix('\n').unwrap_or(text)).map_err(|error| error.to_string())
}

/// A failed attempt: why, and the end of standard error.
fn failed(why: &str, stderr: &[u8]) -> (Outcome, String) {
    let tail = String::from_utf8_lossy(stderr);
    let error = match tail.trim() {
        "" => why.to_owned(),
        tail => format!("{why}: {tail}"),
    };
    (Outcome::Failed { error, retry: Retry::ByPolicy }, format!("failed: {why}"))
}

/// Waits until a timeout is over; for ever if there is none.
async fn expired(timeout: Option<Duration>) -> Duration {
    match timeout {
        Some(timeout) => {
            tokio::time::sleep(timeout).await;
            timeout
        }
        None => std::future::pending().await,
    }
}

/// Waits for the end of a command while its streams are served. What the command has written is read
/// after that; streams that a process in the background keeps open are not waited for.
async fn while_streaming<T>(end: impl Future<Output = T>, streams: impl Future<Output = ()>) -> T {
    let (mut end, mut streams) = (pin!(end), pin!(streams));
    tokio::select! {
        ended = &mut end => {
            let _ = tokio::time::timeout(STREAMS_GRACE, streams).await;
            ended
        }
        () = &mut streams => end.await,
    }
}

/// Reads a stream to its end, and keeps its first bytes: one more than a result may have.
async fn read_first(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let mut piece = vec![0; 8 << 10];
    let Some(mut stream) = stream else { return };
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        let room = RESULT_BYTES + 1 - kept.len();
        kept.extend_from_slice(&piece[..length.min(room)]);
    }
}

/// Passes a stream on to standard error, and keeps its last bytes.
async fn read_last(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let mut piece = vec![0; 8 << 10];
    let Some(mut stream) = stream else { return };
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        let _ = std::io::stderr().write_all(&piece[..length]);
        kept.extend_from_slice(&piece[..length]);
        let excess = kept.len().saturating_sub(ERROR_BYTES);
        kept.drain(..excess);
    }
}

/// The process group of a command. It is killed when this is dropped before the command ended.
struct Group {
    child: Child,
    /// The process id of the command, which is that of the group as well.
    #[cfg(unix)]
    leader: Option<i32>,
    is_ended: bool,
}

impl Group {
    fn new(child: Child) -> Self {
        Self {
            #[cfg(unix)]
            leader: child.id().map(u32::cast_signed),
            child,
            is_ended: false,
        }
    }

    /// Ends the group: politely, and after a while in any case.
    async fn kill(&mut self) {
        self.signal(false);
        let _ = tokio::time::timeout(KILL_DELAY, self.child.wait()).await;
        // Others of the group may still be there.
        self.signal(true);
        let _ = self.child.wait().await;
        self.is_ended = true;
    }

    #[cfg(unix)]
    fn signal(&self, is_final: bool) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let signal = if is_final { Signal::KILL } else { Signal::TERM };
        if let Some(leader) = self.leader.and_then(Pid::from_raw) {
            let _ = kill_process_group(leader, signal);
        }
    }

    #[cfg(not(unix))]
    fn signal(&mut self, _: bool) {
        let _ = self.child.start_kill();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_ended {
            self.signal(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_output_is_json_or_a_text() {
        let result = |text: &str| result_of(text.as_bytes()).map(|json| json.get().to_owned());
        assert_eq!(result("{\"a\": 1}\n").as_deref(), Ok("{\"a\": 1}"));
        assert_eq!(result("42\n").as_deref(), Ok("42"));
        assert_eq!(result("hello\nworld\n").as_deref(), Ok("\"hello\\nworld\""));
        assert_eq!(result("").as_deref(), Ok("\"\""));
        assert!(result_of(b"\xff").unwrap_err().contains("UTF-8"));
        assert!(result_of(&vec![b'1'; RESULT_BYTES + 1]).unwrap_err().contains("65536"));
    }

    #[test]
    fn the_end_of_standard_error_is_the_error() {
        let (outcome, told) = failed("exit code 3", b"no such file\n");
        assert!(
            matches!(outcome, Outcome::Failed { error, .. } if error == "exit code 3: no such file")
        );
        assert_eq!(told, "failed: exit code 3");
    }
}
