//! HTTP/1.1 on one connection: a request is written and its answer is read, one at a time.
//!
//! The task of the delivery writes and reads by itself. So it knows when the request was written,
//! which is what a rate counts, and no message passes from task to task.
//!
//! Ground rules:
//! * A connection takes another request only after a whole answer with nothing behind it.
//! * An answer may come before the request is written to its end. The rest is then left out, and
//!   the connection is closed.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use axum::http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Bytes of a response's headers, and of the trailers of a body in chunks.
const MAX_HEAD_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 100;
/// Bytes of a response's body that are read.
const MAX_BODY_BYTES: usize = tickwheel_queue::Job::MAX_RESULT_BYTES;
/// Bytes of the line before a chunk.
const MAX_CHUNK_LINE_BYTES: usize = 4 << 10;
const READ_BYTES: usize = 4 << 10;

/// A stream to a target, encrypted or not.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        buffer.reserve(READ_BYTES);
        match self {
            Self::Plain(stream) => stream.read_buf(buffer).await,
            Self::Tls(stream) => stream.read_buf(buffer).await,
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush().await,
        }
    }
}

/// A request as it goes over the wire.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    /// The request line and the headers; a short body follows at once.
    pub(super) head: Vec<u8>,
    /// The length of request line and headers.
    pub(super) lines: usize,
    /// A long body.
    pub(super) body: Bytes,
}

impl Outgoing {
    /// The body, wherever it is.
    pub(super) fn content(&self) -> &[u8] {
        if self.body.is_empty() { &self.head[self.lines..] } else { &self.body }
    }
}

/// The beginning of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    framing: Framing,
    /// The connection may take another request.
    is_reusable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// A connection that carries one exchange at a time.
