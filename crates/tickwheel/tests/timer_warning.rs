//! The log messages of the library, with a subscriber that uses Tickwheel itself. The test needs a
//! process of its own, because the count of live timers and the subscriber are global.

mod patience;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use patience::in_time;
use tickwheel::{ScheduleError, Timer};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static WARNINGS: AtomicUsize = AtomicUsize::new(0);
static ERRORS: AtomicUsize = AtomicUsize::new(0);
/// A timer that cannot start its thread.
static THREADLESS: OnceLock<Timer> = OnceLock::new();

/// Counts warnings and errors, and schedules a task for each of them.
struct Scheduling;

impl Subscriber for Scheduling {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() == Level::WARN {
            WARNINGS.fetch_add(1, Ordering::Relaxed);
            tickwheel::after(Duration::ZERO, || {}).unwrap();
        } else {
            ERRORS.fetch_add(1, Ordering::Relaxed);
            let refused = THREADLESS.get().unwrap().after(Duration::ZERO, || {});
            assert!(matches!(refused, Err(ScheduleError::Thread(_))));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_may_use_the_timers_that_log() {
    tracing::subscriber::set_global_default(Scheduling).unwrap();
    for _ in 0..100 {
        drop(Timer::new());
    }
    let mut timers: Vec<_> = (0..64).map(|_| Timer::new()).collect();
    assert_eq!(WARNINGS.load(Ordering::Relaxed), 0, "64 at a time are not many");
    in_time("the process-wide timer is the sixty-fifth", || tickwheel::cancel("none"));
    timers.extend((0..10).map(|_| Timer::new()));
    assert_eq!(WARNINGS.load(Ordering::Relaxed), 1, "more are, and one warning is enough");

    let hook = |_| Err(std::io::Error::other("no more threads"));
    THREADLESS.set(Timer::builder().thread_hook(hook).build().unwrap()).unwrap();
    in_time("a thread that cannot be started", || {
        let refused = THREADLESS.get().unwrap().after(Duration::ZERO, || {});
        assert!(matches!(refused, Err(ScheduleError::Thread(_))));
    });
    assert_eq!(ERRORS.load(Ordering::Relaxed), 1, "what the subscriber caused is not logged");
}
