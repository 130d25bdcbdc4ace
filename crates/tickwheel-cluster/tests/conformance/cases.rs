//! What every log must do, whatever it is built on.
//!
//! A case gets a stream of its own, which is empty. Cases wait for events only: a busy machine
//! makes them slower, but does not fail them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tickwheel_cluster::log::{AppendError, AppendId, Log, LogError, Position};

/// A stream under test.
pub(crate) trait Subject: Sync {
    /// Opens a handle on the stream.
    fn open(&self) -> Box<dyn Log>;

    /// Opens a handle whose network can fail.
    fn open_unreliable(&self) -> Unreliable;

    /// Removes all records; positions continue.
    fn empty(&self);

    /// Deletes the stream and creates it again.
    fn recreate(&self);
}

/// A handle with a network that can fail.
pub(crate) struct Unreliable {
    pub(crate) log: Box<dyn Log>,
    pub(crate) set: Box<dyn Fn(Network) + Sync>,
}

/// What the network of a handle does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Works,
    /// Requests arrive, but their answers do not.
    LosesAnswers,
    /// Requests do not arrive.
    LosesRequests,
}

/// A case, by its name.
pub(crate) type Case<S> = (&'static str, fn(&S));

/// All cases.
pub(crate) fn all<S: Subject>() -> Vec<Case<S>> {
    vec![
        ("an_empty_log_starts_at_position_1", an_empty_log_starts_at_position_1),
        ("records_are_read_as_they_were_appended", records_are_read_as_they_were_appended),
        ("a_read_is_limited_by_bytes", a_read_is_limited_by_bytes),
        ("an_append_in_the_wrong_place_is_refused", an_append_in_the_wrong_place_is_refused),
        ("a_repeated_append_gives_the_same_answer", a_repeated_append_gives_the_same_answer),
        ("of_racing_appends_one_wins", of_racing_appends_one_wins),
        ("racing_repetitions_append_once", racing_repetitions_append_once),
        ("a_lost_answer_is_settled_by_repeating", a_lost_answer_is_settled_by_repeating),
        ("a_lost_request_is_fenced_by_another_writer", a_lost_request_is_fenced_by_another_writer),
        ("a_wait_ends_when_a_record_arrives", a_wait_ends_when_a_record_arrives),
        ("trimming_keeps_the_last_record", trimming_keeps_the_last_record),
        ("readers_survive_trimming", readers_survive_trimming),
        ("an_emptied_stream_is_noticed", an_emptied_stream_is_noticed),
        ("a_recreated_stream_is_noticed", a_recreated_stream_is_noticed),
        ("records_have_a_size_limit", records_have_a_size_limit),
    ]
}

fn record(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

/// Appends once.
fn append_once(log: &dyn Log, after: u64, record: &Bytes) -> Result<Position, AppendError> {
    log.append(Position(after), AppendId::of(record), record)
}

/// Appends, repeating it until it is settled.
fn append(log: &dyn Log, after: u64, record: &Bytes) -> Result<Position, AppendError> {
    loop {
        match append_once(log, after, record) {
            Err(error) if error.is_worth_repeating() => {}
            settled => return settled,
        }
    }
}

/// Fills a log with records `0`, `1`, ….
fn fill(log: &dyn Log, count: u64) {
    for number in 0..count {
        append(log, number, &record(number.to_string())).unwrap();
    }
}

/// Reads the log to the given end.
fn read_all(log: &dyn Log, from: u64, last: u64) -> Vec<Bytes> {
    let mut records = Vec::new();
    let mut next = Position(from);
    while next <= Position(last) {
        for entry in log.read(next, 1 << 16).unwrap() {
            assert_eq!(entry.position, next);
            assert_eq!(entry.id, AppendId::of(&entry.record));
            records.push(entry.record);
            next = next.next();
        }
    }
    records
}

/// Waits until the log shows an extent; it may be stale at first.
fn await_extent(log: &dyn Log, first: u64, last: u64) {
    loop {
        let state = log.state().unwrap();
        assert!(state.last <= Position(last), "{state:?}");
        if (state.first, state.last) == (Position(first), Position(last)) {
            return;
        }
    }
}

fn an_empty_log_starts_at_position_1<S: Subject>(subject: &S) {
    let log = subject.open();
    let state = log.state().unwrap();
    assert_eq!((state.first, state.last), (Position(1), Position::START));
    assert_eq!(log.read(Position::START, 100).unwrap(), []);
    assert_eq!(log.read(Position(1), 100).unwrap(), []);
    assert_eq!(append(&*log, 0, &record("first")), Ok(Position(1)));
    await_extent(&*log, 1, 1);
    assert_eq!(subject.open().state().unwrap().stream, state.stream);
}

fn records_are_read_as_they_were_appended<S: Subject>(subject: &S) {
    let log = subject.open();
    // Records may contain anything, and may be empty.
    let records = [
        Bytes::new(),
        Bytes::from_static(b"text"),
        (0..=255).collect(),
        vec![b'\n'; 3000].into(),
        Bytes::from_static(b"\r\n\0"),
    ];
    for (after, record) in (0..).zip(&records) {
        assert_eq!(append(&*log, after, record), Ok(Position(after + 1)));
    }
    assert_eq!(read_all(&*log, 1, 5), records);
    let other = subject.open();
    assert_eq!(read_all(&*other, 4, 5), records[3..]);
    assert_eq!(other.read(Position(6), 100).unwrap(), []);
    assert_eq!(other.read(Position(1_000), 100).unwrap(), []);
}

fn a_read_is_limited_by_bytes<S: Subject>(subject: &S) {
    let log = subject.open();
    for after in 0..6 {
        append(&*log, after, &vec![after as u8; 1000].into()).unwrap();
    }
    // One record is returned even if it is larger than the limit.
    let mut next = Position(1);
    while next < Position(6) {
        let entries = log.read(next, 10).unwrap();
        assert!(entries.len() <= 1);
        next = Position(next.0 + entries.len() as u64);
    }
    while log.read(Position(6), 10).unwrap().is_empty() {}
    let several = log.read(Position(1), 3500).unwrap();
    assert!((1..=3).contains(&several.len()), "{}", several.len());
}

fn an_append_in_the_wrong_place_is_refused<S: Subject>(subject: &S) {
    let log = subject.open();
    fill(&*log, 3);
    let stale = append(&*log, 1, &record("stale"));
    assert!(
        matches!(stale, Err(AppendError::Conflict { last }) if last <= Position(3)),
        "{stale:?}"
    );
    let ahead = loop {
        match append_once(&*log, 7, &record("ahead")) {
            Err(AppendError::Unknown(_) | AppendError::Failed(_)) => {}
            settled => break settled,
        }
    };
    assert_eq!(ahead, Err(AppendError::PastEnd { last: Position(3) }));
    await_extent(&*log, 1, 3);
    assert_eq!(append(&*log, 3, &record("next")), Ok(Position(4)));
}

fn a_repeated_append_gives_the_same_answer<S: Subject>(subject: &S) {
    let log = subject.open();
    fill(&*log, 5);
    let other = subject.open();
    for handle in [&log, &other] {
        for after in (0..5).rev() {
            let again = append(&**handle, after, &record(after.to_string()));
            assert_eq!(again, Ok(Position(after + 1)));
        }
    }
    await_extent(&*log, 1, 5);
}

/// Several writers append at the end that they know. Every acknowledged record is at the position
/// that its writer was told, and no refused record is in the log.
fn of_racing_appends_one_wins<S: Subject>(subject: &S) {
    const WRITERS: usize = 4;
    const RECORDS: u64 = 40;
    let histories: Vec<_> = std::thread::scope(|scope| {
        let write = |writer: usize| {
            let log = subject.open();
            let (mut won, mut lost) = (BTreeMap::new(), BTreeSet::new());
            let mut after = 0;
            for attempt in 0_u64.. {
                let record = record(format!("writer {writer}, attempt {attempt}"));
                match append(&*log, after, &record) {
                    Ok(position) => {
                        assert_eq!(position, Position(after + 1));
                        won.insert(position.0, record);
                        after += 1;
                    }
                    Err(AppendError::Conflict { last }) => {
                        assert!(last > Position(after));
                        lost.insert(record);
                        after = last.0;
                    }
                    Err(error) => panic!("{error:?}"),
                }
                if after >= RECORDS {
                    break;
                }
            }
            (won, lost)
        };
        let writers: Vec<_> =
            (0..WRITERS).map(|number| scope.spawn(move || write(number))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let log = subject.open();
    let last = histories.iter().filter_map(|(won, _)| won.keys().max()).max().unwrap();
    let records = read_all(&*log, 1, *last);
    assert_eq!(histories.iter().map(|(won, _)| won.len()).sum::<usize>(), records.len());
    for (won, lost) in &histories {
        for (position, record) in won {
            assert_eq!(records[*position as usize - 1], record);
        }
        assert!(records.iter().all(|record| !lost.contains(record)));
    }
}

fn racing_repetitions_append_once<S: Subject>(subject: &S) {
    let same = record("the same append, several times");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let senders: Vec<_> =
            (0..4).map(|_| scope.spawn(|| append(&*subject.open(), 0, &same))).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| *answer == Ok(Position(1))), "{answers:?}");
    await_extent(&*subject.open(), 1, 1);
}

fn a_lost_answer_is_settled_by_repeating<S: Subject>(subject: &S) {
    let Unreliable { log, set } = subject.open_unreliable();
    let other = subject.open();
    append(&*log, 0, &record("before")).unwrap();
    set(Network::LosesAnswers);
    let unknown = append_once(&*log, 1, &record("lost"));
    assert!(matches!(unknown, Err(AppendError::Unknown(LogError::Unavailable(_)))), "{unknown:?}");
    // The request arrives at some time, and then other writers are refused.
    while read_after(&*other, 2).is_none() {}
    let late = append(&*other, 1, &record("another writer"));
    assert!(matches!(late, Err(AppendError::Conflict { .. })), "{late:?}");
    append(&*other, 2, &record("follows")).unwrap();
    set(Network::Works);
    assert_eq!(append(&*log, 1, &record("lost")), Ok(Position(2)));
    assert_eq!(read_all(&*log, 1, 3), ["before", "lost", "follows"].map(record));
    await_extent(&*log, 1, 3);
}

/// The record at a position, if it is there.
fn read_after(log: &dyn Log, position: u64) -> Option<Bytes> {
    log.read(Position(position), 1).unwrap().first().map(|entry| entry.record.clone())
}

fn a_lost_request_is_fenced_by_another_writer<S: Subject>(subject: &S) {
    let Unreliable { log, set } = subject.open_unreliable();
    append(&*log, 0, &record("before")).unwrap();
    set(Network::LosesRequests);
    let unknown = append_once(&*log, 1, &record("lost"));
    assert!(matches!(unknown, Err(AppendError::Unknown(LogError::Unavailable(_)))), "{unknown:?}");
    let other = subject.open();
    assert_eq!(append(&*other, 1, &record("takeover")), Ok(Position(2)));
    set(Network::Works);
    let settled = append(&*log, 1, &record("lost"));
    assert!(matches!(settled, Err(AppendError::Conflict { .. })), "{settled:?}");
    assert_eq!(read_all(&*other, 1, 2), ["before", "takeover"].map(record));
    await_extent(&*other, 1, 2);
}

fn a_wait_ends_when_a_record_arrives<S: Subject>(subject: &S) {
    let (log, writer) = (subject.open(), subject.open());
    // Without a record, a wait ends when its time has passed.
    log.wait(Position(1), Duration::ZERO).unwrap();
    log.wait(Position(1), Duration::from_millis(1)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            for position in 1..=10 {
                while read_after(&*log, position).is_none() {
                    log.wait(Position(position), Duration::from_secs(600)).unwrap();
                }
            }
        });
        fill(&*writer, 10);
        waiting.join().unwrap();
    });
    log.wait(Position(3), Duration::from_secs(600)).unwrap();
}

