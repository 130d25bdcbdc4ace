//! A client of beanstalkd's protocol: one line for each command, answered in order.
//!
//! Several commands are sent at once and their answers read afterwards. Delays are whole seconds.
//! There are no keys: this client maps keys to the ids of beanstalkd.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use crate::queue::contender::{Caller, Contender, LEASE, Pipelined};
use crate::queue::job::Job;

type Names = Arc<Mutex<HashMap<String, u64>>>;

pub(crate) struct Beanstalkd {
    port: u16,
    names: Names,
}

impl Beanstalkd {
    /// Connects to the server on a port.
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let peer = Self { port, names: Names::default() };
        peer.pending()?;
        Ok(peer)
    }

    fn connection(&self) -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), request: Vec::new(), line: String::new() })
    }
}

impl Contender for Beanstalkd {
    type Caller = BeanstalkdCaller;

    fn caller(&self) -> Result<BeanstalkdCaller> {
        Ok(BeanstalkdCaller { connection: self.connection()?, names: Arc::clone(&self.names) })
    }

    fn pending(&self) -> Result<u64> {
        let mut connection = self.connection()?;
        connection.request.extend_from_slice(b"stats-tube default\r\n");
        connection.send()?;
        let length = connection.answer("OK")?.parse()?;
        let text = String::from_utf8(connection.body(length)?)?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.and_then(|number| number.parse::<u64>().ok())
        };
        let states = ["current-jobs-ready", "current-jobs-delayed", "current-jobs-reserved"];
        let counts = states.into_iter().map(field).collect::<Option<Vec<u64>>>();
        Ok(counts.context("beanstalkd does not say how many jobs it has")?.into_iter().sum())
    }
}

pub(crate) struct BeanstalkdCaller {
    connection: Connection,
    names: Names,
}

impl Caller for BeanstalkdCaller {
    type Ticket = u64;

    fn put(&mut self, jobs: Vec<Job>) -> Result<()> {
        for Job { delay, payload, .. } in &jobs {
            let (delay, lease) = (delay.as_secs(), LEASE.as_secs());
            write!(self.connection.request, "put 0 {delay} {lease} {}\r\n", payload.len())?;
            self.connection.request.extend_from_slice(payload);
            self.connection.request.extend_from_slice(b"\r\n");
        }
        self.connection.send()?;
        for job in jobs {
            let id = self.connection.answer("INSERTED")?.parse()?;
            if let Some(key) = job.key {
                self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(key, id);
            }
        }
        Ok(())
    }

    fn reserve(&mut self, most: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        for _ in 0..most {
            self.connection.request.extend_from_slice(b"reserve-with-timeout 0\r\n");
        }
        self.connection.send()?;
        let mut found = Vec::new();
        for _ in 0..most {
            found.extend(self.connection.reserved()?);
        }
        if found.is_empty() {
            // One second is the shortest wait that beanstalkd accepts.
            self.connection.request.extend_from_slice(b"reserve-with-timeout 1\r\n");
            self.connection.send()?;
            found.extend(self.connection.reserved()?);
        }
        Ok(found)
    }

    fn ack(&mut self, ids: Vec<u64>) -> Result<()> {
        for id in &ids {
            write!(self.connection.request, "delete {id}\r\n")?;
        }
        self.connection.send()?;
        ids.iter().try_for_each(|_| self.connection.answer("DELETED").map(drop))
    }

    fn cancel(&mut self, key: &str) -> Result<()> {
        let id = self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        let id = id.with_context(|| format!("no job was put with the key {key}"))?;
        self.ack(vec![id])
    }
}

impl Pipelined for BeanstalkdCaller {
    fn put_each(&mut self, jobs: Vec<Job>) -> Result<()> {
        // `put` already sends a command for each job.
        self.put(jobs)
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
    /// Commands that are not sent yet.
    request: Vec<u8>,
    /// The last answer.
    line: String,
}

impl Connection {
    fn send(&mut self) -> Result<()> {
        self.stream.get_mut().write_all(&self.request)?;
        self.request.clear();
        Ok(())
    }

    fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        ensure!(self.stream.read_line(&mut self.line)? > 0, "beanstalkd closed the connection");
        Ok(())
    }

    /// Returns the text after the expected word in the next answer.
    fn answer(&mut self, expected: &str) -> Result<&str> {
        self.read_line()?;
        match self.line.trim_end().strip_prefix(expected) {
            Some(rest) => Ok(rest.trim_start()),
            None => bail!("beanstalkd said {:?}, not {expected}", self.line.trim_end()),
        }
    }

    /// Reads the bytes that follow a line, and their line break.
    fn body(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut body = vec![0; length + 2];
        self.stream.read_exact(&mut body)?;
        body.truncate(length);
        Ok(body)
    }

    /// Reads a job, or `None` after a timeout.
    fn reserved(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        self.read_line()?;
        let mut words = self.line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("TIMED_OUT"), ..) => Ok(None),
            (Some("RESERVED"), Some(id), Some(length)) => {
                let (id, length) = (id.parse()?, length.parse()?);
                Ok(Some((id, self.body(length)?)))
            }
            _ => bail!("beanstalkd said {:?}, not RESERVED", self.line.trim_end()),
        }
    }
}
