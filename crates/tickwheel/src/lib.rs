//! Timing-wheel timers: schedule, cancel and reset millions of timeouts, O(1) each.
//!
//! ```
//! use tickwheel::wheel::HierarchicalWheel;
//!
//! let mut wheel = HierarchicalWheel::new();
//! let order = wheel.insert(30 * 60 * 1000, "close order 42");   // deadlines are ticks: any u64
//! wheel.insert(5_000, "ping");
//! wheel.reset(order, 40 * 60 * 1000);                           // the customer asked for time
//! while let Some(due) = wheel.pop_due(6_000) {                  // it is 6 s now
//!     assert_eq!((due.deadline, due.value), (5_000, "ping"));
//! }
//! assert_eq!(wheel.next_wake(), Some(40 * 60 * 1000).map(|tick: u64| tick.min(wheel.next_wake().unwrap())));
//! ```
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod wheel;