pub(super) struct Wire {
    stream: Stream,
    /// What was read and not used.
    input: BytesMut,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, input: BytesMut::new() }
    }

    /// Returns `true` if the other side has neither closed the connection nor sent anything.
    pub(super) fn is_idle(&mut self) -> bool {
        let mut byte = [0];
        let mut context = Context::from_waker(Waker::noop());
        let read = self.stream.poll_read(&mut context, &mut ReadBuf::new(&mut byte));
        self.input.is_empty() && read.is_pending()
    }

    /// Writes the first bytes of a request while `may_begin`; `None` if it may not. On an error
    /// nothing was written.
    pub(super) async fn begin(
        &mut self,
        request: &Outgoing,
        may_begin: impl Fn() -> bool,
    ) -> io::Result<Option<usize>> {
        poll_fn(|context| {
            if !may_begin() {
                return Poll::Ready(Ok(None));
            }
            match ready!(self.stream.poll_write(context, &request.head))? {
                0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => Poll::Ready(Ok(Some(written))),
            }
        })
        .await
    }

    /// Writes the rest of a request, up to an early answer, and reads the head of the answer.
    pub(super) async fn finish(
        &mut self,
        request: &Outgoing,
        written: usize,
    ) -> Result<Head, String> {
        let is_written = self.write_rest(&request.head[written..]).await
            && self.write_rest(&request.body).await
            && self.stream.flush().await.is_ok();
        let mut head = self.read_head().await?;
        head.is_reusable &= is_written;
        Ok(head)
    }

    /// Writes bytes until something comes from the other side; `false` if some are left.
    async fn write_rest(&mut self, mut bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        poll_fn(|context| {
            while !bytes.is_empty() {
                match self.stream.poll_write(context, bytes) {
                    Poll::Ready(Ok(written)) if written > 0 => bytes = &bytes[written..],
                    // The other side may have answered before it closed the connection.
                    Poll::Ready(_) => return Poll::Ready(false),
                    Poll::Pending => {
                        let mut space = [0; 1 << 10];
                        let mut buffer = ReadBuf::new(&mut space);
                        let _ = ready!(self.stream.poll_read(context, &mut buffer));
                        self.input.extend_from_slice(buffer.filled());
                        return Poll::Ready(false);
                    }
                }
            }
            Poll::Ready(true)
        })
        .await
    }

    /// Reads the head of the answer. Informational ones are skipped.
    async fn read_head(&mut self) -> Result<Head, String> {
        let mut searched = 0;
        loop {
            if !self.input.is_empty() && (searched == 0 || has_end(&self.input[searched..])) {
                match parse_head(&self.input)? {
                    Some((length, head)) => {
                        self.input.advance(length);
                        if !head.status.is_informational() || head.status == 101 {
                            return Ok(head);
                        }
                        searched = 0;
                        continue;
                    }
                    None if self.input.len() >= MAX_HEAD_BYTES => {
                        return Err(format!("its headers are longer than {MAX_HEAD_BYTES} bytes"));
                    }
                    None => {}
                }
            } else if self.input.len() >= MAX_HEAD_BYTES {
                return Err(format!("its headers are longer than {MAX_HEAD_BYTES} bytes"));
            }
            searched = self.input.len().saturating_sub(3);
            match self.stream.read(&mut self.input).await {
                Ok(0) => return Err("the connection was closed".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Reads the body that follows a head, as much as is kept, into `body`. Returns whether the
    /// connection can take another request.
    pub(super) async fn read_body(&mut self, head: &Head, body: &mut BytesMut) -> bool {
        let is_whole = match head.framing {
            Framing::Length(length) => self.read_length(length, body).await,
            Framing::Chunked => self.read_chunks(body).await.is_some(),
            Framing::UntilClose => {
                self.read_length(u64::MAX, body).await;
                false
            }
        };
        is_whole && head.is_reusable && self.input.is_empty()
    }

    /// Moves this many bytes to `body`; `false` if it ends early or has no room for them.
    async fn read_length(&mut self, mut length: u64, body: &mut BytesMut) -> bool {
        loop {
            let room = MAX_BODY_BYTES - body.len();
            let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(self.input.len());
            let taken = wanted.min(room);
            body.extend_from_slice(&self.input[..taken]);
            self.input.advance(taken);
            length -= taken as u64;
            if length == 0 {
                return true;
            }
            let is_full = body.len() == MAX_BODY_BYTES;
            if is_full || !matches!(self.stream.read(&mut self.input).await, Ok(1..)) {
                return false;
            }
        }
    }

    /// Reads a body in chunks and its trailers; `None` if it ends early, is too long or is wrong.
    async fn read_chunks(&mut self, body: &mut BytesMut) -> Option<()> {
        loop {
            let size = loop {
                match httparse::parse_chunk_size(&self.input).ok()? {
                    httparse::Status::Complete((length, size)) => {
                        self.input.advance(length);
                        break size;
                    }
                    httparse::Status::Partial => self.read_more(MAX_CHUNK_LINE_BYTES).await?,
                }
            };
            if size == 0 {
                break;
            }
            if !self.read_length(size, body).await || !self.skip_line().await?.is_empty() {
                return None;
            }
        }
        let mut trailers = 0;
        loop {
            let line = self.skip_line().await?;
            if line.is_empty() {
                return Some(());
            }
            trailers += line.len();
            if trailers > MAX_HEAD_BYTES {
                return None;
            }
        }
    }

    /// Takes a line, without its end.
    async fn skip_line(&mut self) -> Option<BytesMut> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let mut line = self.input.split_to(end + 1);
                line.truncate(end);
                if line.last() == Some(&b'\r') {
                    line.truncate(end - 1);
                }
                return Some(line);
            }
            self.read_more(MAX_HEAD_BYTES).await?;
        }
    }

    /// Reads more input, of which there may be this much.
    async fn read_more(&mut self, limit: usize) -> Option<()> {
        if self.input.len() >= limit {
            return None;
        }
        matches!(self.stream.read(&mut self.input).await, Ok(1..)).then_some(())
    }
}

/// Whether a head ends in these bytes.
fn has_end(bytes: &[u8]) -> bool {
    let after_line = |rest: &[u8]| rest.starts_with(b"\n") || rest.starts_with(b"\r\n");
    (0..bytes.len()).any(|place| bytes[place] == b'\n' && after_line(&bytes[place + 1..]))
}

/// Reads a head and tells its length; `None` if it is not complete.
fn parse_head(input: &[u8]) -> Result<Option<(usize, Head)>, String> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut lines);
    let length = match parsed.parse(input).map_err(|error| error.to_string())? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let code = parsed.code.unwrap_or_default();
    let status = StatusCode::from_u16(code).map_err(|_| format!("{code} is no status"))?;
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for line in &*parsed.headers {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|it| it.to_string())?;
        headers.append(name, HeaderValue::from_bytes(line.value).map_err(|it| it.to_string())?);
    }
    let framing = framing(status, &headers)?;
    let is_reusable = parsed.version == Some(1)
        && framing != Framing::UntilClose
        && !(headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH))
        && !tokens(&headers, &CONNECTION).any(|it| it.eq_ignore_ascii_case("close"));
    Ok(Some((length, Head { status, headers, framing, is_reusable })))
}

