//! Adapters for other crates: hyper, quinn and tower wait on a [`Timer`].
//!
//! Each adapter is behind a feature with the name of its crate, and none is on by default.
//!
//! * `hyper`: a [`Timer`] is a `hyper::rt::Timer`. Pass a clone to the builder of a server or a
//!   client, and its timeouts wait on the wheel:
//!   `http1::Builder::new().timer(timer.clone()).header_read_timeout(limit)`.
//! * `quinn`: module `quinn` runs a QUIC endpoint on any quinn runtime, with the timers of its
//!   connections on the wheel.
//! * `tower`: module `tower` has a layer that limits the time of a request, and a layer that
//!   limits the rate of requests with a [`Pacer`](crate::pace::Pacer).
//!
//! The adapters use the public interface of the library, with one exception: hyper and quinn ask
//! their timer for the present, which must be that of the timer's clock.

#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "tower")]
pub mod tower;

#[cfg(any(feature = "hyper", feature = "quinn"))]
use std::time::Instant;

use crate::Timer;

/// Returns the present by the timer's clock, which may be a [`ManualClock`](crate::ManualClock).
#[cfg(any(feature = "hyper", feature = "quinn"))]
fn now(timer: &Timer) -> Instant {
    let clock = timer.core().clock();
    clock.instant(clock.now()).unwrap_or_else(Instant::now)
}