fn trimming_keeps_the_last_record<S: Subject>(subject: &S) {
    let log = subject.open();
    fill(&*log, 6);
    log.trim(Position(4)).unwrap();
    await_extent(&*log, 4, 6);
    // Trimming less, or the same again, does nothing.
    log.trim(Position(4)).unwrap();
    log.trim(Position(1)).unwrap();
    log.trim(Position::START).unwrap();
    await_extent(&*log, 4, 6);
    let trimmed = log.read(Position(2), 100);
    assert_eq!(trimmed, Err(LogError::Trimmed { first: Position(4) }));
    assert_eq!(read_all(&*log, 4, 6), ["3", "4", "5"].map(record));
    let refused = log.trim(Position(7));
    assert_eq!(refused, Err(LogError::TrimPastEnd { last: Position(6) }));
    log.trim(Position(6)).unwrap();
    await_extent(&*log, 6, 6);
    assert_eq!(append(&*log, 6, &record("6")), Ok(Position(7)));
    // Whose record was at a trimmed position is not known any more.
    let first = Position(6);
    let forgotten = Err(AppendError::Unknown(LogError::Trimmed { first }));
    assert_eq!(append(&*log, 1, &record("another")), forgotten);
    // A log may remember the ids of its latest appends for longer.
    let repeated = append(&*log, 1, &record("1"));
    assert!(repeated == Ok(Position(2)) || repeated == forgotten, "{repeated:?}");
    let state = log.state().unwrap();
    assert_eq!(state.check(&state.stream, Position(2)), Err(LogError::Trimmed { first }));
    assert_eq!(state.check(&state.stream, Position(5)), Ok(()));
}

