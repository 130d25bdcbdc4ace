//! A hand-written HTTP/1.1 client: one connection for each request, from any loopback address.
//!
//! A client library would repair what these attacks break on purpose.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::rig::{PATIENCE, Server};

/// An answer of the server.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The status line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the `code` of a problem document.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.head.contains(&format!("\r\n{name}:"))
    }

    /// Returns the status and body in one line, shortened.
    pub(crate) fn brief(&self) -> String {
        let text: String = self.text().chars().take(200).collect();
        format!("{} {text}", self.status)
    }
}

/// A caller of one server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    server: SocketAddr,
    source: IpAddr,
    token: Option<String>,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Self {
        let server = server.address().parse().expect("an address");
        Self { server, source: Ipv4Addr::LOCALHOST.into(), token: None }
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Returns the same caller at another address of this machine: 127.0.0.`last`.
    pub(crate) fn at_address(&self, last: u8) -> Self {
        Self { source: Ipv4Addr::new(127, 0, 0, last).into(), ..self.clone() }
    }

    /// Opens a connection whose timeouts only end a test that hangs.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(self.source, 0).into())?;
        socket.connect_timeout(&self.server.into(), PATIENCE)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Returns the head of a request of this caller, without the empty line at its end.
    pub(crate) fn head(&self, method: &str, path: &str) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        if let Some(token) = &self.token {
            head.extend(["authorization: Bearer ", token, "\r\n"]);
        }
        head
    }

    /// Returns the head of a request with a JSON body of this length.
    pub(crate) fn head_with_body(&self, method: &str, path: &str, length: usize) -> String {
        let head = self.head(method, path);
        format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n")
    }

    pub(crate) fn try_send(&self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let mut request = match body {
            "" => self.head(method, path),
            body => self.head_with_body(method, path, body.len()),
        };
        request += "connection: close\r\n\r\n";
        let mut stream = self.connect()?;
        // The server may answer and close before it has read everything.
        let _ =
            stream.write_all(request.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        read_answer(&mut stream)
    }

    /// Sends a request that must be answered.
    #[track_caller]
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        match self.try_send(method, path, body) {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path} got no answer: {error}"),
        }
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &body.to_string())
    }

    /// Sends a request that must succeed, and returns its JSON.
    #[track_caller]
    pub(crate) fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.send(method, path, &text);
        assert!(answer.status < 300, "{method} {path} got {}", answer.brief());
        answer.json()
    }

    /// Returns the value of a metric; 0 if it is missing.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// Returns `true` if `/readyz` says that the server serves requests.
    pub(crate) fn is_ready(&self) -> bool {
        self.try_send("GET", "/readyz", "").is_ok_and(|answer| answer.status == 200)
    }
}

/// Reads one answer up to the end of the connection.
pub(crate) fn read_answer(stream: &mut impl Read) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes);
    // A server may refuse the rest of a request by a reset after a complete answer.
    parse(&bytes).ok_or_else(|| {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        let why = format!("{} bytes are no whole answer: {start:?}", bytes.len());
        end.err().unwrap_or(io::Error::other(why))
    })
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let rest = &bytes[end + 4..];
    if (100..200).contains(&status) {
        return parse(rest);
    }
    let header = |name: &str| {
        head.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    };
    let body = if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        unchunk(rest)?
    } else {
        let length = header("content-length").and_then(|value| value.parse().ok());
        rest.get(..length.unwrap_or(rest.len()))?.to_vec()
    };
    Some(Answer { status, head: head + "\r\n", body })
}

/// Returns the content of a chunked body, if it is complete.
fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}
