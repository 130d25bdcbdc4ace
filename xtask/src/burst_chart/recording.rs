//! A run of the real server: jobs come in bursts, and a target notes when calls arrive.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::{BURSTS, Run, STARTS};
use crate::process::Failure;

/// How long to wait for the next call before giving up.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn record(program: &Path) -> Result<Run, Failure> {
    let folder = std::env::temp_dir().join(format!("tickwheel-burst-{}", std::process::id()));
    let run = record_in(program, &folder).map_err(Failure::Missing);
    let _ = std::fs::remove_dir_all(&folder);
    run
}

fn record_in(program: &Path, folder: &Path) -> Result<Run, String> {
    let (target, calls) = start_target().map_err(|error| error.to_string())?;
    let server = Server::start(program, folder)?;
    let rate = format!("{STARTS}/1s");
    let url = format!("http://{target}/");
    server
        .command(&["target", "add", "partner", &url, "--rate", &rate, "--concurrency", "8"], "")?;
    server.command(&["queue", "set", "orders", "--target", "partner"], "")?;
    let began = Instant::now();
    let mut run = Run::default();
    for (at, jobs) in BURSTS {
        thread::sleep(Duration::from_millis(at).saturating_sub(began.elapsed()));
        server.command(&["put", "orders", "--lines", "-"], &"an order\n".repeat(jobs))?;
        run.puts.extend(vec![since(began, Instant::now()); jobs]);
    }
    while run.calls.len() < run.puts.len() {
        let arrived = calls.recv_timeout(PATIENCE).map_err(|_| "the calls stopped".to_owned())?;
        run.calls.push(since(began, arrived));
    }
    run.calls.sort_unstable();
    Ok(run)
}

fn since(began: Instant, now: Instant) -> u64 {
    u64::try_from(now.duration_since(began).as_millis()).unwrap_or(u64::MAX)
}

/// A server on a free port, which ends with this value.
struct Server {
    child: Child,
    url: String,
    program: std::path::PathBuf,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Result<Self, String> {
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--push-allow", "127.0.0.0/8", "--data"])
            .arg(folder)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let log = child.stderr.take().ok_or("the server has no log")?;
        let (sender, address) = mpsc::channel();
        thread::spawn(move || watch(log, &sender));
        let mut server = Self { child, url: String::new(), program: program.to_owned() };
        server.url = address.recv_timeout(PATIENCE).map_err(|_| "the server does not start")?;
        Ok(server)
    }

    /// Runs a command against the server.
    fn command(&self, args: &[&str], input: &str) -> Result<(), String> {
        let mut child = Command::new(&self.program)
            .args(args)
            .env("TICKWHEEL_URL", &self.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that reads nothing may have ended.
            let _ = stdin.write_all(input.as_bytes());
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("`tickwheel {}` failed", args.join(" ")))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a log to its end, and sends the address that the server logs.
fn watch(log: impl Read, address: &Sender<String>) {
    for line in BufReader::new(log).lines().map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once("http://") {
            let end = rest.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
            let _ = address.send(format!("http://{}", &rest[..end.unwrap_or(rest.len())]));
        }
    }
}

/// Starts a target that answers 200 to everything. Returns its address, and when calls arrive.
fn start_target() -> std::io::Result<(String, Receiver<Instant>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let (sender, calls) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            thread::spawn(move || serve(stream, &sender));
        }
    });
    Ok((address, calls))
}

/// Answers the requests of a connection.
fn serve(stream: TcpStream, calls: &Sender<Instant>) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let arrived = Instant::now();
        while line != "\r\n" {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            line.clear();
            reader.read_line(&mut line).ok()?;
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        calls.send(arrived).ok()?;
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}
