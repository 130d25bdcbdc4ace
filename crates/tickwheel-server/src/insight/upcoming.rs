//! How many waiting jobs become due in the next minute, hour, day, 30 days, and later.
//!
//! Counting walks the index of waiting jobs, which takes seconds for millions of them. So jobs are
//! counted only while a client asks for them, in at most a fiftieth of the time of one reading thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tickwheel_queue::Time;
use tokio::sync::watch;

use crate::api::Upcoming;
use crate::app::App;

/// After a count, this many times its duration pass before the next one.
const REST: u32 = 50;
/// The shortest time between two counts.
const MIN_REST: Duration = Duration::from_secs(1);
/// A count that took at most this long before is worth waiting for.
const SHORT: Duration = Duration::from_millis(50);
/// How long an answer waits for a count.
const PATIENCE: Duration = Duration::from_millis(250);
/// The ends of the ranges, as seen from the present.
const RANGES_S: [u64; 5] = [0, 60, 3_600, 86_400, 30 * 86_400];

/// The counts of each queue.
pub(super) type Counted = Arc<HashMap<Arc<str>, Upcoming>>;

pub(super) struct DueCounts {
    /// The last count.
    counted: watch::Sender<Option<Counted>>,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    is_counting: bool,
    /// When the next count may begin.
    next: Option<Instant>,
    /// How long the last count took.
    took: Option<Duration>,
}

impl Default for DueCounts {
    fn default() -> Self {
        Self { counted: watch::Sender::new(None), plan: Mutex::default() }
    }
}

impl DueCounts {
    /// Returns the last count, and begins a new one if it is time.
    pub(super) async fn get(&self, app: &App) -> Option<Counted> {
        let mut counted = self.counted.subscribe();
        counted.mark_unchanged();
        let is_worth_waiting = {
            let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
            let is_time = plan.next.is_none_or(|next| next <= Instant::now());
            if is_time && !plan.is_counting {
                plan.is_counting = true;
                tokio::spawn(count(app.clone()));
            }
            plan.is_counting && plan.took.is_none_or(|took| took <= SHORT)
        };
        if is_worth_waiting {
            let _ = tokio::time::timeout(PATIENCE, counted.changed()).await;
        }
        counted.borrow().clone()
    }

    fn finish(&self, counted: Option<Counted>, took: Duration) {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        plan.is_counting = false;
        plan.took = Some(took);
        plan.next = Some(Instant::now() + (took * REST).max(MIN_REST));
        drop(plan);
        self.counted.send_replace(counted);
    }
}

async fn count(app: App) {
    let began = Instant::now();
    let now_ms = app.now().as_millis();
    let times = RANGES_S.map(|seconds| Time::from_millis(now_ms.saturating_add(seconds * 1_000)));
    let counting = app.queues().count_due(times);
    let counts = tokio::select! {
        counts = counting => counts,
        () = app.shutdown().begun() => return,
    };
    let counted = counts.ok().map(|counts| {
        let upcoming = |counts: &[u64]| {
            let of = |range: usize| counts.get(range).copied().unwrap_or_default();
            Upcoming {
                at_ms: now_ms,
                ready: of(0),
                minute: of(1),
                hour: of(2),
                day: of(3),
                month: of(4),
                later: of(5),
            }
        };
        counts.iter().map(|count| (Arc::clone(&count.queue), upcoming(&count.counts))).collect()
    });
    app.insight().due.finish(counted.map(Arc::new), began.elapsed());
}