fn readers_survive_trimming<S: Subject>(subject: &S) {
    const RECORDS: u64 = 120;
    let log = subject.open();
    fill(&*log, RECORDS);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let trimmer = subject.open();
            for below in (2..=RECORDS).step_by(7) {
                trimmer.trim(Position(below)).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let mut next = Position(1);
        while !(done.load(Ordering::Acquire) && next > Position(RECORDS)) {
            match log.read(next, 200) {
                Ok(entries) => {
                    for entry in entries {
                        assert_eq!(entry.position, next);
                        assert_eq!(entry.record, (next.0 - 1).to_string());
                        next = next.next();
                    }
                }
                Err(LogError::Trimmed { first }) => {
                    assert!(first > next);
                    next = first;
                }
                Err(error) => panic!("{error:?}"),
            }
            if next > Position(RECORDS) && !done.load(Ordering::Acquire) {
                next = Position(1);
            }
        }
    });
}

fn an_emptied_stream_is_noticed<S: Subject>(subject: &S) {
    let log = subject.open();
    fill(&*log, 4);
    let stream = log.state().unwrap().stream;
    subject.empty();
    for log in [&log, &subject.open()] {
        let state = loop {
            let state = log.state().unwrap();
            if state.first > Position(1) {
                break state;
            }
        };
        assert_eq!((state.first, state.last), (Position(5), Position(4)));
        let first = Position(5);
        assert_eq!(log.read(Position(1), 100), Err(LogError::Trimmed { first }));
        assert_eq!(log.read(Position(5), 100), Ok(vec![]));
        assert_eq!(state.check(&stream, Position(3)), Err(LogError::Trimmed { first }));
        // A replica that has applied everything has lost nothing.
        assert_eq!(state.check(&stream, Position(4)), Ok(()));
    }
    assert_eq!(append(&*log, 4, &record("next")), Ok(Position(5)));
}

