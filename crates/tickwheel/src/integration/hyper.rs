//! A [`Timer`] as the timer of hyper's servers and clients.

use core::pin::Pin;
use core::time::Duration;
use std::boxed::Box;
use std::time::Instant;

use ::hyper::rt;

use crate::{Sleep, Timer};

/// Every timeout of a server or a client waits on this timer. Needs the feature `hyper`.
///
/// A manual clock decides for hyper too:
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// async fn back_off(timer: &dyn hyper::rt::Timer) {
///     timer.sleep(Duration::from_secs(30)).await;
/// }
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// futures::executor::block_on(async {
///     let mut waiting = Box::pin(back_off(&timer));
///     assert!(futures::poll!(&mut waiting).is_pending());
///     clock.advance(Duration::from_secs(30));
///     assert!(futures::poll!(&mut waiting).is_ready());
/// });
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Timer::sleep(self, duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Timer::sleep_until(self, deadline))
    }

    fn now(&self) -> Instant {
        super::now(self)
    }

    /// Moves the deadline of a [`Sleep`] without allocating. Replaces a sleep of another timer.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.get_mut().reset(new_deadline),
            None => *sleep = rt::Timer::sleep_until(self, new_deadline),
        }
    }
}

impl rt::Sleep for Sleep {}
