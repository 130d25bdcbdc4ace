//! A push target: a real HTTP server that notes what comes.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A target that answers 200 to everything, and notes when each `webhook-id` came.
#[derive(Clone, Default)]
pub(crate) struct HttpTarget {
    came: Arc<Mutex<Vec<(Instant, String)>>>,
    handled: Arc<Mutex<Vec<Instant>>>,
    /// How long a request waits before the target handles it.
    lag: Duration,
}

impl HttpTarget {
    pub(crate) fn start() -> (Self, SocketAddr) {
        Self::start_with_lag(Duration::ZERO)
    }

    /// Starts a target that handles and answers each request this long after it came.
    pub(crate) fn start_with_lag(lag: Duration) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Self { lag, ..Self::default() };
        let address = listener.local_addr().unwrap();
        let accepting = target.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let target = accepting.clone();
                std::thread::spawn(move || target.serve(stream));
            }
        });
        (target, address)
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut writer = stream;
        loop {
            let (mut length, mut id, mut at) = (0, None, None);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                at.get_or_insert_with(Instant::now);
                if line == "\r\n" {
                    break;
                }
                let (name, value) = line.split_once(": ").unwrap_or_default();
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().ok()?,
                    "webhook-id" => id = Some(value.trim().to_owned()),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            self.came.lock().unwrap().push((at?, id?));
            std::thread::sleep(self.lag);
            self.handled.lock().unwrap().push(Instant::now());
            writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").ok()?;
        }
    }

    /// How many ids came, and how many requests.
    pub(crate) fn came(&self) -> (usize, usize) {
        let came = self.came.lock().unwrap();
        (came.iter().map(|(_, id)| id).collect::<HashSet<_>>().len(), came.len())
    }

    /// When the requests were handled.
    pub(crate) fn handled(&self) -> Vec<Instant> {
        self.handled.lock().unwrap().clone()
    }

    /// When the requests came.
    pub(crate) fn times(&self) -> Vec<Instant> {
        self.came.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }

    /// How often the id came that came most often.
    pub(crate) fn most(&self) -> usize {
        let mut counts = HashMap::<_, usize>::new();
        for (_, id) in self.came.lock().unwrap().iter() {
            *counts.entry(id.clone()).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }
}

/// Returns the largest number of these times in any window.
pub(crate) fn densest(mut times: Vec<Instant>, window: Duration) -> usize {
    times.sort_unstable();
    let in_window =
        |first: usize| times[first..].iter().take_while(|at| **at - times[first] < window).count();
    (0..times.len()).map(in_window).max().unwrap_or(0)
}
