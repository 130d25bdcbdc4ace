//! A cheap reading of the monotonic clock that is never behind it.
//!
//! Asking the operating system for the time takes a third of the time of a `schedule`. Reading the
//! processor's time-stamp counter takes a third of that. A reading here is the time at the last
//! *anchor*, when counter and clock were read together, plus the counter's progress since then,
//! rounded up. It is used only to turn a delay into a deadline: a deadline that is a little too late
//! is allowed, one that is too early is not. Whether a deadline has passed is always decided by the
//! clock itself.
//!
//! Ground rules:
//! * A reading is never behind the clock, and ahead of it by at most [`MAX_AHEAD`].
//! * An anchor belongs to one thread and is used for [`ANCHOR_LIFE`]. Then the thread makes a new one.
//! * The counter is used only if the processor says that it is invariant, and after its rate was
//!   measured twice with the same result. The rate is rounded up by [`RATE_MARGIN`], twice what the
//!   system changes the clock's speed by when it follows a time server.
//! * Each new anchor checks the old one: if the old one was behind the clock, because the machine
//!   was suspended or moved, the counter is not used again in this process.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use super::{Nanos, nanos};

/// For how long an anchor is used, in nanoseconds.
const ANCHOR_LIFE: Nanos = 1_000_000;

/// The part by which the rate of the counter is rounded up: one in so many.
const RATE_MARGIN: u64 = 1_000;

/// Added to an anchor's time, in nanoseconds: processors may read the counter a little before it is
/// its turn.
const ANCHOR_MARGIN: Nanos = 1_000;

/// The longest time between the two readings of the clock around one of the counter, in nanoseconds.
const MAX_SLACK: Nanos = 1_000;

/// By how much a reading is ahead of the clock at most, in nanoseconds.
#[cfg(test)]
const MAX_AHEAD: Nanos =
    ANCHOR_MARGIN + MAX_SLACK + 2 * (ANCHOR_LIFE / RATE_MARGIN) + ANCHOR_LIFE / 100;

/// The shortest and the longest time over which the counter's rate is measured, in nanoseconds.
const MIN_WINDOW: Nanos = 20_000_000;
const MAX_WINDOW: Nanos = 1_000_000_000;

/// The two measurements of the rate may differ by one in so many.
const AGREEMENT: u64 = 1_000;

/// `rate` if the counter must not be used.
const UNUSABLE: u64 = u64::MAX;

/// Nanoseconds for each count, times 2^32; 0 until that was measured, or [`UNUSABLE`].
static RATE: AtomicU64 = AtomicU64::new(0);

/// When the next measurement of the rate ends.
static MEASURE_AT: AtomicU64 = AtomicU64::new(0);

static MEASUREMENT: Mutex<Measurement> = Mutex::new(Measurement { start: None, rate: None });

std::thread_local! {
    static ANCHOR: Cell<Anchor> = const { Cell::new(Anchor::NONE) };
}

/// The counter and the clock at one moment.
#[derive(Clone, Copy)]
struct Anchor {
    count: u64,
    /// A time that is not before that moment.
    at: Nanos,
    /// For how many counts the anchor may be used.
    life: u64,
    /// Nanoseconds for each count, times 2^32.
    rate: u64,
}

/// A reading of the counter between two of the clock.
#[derive(Clone, Copy)]
struct Sample {
    before: Nanos,
    count: u64,
    after: Nanos,
}

/// What was measured of the counter's rate so far.
struct Measurement {
    start: Option<Sample>,
    rate: Option<u64>,
}

/// The instant from which readings count.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// The time of an instant, as readings count it.
pub(super) fn time_of(instant: Instant) -> Nanos {
    nanos(instant.saturating_duration_since(origin()))
}

/// Returns a time that is not before now, and not long after it.
#[inline]
pub(super) fn now_or_later() -> Nanos {
    let anchor = ANCHOR.get();
    if anchor.life > 0 {
        let elapsed = read_counter().wrapping_sub(anchor.count);
        if elapsed < anchor.life {
            return anchor.after(elapsed);
        }
    }
    read_clock()
}

