//! A small client of HTTP/1.1: one keep-alive connection, one request at a time.
//!
//! The client shares two cores with the service, so it is cheap: a request is one write, and an
//! answer is mostly one read into a reused buffer. It understands only the answers that the service
//! sends: with a length, or in chunks without trailers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};

const HEAD_END: &[u8] = b"\r\n\r\n";
/// The least free space of the buffer before a read.
const ROOM: usize = 16 << 10;

/// A connection to the service.
pub(crate) struct Connection {
    stream: TcpStream,
    host: String,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// An answer of the service.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    /// Returns an error for any other status.
    pub(crate) fn expect(self, status: u16) -> Result<Self> {
        if self.status == status {
            return Ok(self);
        }
        bail!("the service answered {}: {}", self.status, String::from_utf8_lossy(self.body))
    }
}

impl Connection {
    pub(crate) fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let host = format!("127.0.0.1:{port}");
        Ok(Self { stream, host, request: Vec::new(), answer: Vec::new() })
    }

    /// Returns the port of the service.
    pub(crate) fn port(&self) -> u16 {
        self.stream.peer_addr().map_or(0, |address| address.port())
    }

    /// Appends a request to the buffer, with JSON unless the body is empty.
    fn add(&mut self, method: &str, path: &str, body: &[u8]) -> Result<()> {
        let (host, length) = (&self.host, body.len());
        write!(self.request, "{method} {path} HTTP/1.1\r\nhost: {host}\r\n")?;
        if length > 0 {
            write!(self.request, "content-type: application/json\r\ncontent-length: {length}\r\n")?;
        }
        self.request.extend_from_slice(b"\r\n");
        self.request.extend_from_slice(body);
        Ok(())
    }

    /// Sends several posts at once and waits for their answers, which must have this status.
    pub(crate) fn post_each<'a>(
        &mut self,
        path: &str,
        bodies: impl IntoIterator<Item = &'a [u8]>,
        status: u16,
    ) -> Result<()> {
        self.request.clear();
        let mut left = 0;
        for body in bodies {
            self.add("POST", path, body)?;
            left += 1;
        }
        self.stream.write_all(&self.request)?;
        let (mut start, mut filled) = (0, 0);
        while left > 0 {
            let Some(head) = Head::read(&self.answer[start..filled])? else {
                filled += self.read(filled)?;
                continue;
            };
            let length = head.body.context("an answer to a put is in chunks")?;
            let (body, end) = (start + head.length, start + head.length + length);
            while filled < end {
                filled += self.read(filled)?;
            }
            Answer { status: head.status, body: &self.answer[body..end] }.expect(status)?;
            (start, left) = (end, left - 1);
        }
        ensure!(filled == start, "the service sent more than its answers");
        Ok(())
    }

    /// Sends a request, with JSON unless the body is empty, and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer<'_>> {
        self.request.clear();
        self.add(method, path, body)?;
        self.stream.write_all(&self.request)?;
        let mut filled = 0;
        let head = loop {
            filled += self.read(filled)?;
            if let Some(head) = Head::read(&self.answer[..filled])? {
                break head;
            }
        };
        let Some(body) = head.body else { return self.read_chunks(&head, filled) };
        let end = head.length + body;
        while filled < end {
            filled += self.read(filled)?;
        }
        ensure!(filled == end, "the service sent more than its answer");
        Ok(Answer { status: head.status, body: &self.answer[head.length..end] })
    }

    /// Reads a body in chunks and joins them.
    fn read_chunks(&mut self, head: &Head, mut filled: usize) -> Result<Answer<'_>> {
        let (parts, end) = loop {
            if let Some(found) = chunks(&self.answer[head.length..filled])? {
                break found;
            }
            filled += self.read(filled)?;
        };
        ensure!(filled == head.length + end, "the service sent more than its answer");
        let mut joined = head.length;
        for part in parts {
            let (from, to) = (head.length + part.start, head.length + part.end);
            self.answer.copy_within(from..to, joined);
            joined += part.len();
        }
        Ok(Answer { status: head.status, body: &self.answer[head.length..joined] })
    }

    /// Reads more bytes after the first `filled` ones.
    fn read(&mut self, filled: usize) -> Result<usize> {
        if self.answer.len() < filled + ROOM {
            self.answer.resize(filled + 2 * ROOM, 0);
        }
        let count = self.stream.read(&mut self.answer[filled..])?;
        ensure!(count > 0, "the service closed the connection");
        Ok(count)
    }
}

