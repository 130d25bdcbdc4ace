//! The keys of a pacer: they are independent, take turns, and are forgotten when they are idle.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::life::rig;
use crate::patience::in_time;
use crate::rig::{MS, S};
use tickwheel::pace::{KeyedPacer, PaceError, Pacer};

#[test]
fn one_key_waits_for_no_other() {
    let rig = rig();
    let pacer: KeyedPacer<u32> = KeyedPacer::new(&rig.timer, 1, S);
    for number in 0..6 {
        pacer.key(number % 3).submit(rig.note(number)).unwrap();
    }
    pacer.key(0).retry_after(5 * S);
    pacer.key(1).pause();
    rig.clock.advance(2 * S);
    assert_eq!(rig.noted(), [(2, Duration::ZERO), (5, S)]);
    pacer.key(1).resume();
    rig.clock.advance(10 * S);
    assert_eq!(rig.noted(), [(1, 2 * S), (4, 3 * S), (0, 5 * S), (3, 6 * S)]);
}

#[test]
fn keys_take_turns() {
    let rig = rig();
    let pacer: KeyedPacer<u32> = KeyedPacer::new(&rig.timer, 100, S);
    for number in 0..4 {
        pacer.key(0).submit(rig.note(number)).unwrap();
    }
    pacer.key(1).submit(rig.note(10)).unwrap();
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.numbers(), [0, 10, 1, 2, 3], "a long queue holds nobody up");
}

#[test]
fn idle_keys_cost_nothing() {
    const KEYS: u32 = 100_000;
    let rig = rig();
    let pacer: KeyedPacer<u32> = KeyedPacer::new(&rig.timer, 3, S);
    let floor = |pacer: &KeyedPacer<u32>| pacer.memory_usage() < 32 << 10;
    for round in 0..3 {
        for key in 0..KEYS {
            for _ in 0..=round {
                pacer.key(key).submit(|| {}).unwrap();
            }
        }
        assert_eq!(pacer.stats().keys, KEYS as usize);
        assert!(!floor(&pacer));
        rig.clock.advance(S / 2);
        assert_eq!(pacer.stats().keys, KEYS as usize, "the window has not passed");
        rig.clock.advance(S);
        let stats = pacer.stats();
        assert_eq!((stats.keys, stats.queued, stats.running), (0, 0, 0));
        assert!(floor(&pacer), "{} bytes", pacer.memory_usage());
        assert_eq!(rig.timer.pending(), 0, "nothing is left to do");
    }
}

#[test]
fn a_paused_pacer_forgets_idle_keys() {
    let rig = rig();
    let pacer: KeyedPacer<u32> = KeyedPacer::new(&rig.timer, 1, S);
    for key in 0..100 {
        pacer.key(key).submit(rig.note(key)).unwrap();
    }
    pacer.key(0).submit(rig.note(100)).unwrap();
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.numbers().len(), 100);
    pacer.pause();
    rig.clock.advance(2 * S);
    assert_eq!(pacer.stats().keys, 1, "only the key with a queued task is left");
    assert!(rig.numbers().is_empty(), "nothing starts during a pause");
    rig.clock.advance(10 * S);
    assert_eq!(rig.timer.pending(), 0, "a pause needs no further alarm");
    pacer.resume();
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.noted(), [(100, 12 * S)]);
}

#[test]
fn a_key_whose_destructor_panics_does_not_delay_the_next_task() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Explosive(u8);
    impl Drop for Explosive {
        fn drop(&mut self) {
            assert!(self.0 != 1 || std::thread::panicking(), "a destructor that panics");
        }
    }
    let rig = rig();
    let pacer: KeyedPacer<Explosive> = KeyedPacer::new(&rig.timer, 1, S);
    pacer.key(Explosive(1)).submit(rig.note(1)).unwrap();
    rig.clock.advance(S / 2);
    pacer.key(Explosive(2)).submit(rig.note(2)).unwrap();
    rig.clock.advance(10 * S);
    assert_eq!((rig.numbers(), pacer.stats().keys), (vec![1, 2], 0));
}

