//! The pacer's task in the timer: its alarm rings, and tasks start.
//!
//! A turn starts one task after the other on its thread, for a short while. Before it calls a task
//! it sees to it that the alarm is set for whatever else there is to do, with the next tick at the
//! latest. So if the task blocks, another thread of the timer goes on from there, as it does for
//! every task that blocks; and if it does not, the alarm is set once for many tasks.

use core::mem;
use std::sync::Arc;

use super::PaceKey;
use super::now::Now;
use super::queue::Work;
use super::shared::Shared;
use super::start::Start;
use super::state::{Look, TaskRef};
use crate::timer::Nanos;

/// After so long, or so many tasks, the timer has its thread back: others are due as well.
const SLICE: Nanos = 500_000;
const BATCH: usize = 1024;

/// The alarm, as the timer holds it.
pub(super) struct Turn<K: PaceKey> {
    /// There until the turn has come.
    shared: Option<Arc<Shared<K>>>,
    id: u64,
}

impl<K: PaceKey> Turn<K> {
    pub(super) fn new(shared: Arc<Shared<K>>, id: u64) -> Self {
        Self { shared: Some(shared), id }
    }

    pub(super) fn run(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.turn(self.id);
        }
    }
}

impl<K: PaceKey> Drop for Turn<K> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.alarm_dropped(self.id);
        }
    }
}

/// A turn in which something of a caller's is being called: if that panics, it ends there.
struct Calling<'a, K: PaceKey> {
    shared: &'a Arc<Shared<K>>,
    /// The task that is called, unless it is somebody who is woken.
    task: Option<TaskRef>,
}

impl<K: PaceKey> Drop for Calling<'_, K> {
    fn drop(&mut self) {
        let now = Now::new(&self.shared.host);
        let mut state = self.shared.lock();
        if let Some(task) = self.task {
            state.finish(task.task, &now);
        }
        self.shared.leave_turn(state, &now);
    }
}

impl<K: PaceKey> Shared<K> {
    /// The alarm has rung.
    fn turn(self: &Arc<Self>, id: u64) {
        let start = Arc::new(Start::open());
        let began = self.host.now();
        let mut now = Now::since(&self.host, began);
        let mut state = self.lock();
        state.begin_turn(id);
        for _ in 0..BATCH {
            if !state.starts() {
                break;
            }
            start.open_again();
            match state.look(&now, &start) {
                Look::Nothing => break,
                Look::Again => {
                    self.leave_quietly(state, &now);
                    state = self.lock();
                }
                Look::Start(task, work) => {
                    self.leave_quietly(state, &now);
                    let called = self.begin(task, work, &start);
                    state = self.lock();
                    if let Some(time) = called {
                        now = Now::since(&self.host, time);
                        state.finish(task.task, &now);
                    }
                }
            }
            if now.at_least() - began > SLICE {
                break;
            }
        }
        self.leave_turn(state, &now);
    }

    /// Begins what was let go. If that is a closure it has ended afterwards, and the answer is when
    /// it began; a permit begins when its future takes it.
    fn begin(self: &Arc<Self>, task: TaskRef, work: Work, start: &Start) -> Option<Nanos> {
        match work {
            Work::Call(job) => {
                let calling = Calling { shared: self, task: Some(task) };
                // From here on nothing may hold the task up, as far as that is ours to say.
                let time = self.host.now();
                start.begin(time);
                job.call();
                // Its end is noted together with what follows.
                mem::forget(calling);
                Some(time)
            }
            #[cfg(feature = "async")]
            Work::Permit(awaited) => {
                let calling = Calling { shared: self, task: None };
                awaited.wake();
                mem::forget(calling);
                None
            }
            Work::Open(_) | Work::Begun | Work::HandedBack => None,
        }
    }
}
