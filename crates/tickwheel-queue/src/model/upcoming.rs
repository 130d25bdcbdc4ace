//! How many waiting jobs become due when.

use std::sync::Arc;

/// How many jobs of a queue wait until when. See [`Queues::count_due`](crate::Queues::count_due).
///
/// ```
/// use tickwheel_queue::DueCount;
/// let count = DueCount { queue: "mail".into(), counts: vec![2, 0, 5] };
/// assert_eq!(count.counts.iter().sum::<u64>(), 7);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueCount {
    /// The queue.
    pub queue: Arc<str>,
    /// For each of the given times the jobs that are due at that time or earlier, and after the time
    /// before it; at the end those that are due later.
    pub counts: Vec<u64>,
}