#[test]
fn a_key_that_was_refused_costs_nothing() {
    let rig = rig();
    let pacer: KeyedPacer<u32> = KeyedPacer::new(&rig.timer, 3, S);
    pacer.pause();
    for key in 0..1_000 {
        assert_eq!(pacer.key(key).try_acquire().unwrap_err(), PaceError::NotYet { until: None });
    }
    assert_eq!(pacer.stats().keys, 0);
    pacer.resume();
    assert!(pacer.key(7).try_acquire().is_ok());
    assert_eq!(pacer.stats().keys, 1);
    rig.clock.advance(2 * S);
    assert_eq!(pacer.stats().keys, 0);
}

#[test]
fn a_key_with_settings_stays_until_they_are_taken_back() {
    let rig = rig();
    let pacer: KeyedPacer<u8> = KeyedPacer::new(&rig.timer, 3, S);
    pacer.key(1).pause();
    pacer.key(2).set_rate(1, S).unwrap();
    pacer.key(3).retry_after(5 * S);
    rig.clock.advance(4 * S);
    assert_eq!(pacer.stats().keys, 3);
    pacer.key(1).resume();
    pacer.key(2).reset_rate();
    rig.clock.advance(2 * S);
    assert_eq!(pacer.stats().keys, 0);
    assert_eq!(pacer.key(1).queued(), 0, "asking makes no key");
    assert_eq!(pacer.stats().keys, 0);
}

#[test]
fn a_large_window_remembers_every_start() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 50_000, S);
    for _ in 0..120_000 {
        pacer.submit(rig.note(0)).unwrap();
    }
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.times().len(), 50_000);
    assert!(pacer.memory_usage() >= 50_000 * 8);
    rig.clock.advance(999 * MS);
    assert_eq!(rig.times().len(), 0);
    rig.clock.advance(MS);
    assert_eq!(rig.times().len(), 50_000);
    rig.clock.advance(3 * S);
    assert_eq!(rig.times().len(), 20_000);
    assert!(pacer.memory_usage() < 32 << 10);
}

/// A key or captured value that calls the pacer when it is dropped. The call would deadlock if the
/// drop happened under the pacer's lock.
#[derive(Clone)]
struct Caller {
    number: u8,
    pacer: Arc<Mutex<Option<KeyedPacer<Self>>>>,
    drops: Arc<AtomicUsize>,
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Caller {}

impl Hash for Caller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let pacer = self.pacer.lock().unwrap().clone();
        let _ = pacer.map(|pacer| pacer.stats());
        self.drops.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn nothing_of_a_callers_is_dropped_under_the_lock() {
    in_time("drops that call the pacer", || {
        let rig = rig();
        let builder = Pacer::builder(&rig.timer, 1, S).max_queued(2);
        let pacer: KeyedPacer<Caller> = builder.build_keyed().unwrap();
        let cell = Arc::new(Mutex::new(Some(pacer.clone())));
        let drops = Arc::new(AtomicUsize::new(0));
        let caller = |number| Caller { number, pacer: cell.clone(), drops: drops.clone() };
        for number in 0..4 {
            let held = caller(9);
            let ticket = pacer.key(caller(number)).submit(move || drop(held)).unwrap();
            assert!(number != 0 || ticket.cancel());
        }
        rig.clock.advance(Duration::ZERO);
        for _ in 0..2 {
            let held = caller(9);
            pacer.key(caller(1)).submit(move || drop(held)).unwrap();
        }
        let held = caller(9);
        assert!(pacer.key(caller(1)).submit(move || drop(held)).is_err());
        drop(pacer.key(caller(2)).try_acquire());
        pacer.key(caller(2)).pause();
        rig.clock.advance(5 * S);
        assert_eq!(pacer.stats().keys, 1, "the paused one");
        assert_eq!(drops.load(Ordering::SeqCst), 15, "all that were made but for that one");
        let held = caller(9);
        pacer.key(caller(2)).submit(move || drop(held)).unwrap();
        drop(pacer.stop());
        // The remaining key and the pacer hold each other.
        drop(cell.lock().unwrap().take());
    });
}
