//! Timing-wheel timers: schedule, cancel and reset millions of timeouts, O(1) each.
//!
//! A [`Timer`] runs tasks at their time. It starts a thread with the first task and sleeps until
//! the next deadline: nothing ticks.
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```ignore")]
//! use std::time::Duration;
//! use tickwheel::Timer;
//!
//! let timer = Timer::new();
//! let reminder = timer.after(Duration::from_secs(60), || println!("a minute later"))?;
//! timer.key("order-42").after(Duration::from_secs(1800), || println!("close order 42"))?;
//! timer.every(Duration::from_secs(5), || println!("still here"))?;
//! reminder.reset(Duration::from_secs(90));
//! timer.cancel("order-42");
//! # Ok::<(), tickwheel::ScheduleError>(())
//! ```
//!
//! Underneath are two timing wheels, which are of use by themselves: [`wheel`].
//!
//! # Features
//!
//! `std` is on by default and brings the timer. Without default features the crate is the wheels
//! alone, `no_std` with `alloc`, and has no dependency.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod wheel;

#[cfg(feature = "std")]
pub mod pace;
#[cfg(feature = "std")]
mod timer;
#[cfg(feature = "std")]
pub use timer::*;

/// The examples of the README, as tests.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../../../README.md")]
mod readme {}
