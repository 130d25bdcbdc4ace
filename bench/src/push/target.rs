//! The target: a process that answers every request at once, and counts requests.
//!
//! One thread serves all connections, and stamps a request when it has read it: after the request
//! arrived and before it is answered. So stamps are in order, and windows are exact. Requests to
//! `/t/…` are counted in windows, for each path. `GET /report` returns a summary.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::queue::servers::process::{Process, free_port};
use crate::server::http::Connection;

const WINDOW: Duration = Duration::from_secs(1);
/// The event of the listener. Those of connections are their indices.
const LISTENER: u64 = u64::MAX;
const MAX_EVENTS: usize = 256;
/// The least free space of a buffer before a read.
const ROOM: usize = 4 << 10;
const HEAD_END: &[u8] = b"\r\n\r\n";

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

/// What came so far.
#[derive(Default)]
struct Came {
    requests: usize,
    first: Option<Instant>,
    last: Option<Instant>,
    densest: usize,
    /// The requests of the last window, by path.
    recent: HashMap<Vec<u8>, VecDeque<Instant>>,
}

impl Came {
    /// Counts a request. Stamps are in order.
    fn note(&mut self, path: &[u8], now: Instant) {
        self.requests += 1;
        self.first.get_or_insert(now);
        self.last = Some(now);
        if !path.starts_with(b"/t/") {
            return;
        }
        if !self.recent.contains_key(path) {
            self.recent.insert(path.to_vec(), VecDeque::new());
        }
        let Some(recent) = self.recent.get_mut(path) else { return };
        recent.push_back(now);
        while recent.front().is_some_and(|first| now - *first >= WINDOW) {
            recent.pop_front();
        }
        self.densest = self.densest.max(recent.len());
    }

    fn report(&self) -> Report {
        let span = self.first.zip(self.last).map_or(Duration::ZERO, |(first, last)| last - first);
        let span = span.as_micros() as u64;
        Report { requests: self.requests, span, densest: self.densest }
    }
}

/// A connection of a client, and what was read of its next request.
struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

/// Serves on a port of loopback until the process is killed.
pub(super) fn serve(port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let (mut clients, mut free) = (Vec::<Option<Client>>::new(), Vec::new());
    let mut came = Came::default();
    let mut events = Vec::with_capacity(MAX_EVENTS);
    loop {
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            waited => waited?,
        };
        for event in events.drain(..) {
            let event = event.data.u64();
            if event == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let place = free.pop().unwrap_or(clients.len());
                    epoll::add(&epoll, &stream, EventData::new_u64(place as u64), EventFlags::IN)?;
                    clients.resize_with(clients.len().max(place + 1), || None);
                    clients[place] = Some(Client { stream, input: Vec::new() });
                }
                continue;
            }
            let place = event as usize;
            if clients[place].as_mut().is_some_and(|it| it.answer(&mut came).is_none()) {
                // Closing the socket takes it out of the epoll set.
                clients[place] = None;
                free.push(place);
            }
        }
    }
}

impl Client {
    /// Reads what is there, and answers the requests in it; `None` once the connection has ended.
    fn answer(&mut self, came: &mut Came) -> Option<()> {
        let filled = self.input.len();
        self.input.resize(filled + ROOM, 0);
        let read = match self.stream.read(&mut self.input[filled..]) {
            Ok(0) => return None,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return None,
        };
        let now = Instant::now();
        self.input.truncate(filled + read);
        while let Some((path, length)) = request(&self.input) {
            if path == b"/report" {
                let text = serde_json::to_string(&came.report()).ok()?;
                let length = text.len();
                write!(self.stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}")
                    .ok()?;
            } else {
                came.note(path, now);
                self.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
            }
            self.input.drain(..length);
        }
        Some(())
    }
}

/// Returns the path and the length of the request that these bytes begin with, if it is complete.
fn request(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let head = bytes.windows(HEAD_END.len()).position(|it| it == HEAD_END)?;
    let mut lines = bytes[..head].split(|byte| *byte == b'\n');
    let path = lines.next()?.split(|byte| *byte == b' ').nth(1)?;
    let body = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(b"content-length:".len())?;
        let is_length = name.eq_ignore_ascii_case(b"content-length:");
        is_length.then(|| std::str::from_utf8(value).ok()?.trim().parse().ok())?
    });
    let length = head + HEAD_END.len() + body.unwrap_or(0);
    (bytes.len() >= length).then_some((path, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_for_each_path() {
        let began = Instant::now();
        let mut came = Came::default();
        for ms in [0, 500, 980, 999, 1_000, 1_400] {
            came.note(b"/t/1", began + Duration::from_millis(ms));
        }
        for ms in [1_500, 2_500] {
            came.note(b"/t/2", began + Duration::from_millis(ms));
        }
        came.note(b"/", began + Duration::from_millis(2_500));
        let report = came.report();
        assert_eq!((report.densest, report.requests, report.span), (4, 9, 2_500_000));
        assert_eq!(came.recent.len(), 2);
    }

    #[test]
    fn a_request_ends_with_its_body() {
        let text = b"POST /t/7 HTTP/1.1\r\nhost: a\r\nContent-Length: 3\r\n\r\nabcGET";
        assert_eq!(request(text), Some((&b"/t/7"[..], text.len() - 3)));
        assert_eq!(request(&text[..text.len() - 4]), None);
        assert_eq!(request(b"GET /report HTTP/1.1\r\n\r\n").map(|it| it.1), Some(24));
        assert_eq!(request(b"GET / HTTP/1.1\r\n"), None);
    }
}
