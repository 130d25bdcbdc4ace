//! A process with more than 64 live timers is told so, once. Alone in its process, because the
//! count is that of the process.

use std::sync::atomic::{AtomicUsize, Ordering};

use tickwheel::Timer;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static WARNINGS: AtomicUsize = AtomicUsize::new(0);

/// Counts warnings and leaves the rest.
struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        WARNINGS.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn the_sixty_fifth_live_timer_is_worth_one_warning() {
    tracing::subscriber::set_global_default(Warnings).unwrap();
    for _ in 0..100 {
        drop(Timer::new());
    }
    let mut timers: Vec<_> = (0..64).map(|_| Timer::new()).collect();
    assert_eq!(WARNINGS.load(Ordering::Relaxed), 0, "64 at a time are not many");
    timers.extend((0..10).map(|_| Timer::new()));
    assert_eq!(WARNINGS.load(Ordering::Relaxed), 1, "more are, and one warning is enough");
}