impl Anchor {
    const NONE: Self = Self { count: 0, at: 0, life: 0, rate: 0 };

    fn new(sample: Sample, rate: u64) -> Self {
        let life = (u128::from(ANCHOR_LIFE) << 32) / u128::from(rate);
        let at = sample.after + ANCHOR_MARGIN;
        Self { count: sample.count, at, life: life as u64, rate }
    }

    /// A time that is not before the moment at which the counter has advanced by `elapsed`.
    #[inline]
    fn after(self, elapsed: u64) -> Nanos {
        // This fits: an anchor lives for a millisecond, which is less than 2^24 counts.
        self.at + ((elapsed * self.rate) >> 32)
    }

    /// Returns `true` if the anchor was behind the clock when a sample was taken, although it is
    /// not old.
    fn is_behind(self, sample: Sample) -> bool {
        let elapsed = sample.count.wrapping_sub(self.count);
        elapsed < 2 * self.life && self.after(elapsed) < sample.before
    }
}

/// Asks the system for the time, and makes a new anchor or continues to measure the rate.
#[cold]
fn read_clock() -> Nanos {
    let rate = RATE.load(Ordering::Relaxed);
    let now = time_of(Instant::now());
    if rate == UNUSABLE {
        ANCHOR.set(Anchor::NONE);
        return now;
    }
    if rate == 0 && now < MEASURE_AT.load(Ordering::Relaxed) {
        return now;
    }
    let Some(sample) = Sample::take() else { return time_of(Instant::now()) };
    if rate == 0 {
        if let Ok(mut measurement) = MEASUREMENT.try_lock() {
            measurement.add(sample);
        }
        return sample.after;
    }
    if ANCHOR.get().is_behind(sample) {
        RATE.store(UNUSABLE, Ordering::Relaxed);
        ANCHOR.set(Anchor::NONE);
        return sample.after;
    }
    let anchor = Anchor::new(sample, rate);
    ANCHOR.set(anchor);
    anchor.at
}

impl Sample {
    /// Reads counter and clock together; `None` if the thread was interrupted meanwhile.
    fn take() -> Option<Self> {
        let before = time_of(Instant::now());
        let count = read_counter();
        let after = time_of(Instant::now());
        (after - before <= MAX_SLACK).then_some(Self { before, count, after })
    }
}

impl Measurement {
    /// Ends a window and begins the next. Publishes the rate when two windows agree.
    fn add(&mut self, sample: Sample) {
        if !is_invariant() {
            RATE.store(UNUSABLE, Ordering::Relaxed);
            return;
        }
        let rate = self.start.and_then(|start| rate_between(start, sample));
        if let (Some(one), Some(other)) = (self.rate, rate)
            && one.abs_diff(other) <= one / AGREEMENT
        {
            let rate = one.max(other);
            RATE.store(rate + rate / RATE_MARGIN + 1, Ordering::Relaxed);
            return;
        }
        self.rate = rate;
        self.start = Some(sample);
        MEASURE_AT.store(sample.after + MIN_WINDOW, Ordering::Relaxed);
    }
}

/// The rate between two samples, rounded up; `None` if the window is too short or too long, or the
/// counter did not advance as one that counts cycles does.
fn rate_between(start: Sample, end: Sample) -> Option<u64> {
    let window = end.after - start.before;
    let counts = end.count.checked_sub(start.count)?;
    // From 100 MHz to 10 GHz.
    let plausible = window / 10..=window.saturating_mul(10);
    if !(MIN_WINDOW..=MAX_WINDOW).contains(&window) || !plausible.contains(&counts) {
        return None;
    }
    u64::try_from((u128::from(window) << 32).div_ceil(u128::from(counts))).ok()
}

