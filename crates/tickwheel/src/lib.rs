//! Timing-wheel timers: schedule, cancel and reset millions of timeouts, O(1) each.
//!
//! A [`Timer`] runs tasks at their deadlines. It starts a thread with the first task, and that thread
//! sleeps until the next deadline: it does not wake up for empty ticks.
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```ignore")]
//! use std::time::Duration;
//! use tickwheel::Timer;
//!
//! let timer = Timer::new();
//! let reminder = timer.after(Duration::from_secs(60), || println!("time is up"))?;
//! timer.key("order-42").after(Duration::from_secs(1800), || println!("close order 42"))?;
//! timer.every(Duration::from_secs(5), || println!("still here"))?;
//! reminder.reset(Duration::from_secs(90));
//! timer.cancel("order-42");
//! # Ok::<(), tickwheel::ScheduleError>(())
//! ```
//!
//! Async code uses the same timer, on any runtime: [`Timer::sleep`], [`Timer::timeout`],
//! [`Timer::interval`], and [`DelayQueue`], whose items come out when they are due.
//!
#![cfg_attr(feature = "async", doc = "```")]
#![cfg_attr(not(feature = "async"), doc = "```ignore")]
//! use std::time::Duration;
//! use tickwheel::{Elapsed, Timer};
//!
//! async fn answer(timer: &Timer) -> Result<u32, Elapsed> {
//!     let work = async {
//!         timer.sleep(Duration::from_millis(5)).await;
//!         42
//!     };
//!     timer.timeout(Duration::from_secs(1), work).await
//! }
//! # assert_eq!(futures::executor::block_on(answer(&Timer::new())), Ok(42));
//! ```
//!
//! The timer is built on timing wheels, which can also be used on their own: see [`wheel`].
//!
//! # Features
//!
//! * `std`, on by default: the timer. Its only dependency is `tracing`.
//! * `async`, on by default: futures and the delay queue. It needs no runtime and no dependency.
//! * `pace`, on by default: pacing (module [`pace`]). It needs no dependency.
//! * `cron`: tasks by the calendar (module `cron`) with `croner` and `jiff`. It brings a database of
//!   time zones along.
//! * `stream`: intervals and delay queues as a `Stream`, by way of `futures-core`.
//! * `hyper`, `quinn`, `tower`: timeouts of these crates on a [`Timer`] (module `integration`).
//!
//! Without default features the crate is the wheels alone, `no_std` with `alloc`, and has no
//! dependency.
#![no_std]
// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod wheel;

#[cfg(feature = "cron")]
pub mod cron;

#[cfg(feature = "pace")]
pub mod pace;
#[cfg(feature = "std")]
mod timer;
#[cfg(feature = "std")]
pub use timer::*;

#[cfg(feature = "async")]
mod future;
#[cfg(feature = "async")]
pub use future::*;

#[cfg(any(feature = "hyper", feature = "quinn", feature = "tower"))]
pub mod integration;

/// The examples of the crate's README, as tests. Those of the repository's README, which is not part
/// of the package, are tested by `integrations/`.
#[cfg(all(doctest, feature = "async", feature = "cron", feature = "pace"))]
#[doc = include_str!("../README.md")]
mod readme {}
