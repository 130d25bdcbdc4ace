//! Writers on a simulated log with all faults at once, for many seeds.
//!
//! What is checked is what the safety of a cluster needs: an acknowledged record is in the log, at
//! the position that its writer was told; a record that was refused for good is not; and no record
//! is there twice.

use std::collections::HashMap;

use bytes::Bytes;
use tickwheel_cluster::log::{
    AppendError, AppendId, Faults, Log, LogError, LogState, Position, SimulatedLog,
};

const WRITERS: usize = 3;
const STEPS: usize = 120;

/// What a writer was told about one of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Appended(Position),
    Refused,
    Unknown,
}

struct Writer {
    log: SimulatedLog,
    name: usize,
    /// Where this writer believes the log ends.
    after: Position,
    /// The append that is not settled.
    pending: Option<Bytes>,
    fates: HashMap<Bytes, Fate>,
}

impl Writer {
    fn step(&mut self, number: usize, rng: &mut fastrand::Rng) {
        let writer = self.name;
        let record = self
            .pending
            .take()
            .unwrap_or_else(|| Bytes::from(format!("writer {writer}, record {number}")));
        let answer = self.log.append(self.after, AppendId::of(&record), &record);
        let fate = match answer {
            Ok(position) => {
                assert_eq!(position, self.after.next());
                self.after = position;
                Fate::Appended(position)
            }
            Err(AppendError::Conflict { last }) => {
                assert!(last > self.after);
                self.after = last;
                Fate::Refused
            }
            Err(AppendError::Unknown(_) | AppendError::PastEnd { .. }) if rng.bool() => {
                self.pending = Some(record.clone());
                Fate::Unknown
            }
            // The writer gives up and continues from what it can read, as after a restart. It has a
            // new name, so that its records differ from the unsettled one.
            Err(AppendError::Unknown(_) | AppendError::PastEnd { .. }) => {
                if let Ok(LogState { last, .. }) = self.log.state() {
                    self.after = last;
                }
                Fate::Unknown
            }
            Err(error) => panic!("{error:?}"),
        };
        self.fates.insert(record, fate);
    }
}

fn run(seed: u64) -> Vec<Bytes> {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let log = SimulatedLog::new(seed);
    log.never_block();
    let mut often = || rng.f64() * 0.4;
    log.set_faults(Faults {
        lost_request: often(),
        lost_answer: often(),
        delayed: often(),
        duplicated: often(),
        stale: often(),
    });
    let new_writer = |name| Writer {
        log: log.connect(),
        name,
        after: Position::START,
        pending: None,
        fates: HashMap::new(),
    };
    let mut writers: Vec<_> = (0..WRITERS).map(new_writer).collect();
    for number in 0..STEPS {
        let writer = rng.usize(..WRITERS);
        writers[writer].step(number, &mut rng);
    }
    log.deliver_all();
    log.set_faults(Faults::default());
    let entries = log.read(Position(1), usize::MAX).unwrap();
    let mut places: HashMap<&Bytes, Position> = HashMap::new();
    for entry in &entries {
        let twice = places.insert(&entry.record, entry.position);
        assert_eq!(twice, None, "seed {seed}: {:?} is there twice", entry.record);
    }
    for (record, fate) in writers.iter().flat_map(|writer| &writer.fates) {
        let place = places.get(record).copied();
        match fate {
            Fate::Appended(position) => assert_eq!(place, Some(*position), "seed {seed}"),
            Fate::Refused => assert_eq!(place, None, "seed {seed}: {record:?} was refused"),
            Fate::Unknown => {}
        }
    }
    entries.into_iter().map(|entry| entry.record).collect()
}

#[test]
fn answers_are_true_under_all_faults() {
    let appended: usize = (0..2_000).map(|seed| run(seed).len()).sum();
    assert!(appended > 10_000, "the writers got too little done: {appended}");
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}

#[test]
fn a_stale_server_hides_records_but_invents_none() {
    let log = SimulatedLog::new(5);
    for number in 0..20_u64 {
        let record = Bytes::from(number.to_string());
        log.append(Position(number), AppendId::of(&record), &record).unwrap();
    }
    log.set_faults(Faults { stale: 0.5, ..Faults::default() });
    let mut stale_answers = 0;
    for _ in 0..200 {
        let state = log.state().unwrap();
        assert!(state.last <= Position(20));
        let entries = log.read(Position(3), usize::MAX).unwrap();
        stale_answers += usize::from(entries.len() < 18);
        for (entry, number) in entries.iter().zip(2..) {
            assert_eq!(entry.record, number.to_string());
        }
    }
    assert!((50..150).contains(&stale_answers), "{stale_answers}");
}

#[test]
fn a_log_that_lost_records_is_noticed() {
    let log = SimulatedLog::new(5);
    let append = |after: u64, text: &str| {
        let record = Bytes::from(text.to_owned());
        log.append(Position(after), AppendId::of(&record), &record)
    };
    for number in 0..5 {
        append(number, &number.to_string()).unwrap();
    }
    let stream = log.state().unwrap().stream;
    log.lose_after(Position(3));
    let lost = log.state().unwrap().check(&stream, Position(5));
    assert_eq!(lost, Err(LogError::Lost { applied: Position(5), last: Position(3) }));
    assert_eq!(append(5, "next"), Err(AppendError::PastEnd { last: Position(3) }));
}

#[test]
fn a_delayed_append_of_a_fenced_writer_never_takes_effect() {
    let log = SimulatedLog::new(9);
    let (stale, owner) = (log.connect(), log.connect());
    stale.set_own_faults(Faults { delayed: 1.0, ..Faults::default() });
    let late = Bytes::from("late");
    let unknown = stale.append(Position::START, AppendId::of(&late), &late);
    assert!(matches!(unknown, Err(AppendError::Unknown(_))));
    assert_eq!(log.in_flight(), 1);
    let takeover = Bytes::from("takeover");
    // The next operation may deliver the delayed request first; then the takeover is refused.
    let taken = owner.append(Position::START, AppendId::of(&takeover), &takeover);
    log.deliver_all();
    let entries = log.read(Position(1), usize::MAX).unwrap();
    let winner = if taken.is_ok() { takeover } else { late };
    assert_eq!(entries.iter().map(|entry| &entry.record).collect::<Vec<_>>(), [&winner]);
}