#[cfg(all(target_arch = "x86_64", not(any(tickwheel_loom, miri))))]
#[inline]
fn read_counter() -> u64 {
    // SAFETY: every x86-64 processor has this instruction, and systems that forbid it to programs do
    // not run the standard library's threads.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_arch = "x86_64", not(any(tickwheel_loom, miri)))))]
#[inline]
fn read_counter() -> u64 {
    0
}

/// Returns `true` if the counter advances at a constant rate, also while the processor sleeps.
#[cfg(all(target_arch = "x86_64", not(any(tickwheel_loom, miri))))]
fn is_invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & 1 << 8 != 0
}

#[cfg(not(all(target_arch = "x86_64", not(any(tickwheel_loom, miri)))))]
fn is_invariant() -> bool {
    false
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;

    /// Reads for long enough that the rate is measured and many anchors are made.
    #[test]
    fn readings_are_never_behind_the_clock_and_hardly_ahead() {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let start = Instant::now();
                    while start.elapsed().as_millis() < 150 {
                        for _ in 0..100 {
                            let before = time_of(Instant::now());
                            let reading = now_or_later();
                            let after = time_of(Instant::now());
                            assert!(reading >= before, "{reading} is behind {before}");
                            let limit = after + MAX_AHEAD;
                            assert!(reading <= limit, "{reading} is beyond {limit}");
                        }
                        thread::yield_now();
                    }
                });
            }
        });
    }

    proptest! {
        /// A counter of any frequency, and a clock whose speed the system changes.
        #[test]
        fn an_anchor_is_never_behind(
            mega_hertz in 200..8_000_u64,
            slew in 0..1_000_u64,
            slacks in prop::collection::vec(0..MAX_SLACK, 3),
            elapsed in 0..ANCHOR_LIFE,
        ) {
            let count_at = |at: Nanos| at * mega_hertz / 1_000;
            let sample = |at: Nanos, slack: Nanos| {
                let (before, after) = (at - slack / 2, at + slack / 2);
                Sample { before, count: count_at(at), after }
            };
            let start = 5_000_000;
            let measured = rate_between(
                sample(start, slacks[0]),
                sample(start + MIN_WINDOW, slacks[1]),
            );
            let Some(measured) = measured else { return Ok(()) };
            let rate = measured + measured / RATE_MARGIN + 1;
            let now = sample(start + 2 * MIN_WINDOW, slacks[2]);
            let anchor = Anchor::new(now, rate);
            // From here on the clock is slower or faster, by up to 500 in a million.
            let passed = elapsed - elapsed * 500 / 1_000_000 + elapsed * slew / 1_000_000;
            let clock = start + 2 * MIN_WINDOW + passed;
            let counts = count_at(start + 2 * MIN_WINDOW + elapsed) - now.count;
            let reading = anchor.after(counts);
            prop_assert!(reading >= clock, "{} is behind {}", reading, clock);
            prop_assert!(reading <= clock + MAX_AHEAD, "{} is beyond {}", reading, clock);
        }
    }

    #[test]
    fn a_counter_that_stands_still_or_jumps_has_no_rate() {
        let at = |count, now| Sample { before: now, count, after: now };
        let start = at(1_000_000_000, 0);
        assert!(rate_between(start, at(1_060_000_000, MIN_WINDOW)).is_some());
        assert_eq!(rate_between(start, at(1_000_000_000, MIN_WINDOW)), None, "stands still");
        assert_eq!(rate_between(start, at(900_000_000, MIN_WINDOW)), None, "goes back");
        assert_eq!(rate_between(start, at(u64::MAX, MIN_WINDOW)), None, "jumps");
        assert_eq!(rate_between(start, at(1_030_000_000, MIN_WINDOW / 2)), None, "too short");
    }

    #[test]
    fn an_anchor_that_is_behind_is_noticed() {
        // A count is a nanosecond.
        let anchor = Anchor { count: 0, at: 500, life: 1_000_000, rate: 1 << 32 };
        let sample = |count, now| Sample { before: now, count, after: now };
        assert!(!anchor.is_behind(sample(1_000_000, 1_000_500)));
        assert!(anchor.is_behind(sample(1_000_000, 1_000_501)));
        assert!(!anchor.is_behind(sample(9_000_000, 99_000_000)), "it was not used so long");
    }
}
