//! Records: what was encoded is decoded, other bytes are refused without a panic, and a follower
//! accepts exactly the records that belong where they are.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tickwheel_cluster::log::{AppendId, Entry, Position};
use tickwheel_cluster::record::{
    Content, Draft, Follower, Manifest, Record, RecordError, RecordHash, Step, Tip, VERSION,
    decode_rows, encode_rows,
};
use tickwheel_queue::Time;
use tickwheel_queue::store::{Table, WriteBatch};

fn content() -> impl Strategy<Value = Content> {
    let data = (1_u32..9, any::<prop::sample::Index>(), vec(any::<u8>(), 0..50)).prop_map(
        |(parts, part, bytes)| {
            let part = part.index(parts as usize) as u32;
            Content::Data { part, parts, bytes: bytes.into() }
        },
    );
    let manifest =
        (any::<u64>(), vec(".*", 0..4), option::of(".*")).prop_map(|(below, replicas, backup)| {
            Content::Manifest(Manifest { below: Position(below), replicas, backup })
        });
    prop_oneof![
        data,
        ".*".prop_map(|node| Content::Takeover { node }),
        (".*", option::of(".*")).prop_map(|(node, to)| Content::HandOff { node, to }),
        manifest,
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u128>());
    (numbers, content()).prop_map(|((generation, epoch, commit, time, hash), content)| Record {
        generation,
        epoch,
        commit,
        time: Time::from_millis(time),
        previous: RecordHash(hash),
        content,
    })
}