fn a_recreated_stream_is_noticed<S: Subject>(subject: &S) {
    let old = subject.open();
    fill(&*old, 3);
    let old_stream = old.state().unwrap().stream;
    subject.recreate();
    let new = subject.open();
    let state = new.state().unwrap();
    assert_eq!(state.last, Position::START);
    assert_ne!(state.stream, old_stream);
    let refused = state.check(&old_stream, Position(3));
    assert!(matches!(refused, Err(LogError::Recreated { .. })), "{refused:?}");

    let is_recreated = |error: &LogError| matches!(error, LogError::Recreated { .. });
    // Also when the new stream has grown to the same length.
    for length in 0..=3 {
        if length > 0 {
            append(&*new, length - 1, &record("new")).unwrap();
        }
        assert!(old.state().is_err_and(|error| is_recreated(&error)));
        for position in [1, 3, 4] {
            let read = old.read(Position(position), 100);
            assert!(read.as_ref().is_err_and(is_recreated), "{read:?}");
        }
        assert!(old.trim(Position(2)).is_err_and(|error| is_recreated(&error)));
        for after in [0, length, 3] {
            let refused = append(&*old, after, &record("old"));
            let Err(AppendError::Failed(error) | AppendError::Unknown(error)) = &refused else {
                panic!("{refused:?}");
            };
            assert!(is_recreated(error), "{refused:?}");
        }
    }
    assert_eq!(read_all(&*new, 1, 3), vec![record("new"); 3]);
    await_extent(&*new, 1, 3);
}

fn records_have_a_size_limit<S: Subject>(subject: &S) {
    let log = subject.open();
    let max = log.max_record_bytes();
    let largest = Bytes::from(vec![7; max]);
    let too_large = Bytes::from(vec![7; max + 1]);
    assert_eq!(append(&*log, 0, &too_large), Err(AppendError::TooLarge { max }));
    assert_eq!(append(&*log, 0, &largest), Ok(Position(1)));
    assert_eq!(read_all(&*log, 1, 1), [largest]);
    await_extent(&*log, 1, 1);
}
