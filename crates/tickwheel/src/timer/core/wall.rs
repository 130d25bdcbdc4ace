//! Tasks that follow the wall clock: those for a `SystemTime`, and those with a [`Recurrence`].
//!
//! Such a task is in the wheel at the monotonic time that corresponds to its wall-clock deadline, as
//! far as the difference of the two clocks is known. While one is pending, the wall clock is read once
//! a second. When it was set, every task that follows it is moved.
//!
//! Ground rules:
//! * At most [`STEP`] tasks are moved before the lock is released for other threads. No task is taken
//!   out of the wheel before all are moved, so that the order of deadlines is kept.
//! * When a task with a [`Recurrence`] has missed its deadline, or the clock was set back, its rule is
//!   asked for another deadline. That may take long, so it is done without the lock, after all due
//!   tasks have started. The task stays pending meanwhile. If it is cancelled, reset or handed back
//!   during the call, the result is discarded.
//!
//! [`Recurrence`]: crate::timer::tasks::recurrence::Recurrence

use std::collections::VecDeque;
use std::sync::Arc;

use crate::timer::clock::{Clock, Nanos};
use crate::timer::core::state::State;
use crate::timer::tasks::record::{Fate, Record};

/// The interval at which the wall clock is read while a task follows it.
const CHECK_INTERVAL: Nanos = 1_000_000_000;
/// A smaller change of the wall clock, in nanoseconds, is not followed until a task is due.
const TOLERANCE: u128 = 1_000_000;
/// The maximum number of tasks that are moved before the lock is released.
pub(crate) const STEP: usize = 512;

/// The state of the wall clock, and the work left since it was set.
#[derive(Default)]
pub(crate) struct Wall {
    /// The number of pending tasks that follow the wall clock.
    followers: usize,
    /// The wall-clock time minus the monotonic time, when they were last read.
    offset: i128,
    /// The time of the next reading.
    check_at: Nanos,
    /// Records with a number below this one must still be moved.
    unmoved: u32,
    /// The time at which moving or revising was last resumed.
    resumed_at: Nanos,
    /// Whether the clock was set back, so that recurring tasks may be due earlier than before.
    set_back: bool,
    /// Tasks whose deadline their rule must revise.
    unrevised: VecDeque<Arc<Record>>,
}

impl Wall {
    pub(crate) fn has_followers(&self) -> bool {
        self.followers > 0
    }

    /// Returns the time since when tasks wait to be moved or revised. Work that was resumed counts as
    /// new, so that it does not delay due tasks of other shards.
    pub(crate) fn unfinished_since(&self) -> Option<Nanos> {
        let is_moving = self.has_followers() && self.unmoved > 0;
        (is_moving || !self.unrevised.is_empty()).then_some(self.resumed_at)
    }

    /// Returns the time at which the wall clock must be read again.
    pub(crate) fn check_at(&self) -> Nanos {
        self.check_at
    }

    fn read(&mut self, clock: &Clock, now: Nanos) -> i128 {
        self.check_at = match clock {
            // Whole seconds, so that all shards wake the leader at the same time.
            Clock::System { .. } => (now / CHECK_INTERVAL + 1) * CHECK_INTERVAL,
            // A manual clock reports when it is set.
            Clock::Manual(_) => Nanos::MAX,
        };
        i128::from(clock.wall()) - i128::from(now)
    }

    /// Lets a record follow the wall clock from now on.
    pub(crate) fn follow(&mut self, record: &Record) {
        if !record.follows_wall() {
            record.set_follows_wall(true);
            self.followers += 1;
        }
    }

    /// Ends that. Returns `false` if the record did not follow the wall clock.
    pub(crate) fn unfollow(&mut self, record: &Record) -> bool {
        let followed = record.follows_wall();
        if followed {
            record.set_follows_wall(false);
            self.followers -= 1;
        }
        followed
    }
}

impl State {
    /// Converts a wall-clock time to monotonic time, as far as the difference is known.
    pub(crate) fn wall_to_monotonic(&mut self, wall: Nanos, clock: &Clock) -> Nanos {
        if !self.wall.has_followers() {
            self.wall.offset = self.wall.read(clock, clock.now());
        }
        to_monotonic(wall, self.wall.offset)
    }