proptest! {
    #[test]
    fn a_record_survives_encoding(record in record()) {
        prop_assert_eq!(Record::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn any_changed_byte_is_noticed(record in record(), at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let mut bytes = record.encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(Record::decode(&bytes.into()).is_err());
    }

    #[test]
    fn a_record_that_was_cut_short_is_refused(record in record(), at in any::<prop::sample::Index>()) {
        let bytes = record.encode();
        let cut = bytes.slice(..at.index(bytes.len()));
        prop_assert!(Record::decode(&cut).is_err());
    }

    #[test]
    fn decoding_never_panics(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode_rows(&bytes);
        let _ = Tip::from_bytes(&bytes);
        let _ = Record::decode(&bytes.into());
    }

    #[test]
    fn content_that_matches_its_checksum_never_panics(record in record(), kind in 0_u8..6, content in vec(any::<u8>(), 0..60)) {
        // The header of a record, another content, and the right checksum.
        let mut bytes = record.encode()[..50].to_vec();
        bytes[1] = kind;
        bytes.extend(content);
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        let record = Record::decode(&bytes.into());
        if let Ok(record) = record {
            let bytes = record.encode();
            let entry = Entry { position: Position(1), id: AppendId::of(&bytes), record: bytes };
            let _ = Follower::new(Tip::START).push(&entry);
        }
    }

    #[test]
    fn rows_survive_encoding(
        rows in vec((0_u8..3, vec(any::<u8>(), 0..40), option::of(vec(any::<u8>(), 0..300))), 0..30),
    ) {
        let tables = [Table::Jobs, Table::Index, Table::Counters];
        let mut batch = WriteBatch::new();
        for (table, key, value) in &rows {
            match value {
                Some(value) => batch.put(tables[usize::from(*table)], key, value),
                None => batch.remove(tables[usize::from(*table)], key),
            }
        }
        let copy = decode_rows(&encode_rows(&batch)).unwrap();
        prop_assert!(copy.rows().eq(batch.rows()));
    }

    #[test]
    fn a_split_group_is_put_together(rows in vec(any::<u8>(), 0..2_000), max in 0_usize..400) {
        let tip = Tip::START.takeover("a", Time::from_millis(1)).tip;
        let draft = tip.group(&rows, Time::from_millis(2), max);
        let mut follower = Follower::new(tip);
        let (last, parts) = draft.records.split_last().unwrap();
        for part in parts {
            prop_assert!(part.len() <= max.max(67));
            prop_assert_eq!(push(&mut follower, part), Ok(Step::Part));
            prop_assert_eq!(follower.tip().commit, 0);
        }
        let Ok(Step::Group(group)) = push(&mut follower, last) else {
            panic!("the last part does not complete the group");
        };
        prop_assert_eq!(group.rows, rows);
        prop_assert_eq!(group.commit, 1);
        prop_assert_eq!(follower.tip(), &draft.tip);
    }

    #[test]
    fn a_tip_survives_encoding(numbers in any::<(u64, u128, u64, u64, u64, u32)>()) {
        let (position, hash, generation, epoch, commit, time) = numbers;
        let tip = Tip {
            position: Position(position),
            hash: RecordHash(hash),
            generation,
            epoch,
            commit,
            time: Time::from_millis(time.into()),
            version: VERSION,
        };
        prop_assert_eq!(Tip::from_bytes(&tip.to_bytes()), Ok(tip));
    }
}

/// Pushes a record at the next position.
fn push(follower: &mut Follower, record: &Bytes) -> Result<Step, RecordError> {
    let position = follower.next_position();
    follower.push(&Entry { position, id: AppendId::of(record), record: record.clone() })
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A log that node `a` owns, with the follower that has read it.
fn owned() -> (Follower, Draft) {
    let draft = Tip::START.takeover("a", at(10));
    let mut follower = Follower::new(Tip::START);
    let step = push(&mut follower, &draft.records[0]).unwrap();
    assert_eq!(step, Step::Takeover { node: "a".into() });
    (follower, draft)
}

#[test]
fn a_newer_version_is_refused_and_named() {
    let mut bytes = owned().1.records[0].to_vec();
    bytes[0] = VERSION + 1;
    let refused = Record::decode(&bytes.into()).unwrap_err();
    assert_eq!(refused, RecordError::NewerVersion { found: VERSION + 1, known: VERSION });
    assert!(refused.to_string().contains("upgrade this node"), "{refused}");
}

#[test]
fn a_takeover_drops_the_parts_of_an_unfinished_group() {
    let (mut follower, draft) = owned();
    let unfinished = draft.tip.group(&[1; 500], at(11), 200);
    assert!(unfinished.records.len() > 2);
    push(&mut follower, &unfinished.records[0]).unwrap();
    push(&mut follower, &unfinished.records[1]).unwrap();
    assert_eq!(follower.tip().position, Position(1));

    let taken = follower.end().takeover("b", at(12));
    push(&mut follower, &taken.records[0]).unwrap();
    assert_eq!(follower.tip().position, Position(4));
    // Node b has the commit number that the unfinished group would have had.
    let group = taken.tip.group(b"", at(13), 200);
    let Step::Group(group) = push(&mut follower, &group.records[0]).unwrap() else {
        panic!("an empty group has one part");
    };
    assert_eq!((group.commit, group.rows), (1, vec![]));
}

#[test]
fn records_that_do_not_follow_the_last_one_are_refused() {
    let (follower, draft) = owned();
    let tip = &draft.tip;
    let wrong = [
        ("another predecessor", Tip { hash: RecordHash(3), ..tip.clone() }),
        ("an older epoch", Tip { epoch: 0, ..tip.clone() }),
        ("a newer epoch", Tip { epoch: 2, ..tip.clone() }),
        ("another generation", Tip { generation: 1, ..tip.clone() }),
        ("a gap between commits", Tip { commit: 1, ..tip.clone() }),
        ("time that runs backwards", Tip { time: at(0), ..tip.clone() }),
    ];
    for (what, tip) in wrong {
        let mut follower = follower.clone();
        let group = tip.group(b"rows", at(0), 1_000);
        let refused = push(&mut follower, &group.records[0]);
        assert!(matches!(refused, Err(RecordError::OutOfOrder(_))), "{what}: {refused:?}");
        // The right record is accepted afterwards.
        push(&mut follower, &draft.tip.group(b"rows", at(0), 1_000).records[0]).unwrap();
    }
    let repeated = Tip { epoch: 0, ..tip.clone() }.takeover("b", at(20));
    assert!(push(&mut follower.clone(), &repeated.records[0]).is_err(), "a repeated epoch");
    let skipped = Tip { epoch: 2, ..tip.clone() }.takeover("b", at(20));
    assert!(push(&mut follower.clone(), &skipped.records[0]).is_err(), "a skipped epoch");
}

#[test]
fn parts_out_of_order_and_interrupted_groups_are_refused() {
    let (mut follower, draft) = owned();
    let group = draft.tip.group(&[1; 500], at(11), 200);
    assert!(push(&mut follower, &group.records[1]).is_err(), "the second part first");
    push(&mut follower, &group.records[0]).unwrap();
    let interrupting = follower.end().hand_off("a", None, at(11));
    assert!(push(&mut follower, &interrupting.records[0]).is_err(), "a hand-off in a group");
    let other = follower.end().group(b"another group", at(11), 1_000);
    assert!(push(&mut follower, &other.records[0]).is_err(), "a group in a group");
    for record in &group.records[1..] {
        push(&mut follower, record).unwrap();
    }
    assert_eq!(follower.tip(), &group.tip);
}

#[test]
fn a_gap_between_positions_is_refused() {
    let (mut follower, draft) = owned();
    let record = draft.tip.group(b"rows", at(11), 1_000).records.remove(0);
    let entry = Entry { position: Position(3), id: AppendId::of(&record), record };
    assert!(matches!(follower.push(&entry), Err(RecordError::OutOfOrder(_))));
}

#[test]
fn hand_offs_and_manifests_reach_the_reader() {
    let (mut follower, draft) = owned();
    let manifest =
        Manifest { below: Position(1), replicas: vec!["b".into()], backup: Some("here".into()) };
    let draft = draft.tip.manifest(manifest.clone(), at(11));
    assert_eq!(push(&mut follower, &draft.records[0]), Ok(Step::Manifest(manifest)));
    let draft = draft.tip.hand_off("a", Some("b"), at(12));
    let step = Step::HandOff { node: "a".into(), to: Some("b".into()) };
    assert_eq!(push(&mut follower, &draft.records[0]), Ok(step));
}

#[test]
fn a_new_generation_continues_from_a_replica_of_the_same_commit() {
    let (mut follower, draft) = owned();
    let group = draft.tip.group(b"rows", at(11), 1_000);
    push(&mut follower, &group.records[0]).unwrap();

    let begin = follower.tip().new_generation("b", at(12));
    let in_new_log = |tip: &Tip| {
        let (position, hash) = (Position::START, RecordHash::NONE);
        Follower::new(Tip { position, hash, ..tip.clone() })
    };
    let mut same = in_new_log(follower.tip());
    push(&mut same, &begin.records[0]).unwrap();
    assert_eq!((same.tip().generation, same.tip().epoch, same.tip().commit), (1, 2, 1));

    assert!(push(&mut in_new_log(&draft.tip), &begin.records[0]).is_err(), "a replica behind");
    assert!(push(&mut Follower::new(Tip::START), &begin.records[0]).is_err(), "an empty replica");
}

#[test]
fn time_never_decreases() {
    let tip = Tip::START.takeover("a", at(100)).tip;
    assert_eq!(tip.group(b"", at(40), 1_000).tip.time, at(100));
    assert_eq!(tip.group(b"", at(140), 1_000).tip.time, at(140));
}
