//! From bytes to requests.
//!
//! The decoder is a state machine without I/O: it takes whole requests out of a buffer and leaves
//! the rest for the bytes that follow. It never asks for a buffer larger than one job and its line.

use bytes::{Buf, Bytes, BytesMut};

use super::command::{Command, MAX_LINE_BYTES, Put, Refusal, parse_line};

/// What a client asks for.
///
/// ```
/// use bytes::BytesMut;
/// use tickwheel_server::beanstalk::{Decoder, Refusal, Request};
///
/// let mut buffer = BytesMut::from(&b"put 0 0 60 70000\r\n"[..]);
/// buffer.extend_from_slice(&[b'x'; 70_000]);
/// buffer.extend_from_slice(b"\r\n");
/// let request = Decoder::new(65_535).next(&mut buffer, |_| true);
/// assert_eq!(request, Some(Request::Refused(Refusal::JobTooBig)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A command that is a line.
    Command(Command),
    /// A `put` with its body.
    Put(Put, Bytes),
    /// Something that is answered with an error.
    Refused(Refusal),
}

/// What the decoder expects next.
#[derive(Clone, Copy, Debug)]
enum State {
    Line,
    /// The end of a line that is too long.
    LineEnd,
    /// The body of a put and its end.
    Body(Put),
    /// The remaining bytes of a refused request, which are dropped before the answer.
    Drop(u64, Refusal),
}

/// Takes requests out of a stream of bytes.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use tickwheel_server::beanstalk::{Command, Decoder, Put, Request};
///
/// let mut decoder = Decoder::new(65_535);
/// let mut buffer = BytesMut::from(&b"use mail\r\nput 0 0 60 5\r\nhel"[..]);
/// let mut next = |buffer: &mut BytesMut| decoder.next(buffer, |_| true);
/// assert_eq!(next(&mut buffer), Some(Request::Command(Command::Use("mail".into()))));
/// assert_eq!(next(&mut buffer), None);
/// buffer.extend_from_slice(b"lo\r\n");
/// let put = Put { pri: 0, delay: 0, ttr: 60, bytes: 5 };
/// assert_eq!(next(&mut buffer), Some(Request::Put(put, Bytes::from("hello"))));
/// ```
#[derive(Debug)]
pub struct Decoder {
    state: State,
    max_job: u64,
}

impl Decoder {
    /// A decoder for jobs with at most this many bytes.
    pub fn new(max_job: u64) -> Self {
        Self { state: State::Line, max_job }
    }

    /// Takes the next request out of the buffer; `None` if it is not complete yet. `admit` is asked
    /// before the body of a put is waited for, with its size; a body that is refused is dropped as
    /// it comes.
    pub fn next(
        &mut self,
        buffer: &mut BytesMut,
        mut admit: impl FnMut(usize) -> bool,
    ) -> Option<Request> {
        loop {
            match self.state {
                State::Line => {
                    let Some(length) = line_length(buffer) else {
                        if buffer.len() < MAX_LINE_BYTES {
                            return None;
                        }
                        self.state = State::LineEnd;
                        continue;
                    };
                    if length + 2 > MAX_LINE_BYTES {
                        self.state = State::LineEnd;
                        continue;
                    }
                    let command = parse_line(&buffer[..length]);
                    buffer.advance(length + 2);
                    match command {
                        Ok(Command::Put(put)) => self.state = self.body_of(put, &mut admit),
                        Ok(command) => return Some(Request::Command(command)),
                        Err(refusal) => return Some(Request::Refused(refusal)),
                    }
                }
                State::LineEnd => {
                    if let Some(length) = line_length(buffer) {
                        buffer.advance(length + 2);
                        self.state = State::Line;
                        return Some(Request::Refused(Refusal::BadFormat));
                    }
                    // The last byte may be the first of the line's end.
                    buffer.advance(buffer.len().saturating_sub(1));
                    return None;
                }
                State::Body(put) => {
                    let length = put.bytes as usize;
                    if buffer.len() < length + 2 {
                        buffer.reserve(length + 2 - buffer.len());
                        return None;
                    }
                    self.state = State::Line;
                    let body = buffer.split_to(length).freeze();
                    let is_ended = buffer.starts_with(b"\r\n");
                    buffer.advance(2);
                    return Some(if is_ended {
                        Request::Put(put, body)
                    } else {
                        Request::Refused(Refusal::ExpectedCrlf)
                    });
                }
                State::Drop(0, refusal) => {
                    self.state = State::Line;
                    return Some(Request::Refused(refusal));
                }
                State::Drop(left, refusal) => {
                    let dropped = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if dropped == 0 {
                        return None;
                    }
                    buffer.advance(dropped);
                    self.state = State::Drop(left - dropped as u64, refusal);
                }
            }
        }
    }

