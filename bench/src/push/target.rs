//! The target: a process that answers every request at once, and counts requests.
//!
//! It keeps the times of requests to `/t/…`, for each path. `GET /report` returns a summary.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::queue::servers::process::{Process, free_port};
use crate::server::http::Connection;

/// How much shorter windows are at the target than at the server, in microseconds: requests do not
/// take equally long from one process to the other.
const TOLERANCE: u64 = 20_000;
const WINDOW: u64 = 1_000_000;

/// What a target received.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) requests: usize,
    /// From the first request to the last, in microseconds.
    pub(super) span: u64,
    /// The largest number of requests of one path in any window.
    pub(super) densest: usize,
}

/// The process of the target.
pub(super) struct Target {
    _process: Process,
    pub(super) port: u16,
}

impl Target {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let folder = folder.join("target");
        std::fs::create_dir_all(&folder)?;
        let port = free_port()?;
        let program = std::env::current_exe().context("this program has no path")?;
        let run = "run push --system push --workload backlog --helper target --port";
        let mut arguments: Vec<String> = run.split(' ').map(str::to_owned).collect();
        arguments.push(port.to_string());
        let mut process = Process::start(&[], &program, &arguments, &folder, Signal::KILL)?;
        process.await_client(|| Connection::open(port))?;
        Ok(Self { _process: process, port })
    }

    pub(super) fn report(&self) -> Result<Report> {
        let mut connection = Connection::open(self.port)?;
        let answer = connection.ask("GET", "/report", b"")?.expect(200)?;
        Ok(serde_json::from_slice(answer.body)?)
    }

    /// Waits until this many requests have come.
    pub(super) fn wait_for(&self, requests: usize) -> Result<Report> {
        loop {
            let report = self.report()?;
            if report.requests >= requests {
                return Ok(report);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[derive(Default)]
struct Came {
    requests: usize,
    first: Option<Instant>,
    last: Option<Instant>,
    by_path: HashMap<String, Vec<Instant>>,
}

/// Serves on a port of loopback until the process is killed.
pub(super) fn serve(port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let came = Arc::new(Mutex::new(Came::default()));
    for stream in listener.incoming() {
        let (stream, came) = (stream?, Arc::clone(&came));
        stream.set_nodelay(true)?;
        let serving = thread::Builder::new().stack_size(64 << 10);
        serving.spawn(move || answer(stream, &came))?;
    }
    Ok(())
}

impl Came {
    fn note(&mut self, path: &str, now: Instant) {
        self.requests += 1;
        self.first.get_or_insert(now);
        self.last = Some(now);
        if path.starts_with("/t/") {
            self.by_path.entry(path.to_owned()).or_default().push(now);
        }
    }

    fn report(&self) -> Report {
        let window = Duration::from_micros(WINDOW - TOLERANCE);
        let densest = |times: &Vec<Instant>| {
            // Connections of a path note their requests in the order in which they get the lock.
            let mut times = times.clone();
            times.sort_unstable();
            let in_window = |first: usize| {
                times[first..].iter().take_while(|&&at| at - times[first] < window).count()
            };
            (0..times.len()).map(in_window).max().unwrap_or(0)
        };
        let span = self.first.zip(self.last).map_or(Duration::ZERO, |(first, last)| last - first);
        Report {
            requests: self.requests,
            span: span.as_micros() as u64,
            densest: self.by_path.values().map(densest).max().unwrap_or(0),
        }
    }
}

/// Answers the requests of a connection.
fn answer(stream: TcpStream, came: &Mutex<Came>) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let came_at = Instant::now();
        let path = line.split(' ').nth(1)?.to_owned();
        let mut length = 0;
        while line != "\r\n" {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
            line.clear();
            reader.read_line(&mut line).ok()?;
        }
        body.resize(length, 0);
        reader.read_exact(&mut body).ok()?;
        let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
        let text = if path == "/report" {
            serde_json::to_string(&came.report()).ok()?
        } else {
            came.note(&path, came_at);
            String::new()
        };
        drop(came);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        writer.write_all(head.as_bytes()).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_for_each_path() {
        let began = Instant::now();
        let at = |ms: &u64| began + Duration::from_millis(*ms);
        let mut came = Came::default();
        came.by_path.insert("/t/1".into(), [0, 500, 979, 981, 1_400].iter().map(at).collect());
        came.by_path.insert("/t/2".into(), [0, 1_000].iter().map(at).collect());
        assert_eq!(came.report().densest, 4);
        came.note("/", began);
        assert_eq!((came.report().requests, came.by_path.len()), (1, 2));
    }
}
