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
//! * The counter is used only if the processor says that it is invariant and the system says that
//!   it is the same on all processors, and after its rate was measured twice with the same result.
//!   The rate is rounded up by [`RATE_MARGIN`]: a time server's client may let the clock run up to
//!   10 % slower while the rate is measured and up to 10 % faster while it is used (`adjtimex`).
//! * Each new anchor checks the old one: if the old one was behind the clock, because the machine
//!   was suspended or moved, the counter is not used again in this process.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use super::{Nanos, nanos};

/// For how long an anchor is used, in nanoseconds.
const ANCHOR_LIFE: Nanos = 50_000;

/// The counter's rate is rounded up by its value divided by this.
const RATE_MARGIN: u64 = 4;

/// Added to an anchor's time, in nanoseconds: processors may read the counter a little before it is
/// its turn.
const ANCHOR_MARGIN: Nanos = 1_000;

/// The longest time between the two readings of the clock around one of the counter, in nanoseconds.
const MAX_SLACK: Nanos = 1_000;

/// By how much a reading is ahead of the clock at most, in nanoseconds.
#[cfg(test)]
const MAX_AHEAD: Nanos = ANCHOR_MARGIN + MAX_SLACK + ANCHOR_LIFE / 2;

/// The shortest and the longest time over which the counter's rate is measured, in nanoseconds.
const MIN_WINDOW: Nanos = 20_000_000;
const MAX_WINDOW: Nanos = 1_000_000_000;

/// The two measurements of the rate may differ by their value divided by this.
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

/// The present, as an instant and as readings count it.
pub(super) fn begin() -> (Instant, Nanos) {
    // First: a time before the origin would count as the origin.
    let origin = origin();
    let now = Instant::now();
    (now, nanos(now.saturating_duration_since(origin)))
}

/// Asks the system for the time.
fn clock() -> Nanos {
    begin().1
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
        // This fits: an anchor lives for 50 µs, which is less than 2^20 counts.
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
    if rate == UNUSABLE {
        ANCHOR.set(Anchor::NONE);
        return clock();
    }
    if rate == 0 {
        return measure();
    }
    let Some(sample) = Sample::take() else { return clock() };
    if ANCHOR.get().is_behind(sample) {
        RATE.store(UNUSABLE, Ordering::Relaxed);
        ANCHOR.set(Anchor::NONE);
        return sample.after;
    }
    let anchor = Anchor::new(sample, rate);
    ANCHOR.set(anchor);
    anchor.at
}

/// Asks the system for the time, and continues to measure the rate.
fn measure() -> Nanos {
    let now = clock();
    if now < MEASURE_AT.load(Ordering::Relaxed) {
        return now;
    }
    let Some(sample) = Sample::take() else { return clock() };
    if let Ok(mut measurement) = MEASUREMENT.try_lock() {
        measurement.add(sample);
    }
    sample.after
}

impl Sample {
    /// Reads counter and clock together; `None` if the thread was interrupted meanwhile.
    fn take() -> Option<Self> {
        let before = clock();
        let count = read_counter();
        let after = clock();
        (after - before <= MAX_SLACK).then_some(Self { before, count, after })
    }
}

impl Measurement {
    /// Ends a window and begins the next. Publishes the rate when two windows agree.
    fn add(&mut self, sample: Sample) {
        if self.start.is_none() && !is_trusted() {
            RATE.store(UNUSABLE, Ordering::Relaxed);
            return;
        }
        let rate = self.start.and_then(|start| rate_between(start, sample));
        if let (Some(one), Some(other)) = (self.rate, rate)
            && one.abs_diff(other) <= one / AGREEMENT
        {
            let rate = one.max(other);
            RATE.store(round_up(rate), Ordering::Relaxed);
            return;
        }
        self.rate = rate;
        self.start = Some(sample);
        MEASURE_AT.store(sample.after + MIN_WINDOW, Ordering::Relaxed);
    }
}

/// A rate that is not lower than the counter's is at any speed of the clock.
fn round_up(rate: u64) -> u64 {
    rate + rate / RATE_MARGIN + 1
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

/// Returns `true` if the counter advances at a constant rate, also while the processor sleeps, and
/// is the same on all processors. Linux withdraws it as a source of time when they differ.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(tickwheel_loom, miri))))]
fn is_trusted() -> bool {
    use core::arch::x86_64::__cpuid;
    use std::io::Read;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    // Scheduling allocates nothing, so this is not read into a `String`.
    let mut sources = [0; 256];
    let read = std::fs::File::open(SOURCES).and_then(|mut file| file.read(&mut sources));
    __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT
        && __cpuid(POWER_MANAGEMENT).edx & 1 << 8 != 0
        && read.is_ok_and(|len| lists_counter(&sources[..len]))
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(any(tickwheel_loom, miri)))))]
fn is_trusted() -> bool {
    false
}

/// Returns `true` if the counter is among a system's sources of time.
#[cfg_attr(
    any(not(target_os = "linux"), tickwheel_loom, miri),
    allow(dead_code, reason = "only Linux has such a list, and models do not read it")
)]
fn lists_counter(sources: &[u8]) -> bool {
    sources.split(u8::is_ascii_whitespace).any(|source| source == b"tsc")
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
                            let before = clock();
                            let reading = now_or_later();
                            let after = clock();
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

    #[test]
    fn a_counter_that_the_system_has_withdrawn_is_not_used() {
        assert!(lists_counter(b"tsc kvm-clock \n") && lists_counter(b"tsc"));
        assert!(!lists_counter(b"hpet acpi_pm \n") && !lists_counter(b"tsc-early"));
    }

    proptest! {
        /// A counter of any frequency, and a clock whose speed the system changes: by up to 100,500
        /// in a million, one way while the rate is measured and another while it is used.
        #[test]
        fn an_anchor_is_never_behind(
            mega_hertz in 200..8_000_u64,
            measured_speed in 899_500..1_100_500_u64,
            speed in 899_500..1_100_500_u64,
            slacks in prop::collection::vec(0..MAX_SLACK, 3),
            elapsed in 0..ANCHOR_LIFE,
        ) {
            // The clock's time since the start is the true one times its speed.
            let clock_at = |time: Nanos, speed: u64| time * speed / 1_000_000;
            let count_at = |time: Nanos| time * mega_hertz / 1_000;
            let start = 5_000_000;
            let sample = |time: Nanos, slack: Nanos| {
                let at = start + clock_at(time, measured_speed);
                Sample { before: at - slack / 2, count: count_at(time), after: at + slack / 2 }
            };
            let window = 2 * MIN_WINDOW;
            let measured = rate_between(sample(0, slacks[0]), sample(window, slacks[1]));
            let measured = measured.expect("the window is long enough");
            let now = sample(2 * window, slacks[2]);
            let anchor = Anchor::new(now, round_up(measured));
            let counts = count_at(2 * window + elapsed) - now.count;
            prop_assume!(counts < anchor.life);
            let clock = start + clock_at(2 * window, measured_speed) + clock_at(elapsed, speed);
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