    fn body_of(&self, put: Put, admit: &mut impl FnMut(usize) -> bool) -> State {
        let bytes = u64::from(put.bytes);
        if bytes > self.max_job {
            State::Drop(bytes + 2, Refusal::JobTooBig)
        } else if admit(put.bytes as usize) {
            State::Body(put)
        } else {
            State::Drop(bytes + 2, Refusal::OutOfMemory)
        }
    }

    /// Returns `true` if the rest of a put's body is waited for.
    pub fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body(_) | State::Drop(..))
    }

    /// Returns `true` if the beginning of the next request has arrived.
    pub fn is_in_request(&self, buffer: &BytesMut) -> bool {
        !matches!(self.state, State::Line) || !buffer.is_empty()
    }
}

/// The length of the first line without its end, if the end is there.
fn line_length(buffer: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let place = from + buffer[from..].iter().position(|byte| *byte == b'\r')?;
        if buffer.get(place + 1)? == &b'\n' {
            return Some(place);
        }
        from = place + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests in some bytes that arrive in pieces of this size.
    fn decode(bytes: &[u8], piece: usize) -> Vec<Request> {
        let mut decoder = Decoder::new(10);
        let (mut buffer, mut requests) = (BytesMut::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            buffer.extend_from_slice(piece);
            while let Some(request) = decoder.next(&mut buffer, |bytes| bytes != 9) {
                requests.push(request);
            }
            assert!(buffer.len() <= MAX_LINE_BYTES.max(12), "{} bytes wait", buffer.len());
        }
        assert!(!decoder.is_in_request(&buffer));
        requests
    }

    #[test]
    fn requests_are_the_same_however_they_arrive() {
        let long = "x".repeat(500);
        let bytes = format!(
            "put 1 2 3 4\r\nab\r\n\r\nwatch a\r\n{long}\r\nput 0 0 0 11\r\n12345678901\r\n\
             put 0 0 0 9\r\n123456789\r\nput 0 0 0 2\r\nabcdstats\r\nput 0 0 0 0\r\n\r\n\
             a\rb\nc\r\n"
        );
        let put = |pri, delay, ttr, bytes| Put { pri, delay, ttr, bytes };
        let expected = [
            Request::Put(put(1, 2, 3, 4), "ab\r\n".into()),
            Request::Command(Command::Watch("a".into())),
            Request::Refused(Refusal::BadFormat),
            Request::Refused(Refusal::JobTooBig),
            Request::Refused(Refusal::OutOfMemory),
            Request::Refused(Refusal::ExpectedCrlf),
            Request::Command(Command::Stats),
            Request::Put(put(0, 0, 0, 0), Bytes::new()),
            Request::Refused(Refusal::UnknownCommand),
        ];
        for piece in 1..bytes.len() {
            assert_eq!(decode(bytes.as_bytes(), piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_line_may_have_224_bytes_with_its_end() {
        let line = |bytes: usize| format!("{}\r\n", "x".repeat(bytes - 2));
        let unknown = [Request::Refused(Refusal::UnknownCommand)];
        let malformed = [Request::Refused(Refusal::BadFormat)];
        for piece in [1, 100, 300] {
            assert_eq!(decode(line(224).as_bytes(), piece), unknown);
            assert_eq!(decode(line(225).as_bytes(), piece), malformed);
        }
    }
}