    /// Reads the wall clock if that is due, and moves tasks if it was set. Returns `true` if more tasks
    /// must be moved.
    pub(crate) fn follow_wall(&mut self, clock: &Clock, now: Nanos) -> bool {
        if !self.wall.has_followers() {
            return false;
        }
        let manual = matches!(clock, Clock::Manual(_));
        if manual || now >= self.wall.check_at {
            let offset = self.wall.read(clock, now);
            let change = (offset - self.wall.offset).unsigned_abs();
            // A manual clock is followed to the nanosecond.
            if change >= TOLERANCE || (manual && change > 0) {
                self.wall.set_back |= offset < self.wall.offset;
                self.wall.offset = offset;
                self.wall.unmoved = u32::MAX;
            }
        }
        let more = self.move_some();
        if more {
            self.wall.resumed_at = now;
        }
        more
    }

    /// Moves up to [`STEP`] tasks to their new monotonic deadlines. Returns `true` if there are more.
    fn move_some(&mut self) -> bool {
        for _ in 0..STEP {
            let Some(number) = self.records.place_before(self.wall.unmoved) else { break };
            self.wall.unmoved = number;
            let Some(record) = self.records.get(number) else { continue };
            if let Some(wall) = record.wall().filter(|_| record.follows_wall()) {
                let at = to_monotonic(wall, self.wall.offset);
                let tick = if at == Nanos::MAX { u64::MAX } else { at.div_ceil(self.tick) };
                record.set_due_at(at);
                self.wheel.reset(record.wheel_key(), tick);
                if self.wall.set_back && record.rule().is_some() {
                    self.wall.unrevised.push_back(Arc::clone(record));
                }
            }
        }
        let more = self.records.place_before(self.wall.unmoved).is_some();
        if !more {
            self.wall.unmoved = 0;
            self.wall.set_back = false;
        }
        more
    }

    /// Puts a task that missed its deadline back into the wheel, until its rule has computed another.
    pub(crate) fn revise_later(&mut self, record: &Arc<Record>) {
        self.place_at(record, Nanos::MAX);
        self.wall.follow(record);
        self.wall.unrevised.push_back(Arc::clone(record));
    }

    /// Returns a task whose rule must revise its deadline, and the current one.
    pub(crate) fn next_to_revise(&mut self, clock: &Clock) -> Option<(Arc<Record>, Nanos)> {
        loop {
            let record = self.wall.unrevised.pop_front()?;
            if self.wall.unrevised.is_empty() {
                self.wall.unrevised = VecDeque::new();
            }
            let pending = record.fate() == Fate::Pending && record.follows_wall();
            if let Some(due) = record.wall().filter(|_| pending) {
                self.wall.resumed_at = clock.now();
                return Some((record, due));
            }
        }
    }

    /// Moves a task to its revised deadline, if it still follows the wall clock with its old one.
    /// Returns the time at which a thread must wake up for it.
    pub(crate) fn apply_revised(
        &mut self,
        record: &Arc<Record>,
        due: Nanos,
        revised: Nanos,
        clock: &Clock,
    ) -> Option<Nanos> {
        let waits = record.fate() == Fate::Pending && record.follows_wall();
        if !waits || record.wall() != Some(due) {
            return None;
        }
        record.set_wall(revised);
        let at = self.wall_to_monotonic(revised, clock);
        record.set_due_at(at);
        let tick = self.tick_of(at);
        self.wheel.reset(record.wheel_key(), tick);
        Some(self.wake_time_of(record))
    }
}

