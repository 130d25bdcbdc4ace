//! Reads a log whose records were changed.
//!
//! The input is a list of records: bytes of their own, or records of a real log with changes and
//! with the right checksum. A follower may refuse them, but nothing may panic.
#![no_main]

use arbitrary::Arbitrary;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tickwheel_cluster::log::{AppendId, Entry};
use tickwheel_cluster::record::{Content, Follower, Record, RecordHash, Step, Tip, decode_rows};
use tickwheel_queue::Time;

#[derive(Debug, Arbitrary)]
enum Input {
    Raw(Vec<u8>),
    Takeover,
    Group { rows: Vec<u8>, max: u8 },
    Changed { generation: u64, epoch: u64, commit: u64, time: u64, part: u32, parts: u32 },
}

fuzz_target!(|inputs: Vec<Input>| {
    let mut follower = Follower::new(Tip::START);
    for input in inputs {
        let tip = follower.end().clone();
        let records = match input {
            Input::Raw(bytes) => vec![Bytes::from(bytes)],
            Input::Takeover => tip.takeover("a", Time::from_millis(1)).records,
            Input::Group { rows, max } => tip.group(&rows, tip.time, max.into()).records,
            Input::Changed { generation, epoch, commit, time, part, parts } => {
                let content = Content::Data { part, parts, bytes: Bytes::from_static(b"rows") };
                let (previous, time) = (tip.hash, Time::from_millis(time));
                vec![Record { generation, epoch, commit, time, previous, content }.encode()]
            }
        };
        for record in records {
            let position = follower.next_position();
            let entry = Entry { position, id: AppendId::of(&record), record };
            let before = follower.end().clone();
            match follower.push(&entry) {
                Ok(step) => {
                    assert_eq!(follower.end().hash, RecordHash::of(&entry.record));
                    if let Step::Group(group) = step {
                        let _ = decode_rows(&group.rows);
                    }
                }
                Err(_) => assert_eq!(*follower.end(), before),
            }
        }
    }
});
