//! What a pacer knows of one key: its queue, its latest starts, and what was said about it alone.

use std::boxed::Box;
#[cfg(feature = "async")]
use std::sync::Arc;

use super::limit::{Log, Rate};
use super::now::Now;
use super::queue::{List, Queue, Tasks, Work};
#[cfg(feature = "async")]
use super::start::Start;
use crate::timer::Nanos;
use crate::wheel;

pub(super) struct Lane<K> {
    pub(super) key: K,
    /// Bits of the key's hash, by which the index finds the lane.
    pub(super) tag: u32,
    /// Whether the lane is in the list of those that may start a task at once.
    pub(super) is_ready: bool,
    /// Starts that were let go, and are not in the log yet.
    open: List,
    /// Tasks that were let go and have not ended, and permits that are held.
    pub(super) running: u32,
    pub(super) queue: Queue,
    log: Log,
    settings: Option<Box<Settings>>,
    /// The tick at which the lane is to be looked at, and its place in the wheel;
    /// `u64::MAX` if it has none.
    pub(super) look_at: u64,
    pub(super) place: wheel::Key,
}

/// What was said about one key alone.
#[derive(Default)]
struct Settings {
    rate: Option<Rate>,
    held_until: Nanos,
    paused: bool,
}

/// What a lane waits for.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Outlook {
    /// May start a task at this time, and not before.
    Start(Nanos),
    /// Is busy with what runs, or paused: somebody will tell.
    Held,
    /// Has no task, and can be forgotten at this time if none comes.
    Idle(Nanos),
}

impl<K> Lane<K> {
    pub(super) fn new(key: K, tag: u32) -> Self {
        Self {
            key,
            tag,
            is_ready: false,
            open: List::EMPTY,
            running: 0,
            queue: Queue::new(),
            log: Log::new(),
            settings: None,
            look_at: u64::MAX,
            place: wheel::Key { index: 0, generation: 0 },
        }
    }

    /// The rate that applies, given the one for keys about which nothing was said.
    #[inline]
    pub(super) fn rate<'a>(&'a self, common: &'a Rate) -> &'a Rate {
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

    /// Holds the lane, at least until then.
    pub(super) fn hold_until(&mut self, time: Nanos) {
        self.set(|settings| settings.held_until = settings.held_until.max(time));
    }

    /// Gives the lane a rate of its own, or the common one.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>) {
        self.set(|settings| settings.rate = rate);
    }

    /// Forgets starts that have left the window, before there is another rate.
    pub(super) fn close_rate(&mut self, tasks: &mut Tasks, common: &Rate, now: Nanos) {
        self.close_begun(tasks, common);
        self.forget_starts(common, now);
    }

    fn forget_starts(&mut self, common: &Rate, now: Nanos) {
        let window = self.rate(common).window;
        self.log.forget(now, window);
    }

    /// Lets a task go.
    #[inline]
    pub(super) fn let_go(&mut self, tasks: &mut Tasks, task: u32) {
        self.open.push(tasks, task);
        self.running += 1;
    }

    /// An open start has begun; or never will, and is given back.
    #[inline]
    pub(super) fn close(
        &mut self,
        tasks: &mut Tasks,
        task: u32,
        began: Option<Nanos>,
        common: &Rate,
    ) {
        self.open.remove(tasks, task);
        if let Some(time) = began {
            self.note(time, common);
        }
    }

    /// Notes a start, and forgets those that have left the window.
    #[inline]
    pub(super) fn note(&mut self, time: Nanos, common: &Rate) {
        self.log.add(time);
        self.forget_starts(common, time);
    }

    /// Looks which open starts have begun meanwhile.
    fn close_begun(&mut self, tasks: &mut Tasks, common: &Rate) {
        let open = self.open;
        open.each(tasks, |tasks, task| {
            let Work::Open(start) = &tasks[task].work else { return };
            if let Some(time) = start.time() {
                // What is dropped here has no waker in it: who began has taken it out.
                tasks[task].work = Work::Begun;
                self.close(tasks, task, Some(time), common);
            }
        });
    }

    /// The open starts.
    #[cfg(feature = "async")]
    pub(super) fn each_open(&self, tasks: &mut Tasks, mut open: impl FnMut(&Arc<Start>)) {
        self.open.each(tasks, |tasks, task| {
            if let Work::Open(start) = &tasks[task].work {
                open(start);
            }
        });
    }

    /// From when on the window, and the partner, allow a start.
    #[inline]
    pub(super) fn earliest(&mut self, tasks: &mut Tasks, common: &Rate, now: &Now<'_>) -> Nanos {
        let rate = *self.rate(common);
        if self.open.len() > 0 && (rate.gap > 0 || self.log.len() + self.open.len() >= rate.starts)
        {
            self.close_begun(tasks, common);
        }
        let by_rate = self.log.earliest(&rate, self.open.len(), || now.get());
        by_rate.max(self.held_until())
    }

    /// What the lane waits for.
    #[inline]
    pub(super) fn outlook(
        &mut self,
        tasks: &mut Tasks,
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
        if self.running > 0 {
            return Outlook::Held;
        }
        if self.is_paused() || self.has_own_rate() {
            return Outlook::Held;
        }
        let empty = self.log.latest().map_or(0, |latest| latest.saturating_add(common.window));
        Outlook::Idle(empty.max(self.held_until()))
    }

    /// When the task is expected to start that has so many ahead of it; `None` while the lane is
    /// paused.
    pub(super) fn expected(
        &mut self,
        tasks: &mut Tasks,
        common: &Rate,
        ahead: usize,
        now: Nanos,
    ) -> Option<Nanos> {
        self.close_begun(tasks, common);
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