/// Converts a wall-clock time to monotonic time, if the wall clock is ahead by `offset`.
fn to_monotonic(wall: Nanos, offset: i128) -> Nanos {
    if wall == Nanos::MAX {
        return Nanos::MAX;
    }
    let at = i128::from(wall) - offset;
    u64::try_from(at.max(0)).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::STEP;
    use crate::timer::clock::{Nanos, nanos};
    use crate::timer::core::state::Popped;
    use crate::timer::tasks::recurrence::Recurrence;
    use crate::timer::{ManualClock, Timeout, Timer};
    use core::time::Duration;
    use std::vec::Vec;

    const HOUR: Duration = Duration::from_hours(1);

    /// Sets the wall clock while another call appears to run the timer, so that nothing is moved yet.
    fn set_wall_quietly(clock: &ManualClock, timer: &Timer, time: std::time::SystemTime) {
        timer.core().shard(0).lock().turning = true;
        clock.set_wall(time);
        timer.core().shard(0).lock().turning = false;
    }

    /// Pops until all tasks are moved. Returns how often the lock would have been released.
    fn steps(timer: &Timer) -> usize {
        let pop = || timer.core().shard(0).lock().pop(timer.core().clock());
        core::iter::repeat_with(pop).take_while(|popped| matches!(popped, Popped::Yield)).count()
    }

    #[test]
    fn a_clock_that_is_set_moves_tasks_in_steps() {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(clock.clone()).build().unwrap();
        let count = 3 * STEP + 1;
        let tasks: Vec<_> =
            (0..count).map(|_| timer.at(clock.wall() + 2 * HOUR, || {}).unwrap()).collect();
        set_wall_quietly(&clock, &timer, clock.wall() + HOUR);
        assert!(matches!(timer.core().shard(0).lock().pop(timer.core().clock()), Popped::Yield));
        // Other threads take the lock in between.
        assert!(tasks[0].cancel() && tasks[count - 1].cancel());
        timer.at(clock.wall() + 2 * HOUR, || {}).unwrap();
        assert_eq!(steps(&timer), 2);
        assert_eq!((timer.pending(), timer.stats().fired), (count - 1, 0));
        assert!(tasks[1..count - 1].iter().all(|task| task.remaining() == Some(HOUR)));
        clock.set_wall(clock.wall() + HOUR);
        assert_eq!((timer.pending(), timer.stats().fired), (1, count as u64 - 2));
    }

    /// A thread that serves a shard looks for a more urgent one now and then. It comes back for the
    /// tasks that are not moved yet.
    #[test]
    fn tasks_that_are_not_moved_yet_make_a_shard_due() {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(clock.clone()).build().unwrap();
        for _ in 0..=STEP {
            timer.at(clock.wall() + 2 * HOUR, || {}).unwrap();
        }
        set_wall_quietly(&clock, &timer, clock.wall() + HOUR);
        let shard = timer.core().shard(0);
        assert!(matches!(shard.lock().pop(timer.core().clock()), Popped::Yield));
        shard.publish_next(&shard.lock());
        assert!(shard.next() <= timer.core().clock().now());
        assert_eq!(steps(&timer), 0);
        shard.publish_next(&shard.lock());
        assert!(shard.next() > timer.core().clock().now());
    }

    /// Runs at every full hour, and skips missed times.
    #[derive(Debug)]
    struct Hourly;

    impl Recurrence for Hourly {
        fn is_missed(&self, due: Nanos, now: Nanos) -> bool {
            due < now
        }

        fn start(&self, _due: Option<Nanos>, _now: Nanos) {}

        fn next(&self, now: Nanos) -> Nanos {
            let hour = nanos(HOUR);
            (now / hour + 1) * hour
        }

        fn revise(&self, due: Nanos, now: Nanos) -> Nanos {
            if due == now { due } else { self.next(now) }
        }
    }

    /// Returns a timer whose wall clock shows midnight, and starts a number of hourly tasks on it.
    fn hourly<const N: usize>() -> (ManualClock, Timer, [Timeout; N]) {
        let clock = ManualClock::new();
        clock.set_wall(std::time::UNIX_EPOCH);
        let timer = Timer::builder().clock(clock.clone()).build().unwrap();
        let start = |_| timer.recur(None, Hourly, nanos(HOUR), false, || {}).unwrap();
        let tasks = core::array::from_fn(start);
        (clock, timer, tasks)
    }

    /// Computing deadlines may take long. Tasks of other shards that become due meanwhile come first.
    #[test]
    fn revising_lets_other_shards_go_first() {
        let (clock, timer, _tasks) = hourly::<2>();
        clock.advance(HOUR / 2);
        set_wall_quietly(&clock, &timer, clock.wall() + HOUR * 5 / 2);
        assert_eq!(steps(&timer), 0);
        let shard = timer.core().shard(0);
        drop(shard.revise(shard.lock()));
        shard.publish_next(&shard.lock());
        assert_eq!(shard.next(), timer.core().clock().now(), "one is left, and waits since now");
        timer.turn();
        assert!(shard.next() > timer.core().clock().now());
    }

    #[test]
    fn a_deadline_is_revised_without_the_lock() {
        let (clock, timer, [skipped, cancelled, reset]) = hourly();
        set_wall_quietly(&clock, &timer, clock.wall() + HOUR * 5 / 2);
        assert_eq!(steps(&timer), 0);
        assert_eq!(timer.pending(), 3, "they are pending while their deadline is revised");
        assert!(cancelled.cancel() && reset.reset(HOUR / 4));
        timer.turn();
        assert_eq!((timer.pending(), timer.stats().fired), (2, 0));
        assert_eq!(skipped.remaining(), Some(HOUR / 2));
        assert_eq!(reset.remaining(), Some(HOUR / 4));
        // Back to before the first time: tasks that have not run are due earlier.
        clock.set_wall(std::time::UNIX_EPOCH);
        assert_eq!(skipped.remaining(), Some(HOUR));
        assert_eq!(reset.remaining(), Some(HOUR / 4));
        let unfired = timer.stop();
        assert_eq!(unfired.len(), 2);
    }
}
