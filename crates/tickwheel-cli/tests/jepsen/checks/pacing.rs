//! A paced queue starts no more jobs in any window, and leases no more at once, than it allows.

/// The limits of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) starts: usize,
    pub(crate) window_ms: u64,
    pub(crate) concurrency: usize,
}

/// A delivery of a paced queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// When the lease began, by the owner's clock, which never runs backwards.
    pub(crate) owner_ms: u64,
    /// The time in which the lease was certainly live, by the test's clock.
    pub(crate) live_from: u64,
    pub(crate) live_until: u64,
}

/// Times are whole milliseconds, rounded up.
const ROUNDING_MS: u64 = 1;

pub(crate) fn check(starts: &[Start], limits: Limits) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut times: Vec<_> = starts.iter().map(|start| start.owner_ms).collect();
    times.sort_unstable();
    for (first, next) in times.iter().zip(times.iter().skip(limits.starts)) {
        if next - first + ROUNDING_MS < limits.window_ms {
            wrong.push(format!(
                "{} starts from {first} to {next}, and {} are allowed in {} ms",
                limits.starts + 1,
                limits.starts,
                limits.window_ms
            ));
        }
    }
    let mut changes: Vec<_> = starts
        .iter()
        .filter(|start| start.live_from < start.live_until)
        .flat_map(|start| [(start.live_from, 1_i64), (start.live_until, -1)])
        .collect();
    // A lease that ends at a moment is no longer live at that moment.
    changes.sort_unstable();
    let mut live = 0;
    for (at, change) in changes {
        live += change;
        if change > 0 && live > i64::try_from(limits.concurrency).unwrap_or(i64::MAX) {
            wrong.push(format!("{live} leases at {at}, and {} are allowed", limits.concurrency));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { starts: 2, window_ms: 1_000, concurrency: 2 };

    fn start(owner_ms: u64, live_from: u64, live_until: u64) -> Start {
        Start { owner_ms, live_from, live_until }
    }

    #[test]
    fn starts_within_the_limits_pass() {
        let starts = [start(0, 0, 10), start(1, 0, 20), start(1_000, 20, 30), start(1_001, 20, 40)];
        assert_eq!(check(&starts, LIMITS), Vec::<String>::new());
    }

    #[test]
    fn a_full_window_is_detected() {
        let starts = [start(900, 0, 0), start(0, 0, 0), start(500, 0, 0)];
        assert!(check(&starts, LIMITS)[0].contains("3 starts from 0 to 900"));
    }

    #[test]
    fn too_many_leases_are_detected() {
        let starts = [start(0, 0, 100), start(1_000, 10, 100), start(2_000, 20, 30)];
        assert_eq!(check(&starts, LIMITS), ["3 leases at 20, and 2 are allowed"]);
    }
}
