//! A lane: one key with its queue, its recent starts and its settings.

use std::boxed::Box;
use std::sync::Arc;

use super::engine::Now;
use super::limit::{Log, Rate};
use super::permit::Start;
use super::queue::{List, Queue, Stage, Submissions};
use crate::timer::Nanos;
use crate::wheel;

pub(super) struct Lane<K> {
    pub(super) key: K,
    /// Bits of the key's hash, by which the index finds the lane.
    pub(super) hash: u32,
    /// Whether the lane is in the list of those that may start a task now.
    pub(super) is_ready: bool,
    /// Open starts: released, and not seen to begin yet.
    open: List,
    /// Released tasks that have not ended, and permits that are held.
    pub(super) running: u32,
    pub(super) queue: Queue,
    log: Log,
    settings: Option<Box<Settings>>,
    /// The tick at which the wheel has the lane checked, and its key there; `u64::MAX` if it is
    /// not in the wheel.
    pub(super) check_at: u64,
    pub(super) wheel_key: wheel::Key,
}

/// What a caller has set for one key alone.
#[derive(Default)]
struct Settings {
    rate: Option<Rate>,
    held_until: Nanos,
    paused: bool,
}

/// What a lane waits for.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Outlook {
    /// For this time, at which it may start a task.
    Start(Nanos),
    /// For a call: it is paused, or as many tasks run as may.
    Held,
    /// For a task. It can be forgotten at this time if none comes.
    Idle(Nanos),
}

impl<K> Lane<K> {
    pub(super) fn new(key: K, hash: u32) -> Self {
        Self {
            key,
            hash,
            is_ready: false,
            open: List::EMPTY,
            running: 0,
            queue: Queue::new(),
            log: Log::new(),
            settings: None,
            check_at: u64::MAX,
            wheel_key: wheel::Key { index: 0, generation: 0 },
        }
    }

    /// Returns the lane's own rate, or else the common one.
    #[inline]
    fn rate<'a>(&'a self, common: &'a Rate) -> &'a Rate {
        self.settings.as_ref().and_then(|settings| settings.rate.as_ref()).unwrap_or(common)
    }

    pub(super) fn has_own_rate(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.rate.is_some())
    }

    #[inline]
    fn held_until(&self) -> Nanos {
        self.settings.as_ref().map_or(0, |settings| settings.held_until)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.paused)
    }

    fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.take().unwrap_or_default();
        change(&mut settings);
        let matters = settings.rate.is_some() || settings.paused || settings.held_until > 0;
        self.settings = matters.then_some(settings);
    }

    pub(super) fn set_paused(&mut self, paused: bool) {
        self.set(|settings| settings.paused = paused);
    }

    /// Lets nothing start before `time`. Of several calls the latest time counts.
    pub(super) fn hold_until(&mut self, time: Nanos) {
        self.set(|settings| settings.held_until = settings.held_until.max(time));
    }

    /// Gives the lane a rate of its own, or the common one.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>) {
        self.set(|settings| settings.rate = rate);
    }

    /// Removes the starts that have left the window of the current rate, before the rate changes.
    pub(super) fn close_rate(&mut self, tasks: &mut Submissions, common: &Rate, now: Nanos) {
        self.log_begun(tasks, common);
        self.forget_starts(common, now);
    }

    fn forget_starts(&mut self, common: &Rate, now: Nanos) {
        let window = self.rate(common).window;
        self.log.forget(now, window);
    }

    /// Adds an open start.
    #[inline]
    pub(super) fn release(&mut self, tasks: &mut Submissions, task: u32) {
        self.open.push(tasks, task);
        self.running += 1;
    }

    /// Removes an open start, and logs it if it has begun.
    #[inline]
    pub(super) fn close(
        &mut self,
        tasks: &mut Submissions,
        task: u32,
        began: Option<Nanos>,
        common: &Rate,
    ) {
        self.open.remove(tasks, task);
        if let Some(time) = began {
            self.log_start(time, common);
        }
    }

    /// Logs a start, and removes those that have left the window.
    #[inline]
    pub(super) fn log_start(&mut self, time: Nanos, common: &Rate) {
        self.log.add(time);
        self.forget_starts(common, time);
    }

    /// Logs the open starts that have begun by now.
    fn log_begun(&mut self, tasks: &mut Submissions, common: &Rate) {
        let open = self.open;
        open.each(tasks, |tasks, task| {
            let Stage::Open(start) = &tasks[task].stage else { return };
            if let Some(time) = start.time() {
                // The start that is dropped here holds no waker: the future took it to begin.
                tasks[task].stage = Stage::Begun;
                self.close(tasks, task, Some(time), common);
            }
        });
    }

    /// Visits the open starts.
    pub(super) fn each_open(&self, tasks: &mut Submissions, mut visit: impl FnMut(&Arc<Start>)) {
        self.open.each(tasks, |tasks, task| {
            if let Stage::Open(start) = &tasks[task].stage {
                visit(start);
            }
        });
    }

    /// Returns the time from which the rate and `retry_after` allow a start.
    #[inline]
    pub(super) fn earliest(
        &mut self,
        tasks: &mut Submissions,
        common: &Rate,
        now: &Now<'_>,
    ) -> Nanos {
        let rate = *self.rate(common);
        let is_full = self.log.len() + self.open.len() >= rate.starts;
        if self.open.len() > 0 && (rate.gap > 0 || is_full) {
            self.log_begun(tasks, common);
        }
        let by_rate = self.log.earliest(&rate, self.open.len(), || now.get());
        by_rate.max(self.held_until())
    }

    #[inline]
    pub(super) fn outlook(
        &mut self,
        tasks: &mut Submissions,
        common: &Rate,
        max_running: usize,
        now: &Now<'_>,
    ) -> Outlook {
        if !self.queue.is_empty() {
            if self.is_paused() || self.running as usize >= max_running {
                return Outlook::Held;
            }
            return Outlook::Start(self.earliest(tasks, common, now));
        }
        if self.running > 0 || self.is_paused() || self.has_own_rate() {
            return Outlook::Held;
        }
        let empty = self.log.latest().map_or(0, |latest| latest.saturating_add(common.window));
        Outlook::Idle(empty.max(self.held_until()))
    }

    /// Returns when the task is expected to start that has `ahead` others ahead of it; `None`
    /// while the lane is paused.
    pub(super) fn expected(
        &mut self,
        tasks: &mut Submissions,
        common: &Rate,
        ahead: usize,
        now: Nanos,
    ) -> Option<Nanos> {
        self.log_begun(tasks, common);
        let from = now.max(self.held_until());
        let rate = self.rate(common);
        let time = || self.log.expected(rate, self.open.len(), ahead, now, from);
        (!self.is_paused()).then(time)
    }

    pub(super) fn memory_usage(&self) -> usize {
        let settings = self.settings.as_ref().map_or(0, |_| size_of::<Settings>());
        self.queue.memory_usage() + self.log.memory_usage() + settings
    }
}