/// How the end of a body is found: RFC 9112, section 6.3.
fn framing(status: StatusCode, headers: &HeaderMap) -> Result<Framing, String> {
    if status.is_informational() || matches!(status.as_u16(), 204 | 304) {
        return Ok(Framing::Length(0));
    }
    if let Some(last) = tokens(headers, &TRANSFER_ENCODING).last() {
        let is_chunked = last.eq_ignore_ascii_case("chunked");
        return Ok(if is_chunked { Framing::Chunked } else { Framing::UntilClose });
    }
    let mut lengths = tokens(headers, &CONTENT_LENGTH);
    let Some(first) = lengths.next() else { return Ok(Framing::UntilClose) };
    if first.bytes().all(|byte| byte.is_ascii_digit())
        && lengths.all(|other| other == first)
        && let Ok(length) = first.parse()
    {
        return Ok(Framing::Length(length));
    }
    Err("its content-length is not a number".to_owned())
}

/// The parts of all headers of a name, which commas separate.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"));
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// What a client reads of these bytes, which come in pieces of a length: the status, the body,
    /// and whether the connection can be used again.
    async fn answer(bytes: &'static str, piece: usize) -> Result<(u16, String, bool), String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut other, _) = listener.accept().await.unwrap();
        other.set_nodelay(true).unwrap();
        let writing = tokio::spawn(async move {
            for piece in bytes.as_bytes().chunks(piece) {
                if other.write_all(piece).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
        let mut wire = Wire::new(Stream::Plain(stream));
        let request =
            Outgoing { head: b"GET / HTTP/1.1\r\n\r\n".to_vec(), lines: 18, body: Bytes::new() };
        let written = wire.begin(&request, || true).await.unwrap().unwrap();
        let head = wire.finish(&request, written).await?;
        let mut body = BytesMut::new();
        let is_reusable = wire.read_body(&head, &mut body).await;
        writing.abort();
        Ok((head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap(), is_reusable))
    }

    async fn check(bytes: &'static str, wanted: (u16, &str, bool)) {
        for piece in [1, 3, usize::MAX] {
            let got = answer(bytes, piece).await.unwrap();
            assert_eq!((got.0, &got.1[..], got.2), wanted, "{bytes:?} in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn bodies_end_where_their_framing_says() {
        check("HTTP/1.1 204 No\r\n\r\n", (204, "", true)).await;
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", (200, "hello", true)).await;
        check("HTTP/1.1 200\nContent-Length: 2,2\n\nhi", (200, "hi", true)).await;
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\na: b\r\n\r\n",
            (200, "abcde", true),
        )
        .await;
        check("HTTP/1.1 200 OK\r\n\r\nuntil it closes", (200, "until it closes", false)).await;
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\na: b\r\n\r\nHTTP/1.1 201 X\r\ncontent-length: 1\r\n\r\nx",
            (201, "x", true),
        )
        .await;
    }

    #[tokio::test]
    async fn a_connection_is_not_used_again_if_its_end_is_in_doubt() {
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: Close\r\n\r\nx",
            (200, "x", false),
        )
        .await;
        check("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", (200, "x", false)).await;
        check("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", (200, "short", false)).await;
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
            (200, "abc", false),
        )
        .await;
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n1\r\na\r\n0\r\n\r\n",
            (200, "a", false),
        )
        .await;
        let more = answer("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1", usize::MAX);
        assert_eq!(more.await.unwrap(), (200, "x".to_owned(), false));
    }

    #[tokio::test]
    async fn wrong_answers_are_refused() {
        for bytes in [
            "",
            "HTTP/1.1 200",
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
        ] {
            assert!(answer(bytes, usize::MAX).await.is_err(), "{bytes:?}");
        }
    }

    /// The other side answers before it has read the request, of which most is not written yet.
    #[tokio::test]
    async fn an_early_answer_ends_the_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut other, _) = listener.accept().await.unwrap();
        let mut wire = Wire::new(Stream::Plain(stream));
        let body = Bytes::from(vec![b'x'; 64 << 20]);
        let request = Outgoing { head: b"POST / HTTP/1.1\r\n\r\n".to_vec(), lines: 19, body };
        other.write_all(b"HTTP/1.1 413 X\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        let written = wire.begin(&request, || true).await.unwrap().unwrap();
        let head = wire.finish(&request, written).await.unwrap();
        assert_eq!(head.status, 413);
        assert!(!wire.read_body(&head, &mut BytesMut::new()).await);
    }

    #[tokio::test]
    async fn a_request_that_may_not_begin_is_not_written() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut other, _) = listener.accept().await.unwrap();
        let mut wire = Wire::new(Stream::Plain(stream));
        let request = Outgoing { head: b"GET /".to_vec(), lines: 5, body: Bytes::new() };
        assert_eq!(wire.begin(&request, || false).await.unwrap(), None);
        assert!(wire.is_idle());
        drop(wire);
        assert_eq!(other.read(&mut [0; 9]).await.unwrap(), 0);
    }
}
