//! Decodes bytes of the beanstalkd protocol, whole and in pieces.
//!
//! Both give the same requests, the buffer stays within one job and its line, and no bytes make the
//! decoder panic.
#![no_main]

use arbitrary::Arbitrary;
use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use tickwheel_server::beanstalk::{Decoder, MAX_LINE_BYTES, Request};

/// The largest job that the decoder takes.
const MAX_JOB: u64 = 300;
/// Bodies of this size are refused for want of memory.
const REFUSED: usize = 13;

#[derive(Debug, Arbitrary)]
struct Case {
    parts: Vec<Part>,
    piece: u8,
}

/// What is sent: commands that are nearly right reach more than bytes alone.
#[derive(Debug, Arbitrary)]
enum Part {
    Bytes(Vec<u8>),
    LineEnd,
    Command(u8, Vec<u32>),
    Put { bytes: u16, body: Vec<u8>, is_ended: bool },
}

const COMMANDS: [&str; 12] = [
    "delete",
    "release",
    "bury",
    "kick",
    "kick-job",
    "touch",
    "reserve-with-timeout",
    "reserve-job",
    "stats-job",
    "pause-tube a",
    "peek",
    "use",
];

impl Part {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Bytes(more) => bytes.extend_from_slice(more),
            Self::LineEnd => bytes.extend_from_slice(b"\r\n"),
            Self::Command(number, arguments) => {
                let name = COMMANDS[usize::from(*number) % COMMANDS.len()];
                bytes.extend_from_slice(name.as_bytes());
                for argument in arguments {
                    bytes.extend_from_slice(format!(" {argument}").as_bytes());
                }
                bytes.extend_from_slice(b"\r\n");
            }
            Self::Put { bytes: length, body, is_ended } => {
                let length = if *is_ended { body.len() } else { usize::from(*length) };
                bytes.extend_from_slice(format!("put 1 2 3 {length}\r\n").as_bytes());
                bytes.extend_from_slice(body);
                bytes.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// The requests in some bytes that arrive in pieces.
fn decode(bytes: &[u8], piece: usize) -> Vec<Request> {
    let mut decoder = Decoder::new(MAX_JOB);
    let (mut buffer, mut requests) = (BytesMut::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        while let Some(request) = decoder.next(&mut buffer, |bytes| bytes != REFUSED) {
            requests.push(request);
        }
        assert!(buffer.len() < MAX_LINE_BYTES + MAX_JOB as usize + 2, "{} wait", buffer.len());
    }
    requests
}

fuzz_target!(|case: Case| {
    let mut bytes = Vec::new();
    case.parts.iter().for_each(|part| part.write(&mut bytes));
    let whole = decode(&bytes, bytes.len().max(1));
    assert_eq!(decode(&bytes, usize::from(case.piece).max(1)), whole);
});
