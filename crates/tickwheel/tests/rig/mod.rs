//! A timer on a manual clock, with a log of runs; and a macro that runs tests on both wheels.
#![allow(dead_code, unused_macros, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tickwheel::{Builder, ManualClock, Timer, WheelKind};

pub(crate) const S: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const US: Duration = Duration::from_micros(1);

macro_rules! on_both_wheels {
    ($($test:ident),* $(,)?) => {
        mod hierarchical {
            $(#[test] fn $test() { super::$test(&super::Rig::new(tickwheel::WheelKind::Hierarchical)); })*
        }
        mod hashed {
            $(#[test] fn $test() { super::$test(&super::Rig::new(tickwheel::WheelKind::Hashed { slots: 8 })); })*
        }
    };
}

/// A timer, its clock, and a log of runs with their times.
pub(crate) struct Rig {
    pub(crate) kind: WheelKind,
    pub(crate) clock: ManualClock,
    pub(crate) start: Instant,
    pub(crate) timer: Timer,
    pub(crate) log: Arc<Mutex<Vec<(u32, Duration)>>>,
}

impl Rig {
    pub(crate) fn new(kind: WheelKind) -> Self {
        Self::with(kind, |builder| builder)
    }

    pub(crate) fn with(kind: WheelKind, set_up: impl FnOnce(Builder) -> Builder) -> Self {
        let clock = ManualClock::new();
        let builder = Timer::builder().wheel(kind).clock(clock.clone());
        let timer = set_up(builder).build().unwrap();
        Self { kind, start: clock.now(), clock, timer, log: Arc::default() }
    }

    /// Returns another rig with the same kind of wheel.
    pub(crate) fn again(&self, set_up: impl FnOnce(Builder) -> Builder) -> Self {
        Self::with(self.kind, set_up)
    }

    /// Returns a task that logs its number and the time.
    pub(crate) fn note(&self, number: u32) -> impl Fn() + Send + Clone + use<> {
        let (clock, start, log) = (self.clock.clone(), self.start, self.log.clone());
        move || log.lock().unwrap().push((number, clock.now() - start))
    }

    /// Returns the log since the last call.
    pub(crate) fn noted(&self) -> Vec<(u32, Duration)> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.noted().into_iter().map(|(number, _)| number).collect()
    }

    pub(crate) fn times(&self) -> Vec<Duration> {
        self.noted().into_iter().map(|(_, time)| time).collect()
    }
}

/// Counts how often it, or a clone, is dropped.
#[derive(Clone)]
pub(crate) struct Counted(pub(crate) Arc<AtomicUsize>);

pub(crate) fn counted() -> (Counted, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    (Counted(count.clone()), count)
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Panics when it is dropped.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor that panics");
    }
}

pub(crate) fn dropped(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}
