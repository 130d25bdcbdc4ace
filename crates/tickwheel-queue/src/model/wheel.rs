//! The timing wheel of the queues, as counts.

use crate::model::time::Time;

/// What the timing wheel holds: how many jobs become ready, and how many leases expire, in the time
/// that each slot spans.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// for _ in 0..3 {
///     queues.put(NewJob::new("mail", "").delay(Duration::from_secs(60))).wait()?;
/// }
/// queues.put(NewJob::new("mail", "").delay(Duration::from_secs(86_400))).wait()?;
/// let wheel = queues.wheel().wait()?;
/// let on_wheel: u64 = wheel.levels.iter().flat_map(|level| &level.slots).map(|it| it.jobs).sum();
/// assert_eq!((on_wheel, wheel.beyond), (3, 1));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WheelInfo {
    /// The time of the wheel. A tick is a millisecond.
    pub now: Time,
    /// The levels from the innermost outward; outer ones that hold nothing are left out.
    pub levels: Vec<WheelLevel>,
    /// Jobs in memory that left the wheel because they are due.
    pub ready: u64,
    /// Waiting jobs that are on disk only: beyond the horizon, or without room in memory.
    pub beyond: u64,
}

/// One level of the timing wheel. See [`WheelInfo`] for an example.
///
/// ```
/// use tickwheel_queue::{Queues, WheelLevel};
/// let wheel = Queues::in_memory().wheel().wait()?;
/// let inner: &WheelLevel = &wheel.levels[0];
/// assert_eq!((inner.slot_ms, inner.slot_count), (1, 256));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WheelLevel {
    /// The number of its slots.
    pub slot_count: u32,
    /// How many milliseconds a slot spans.
    pub slot_ms: u64,
    /// The slot in which the wheel's time is.
    pub position: u32,
    /// When slot 0 begins.
    pub start: Time,
    /// The slots that hold something, in order.
    pub slots: Vec<WheelSlot>,
}

/// A slot of the timing wheel that holds something. See [`WheelInfo`] for an example.
///
/// ```
/// use tickwheel_queue::WheelSlot;
/// assert_eq!(WheelSlot::default().jobs, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WheelSlot {
    /// The number of the slot in its level.
    pub slot: u32,
    /// Jobs that become ready.
    pub jobs: u64,
    /// Leases that expire.
    pub leases: u64,
}