/// The head of an answer.
struct Head {
    status: u16,
    /// Bytes of the head itself.
    length: usize,
    /// Bytes of the body; `None` if it comes in chunks.
    body: Option<usize>,
}

/// Returns the places of the chunks of a body and its end, or `None` if it is incomplete.
fn chunks(bytes: &[u8]) -> Result<Option<(Vec<Range<usize>>, usize)>> {
    let (mut parts, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = bytes[at..].windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&bytes[at..at + line])?;
        let size = usize::from_str_radix(size, 16).context("a chunk has no size")?;
        let start = at + line + 2;
        at = start + size + 2;
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some((parts, at)));
        }
        parts.push(start..start + size);
    }
}

impl Head {
    /// Returns the head, or `None` if it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(end) = bytes.windows(HEAD_END.len()).position(|part| part == HEAD_END) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes[..end]).context("the head is not text")?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3));
        let status = status.and_then(|digits| digits.parse().ok());
        let status = status.with_context(|| format!("this is no answer of HTTP/1.1: {text:?}"))?;
        let value = |line: &str| {
            let (name, value) = line.split_once(':')?;
            match &name.to_ascii_lowercase()[..] {
                "content-length" => value.trim().parse().ok().map(Some),
                "transfer-encoding" => (value.trim() == "chunked").then_some(None),
                _ => None,
            }
        };
        let body = lines.find_map(value);
        let body = body.with_context(|| format!("the answer has no length: {text:?}"))?;
        Ok(Some(Self { status, length: end + HEAD_END.len(), body }))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Connects to a server that answers each request with the next of these, piece by piece.
    fn connection(answers: &'static [&'static [&'static str]]) -> Connection {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            for pieces in answers {
                assert!(stream.read(&mut [0; 1_000]).unwrap() > 0);
                for piece in *pieces {
                    stream.write_all(piece.as_bytes()).unwrap();
                    thread::yield_now();
                }
            }
        });
        Connection::open(port).unwrap()
    }

    #[test]
    fn an_answer_may_come_in_pieces_and_the_connection_is_kept() {
        let mut connection = connection(&[
            &["HTTP/1.1 201 Cre", "ated\r\nContent-Length: 5\r\n\r", "\nhe", "llo"],
            &[
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
                "lo\r\nb\r\n, wide wo",
                "rl\r\n0\r\n",
                "\r\n",
            ],
            &["HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"],
        ]);
        let answer = connection.ask("POST", "/", b"{}").unwrap();
        assert_eq!((answer.status, answer.body), (201, &b"hello"[..]));
        let answer = connection.ask("POST", "/", b"{}").unwrap();
        assert_eq!((answer.status, answer.body), (200, &b"hello, wide worl"[..]));
        let refused = connection.ask("GET", "/", b"").unwrap().expect(200);
        assert!(refused.is_err_and(|error| error.to_string().contains("404")));
        // The server has closed the connection by now.
        assert!(connection.ask("GET", "/", b"").is_err());
    }

    #[test]
    fn what_cannot_be_understood_is_an_error() {
        for answer in [
            "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            "HTTP/1.1 2\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert!(Head::read(answer.as_bytes()).is_err(), "{answer:?}");
        }
        assert!(Head::read(b"HTTP/1.1 200 OK\r\n").unwrap().is_none());
    }
}
