//! The end of a timer: `stop`, which hands back what is pending, and `drain`, which lets it run.
//!
//! Ground rule: the lock is held for moments. Under it the wheels are taken out as a whole; what
//! takes time for each task is done without it, or in steps.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, PoisonError};
use std::vec::Vec;

use super::clock::instant_now;
use super::names::Names;
use super::panics;
use super::record::Fate;
use super::shared::{Shared, drop_cancelled};
use super::state::{AnyWheel, Phase, State};
use super::sync::MutexGuard;
use super::unfired::Unfired;
use crate::wheel;

impl Shared {
    /// Takes the timer out of service and gives what is pending, by deadline. Handles will tell
    /// that `fate` of those tasks. What takes long is done without the lock.
    pub(super) fn end(self: &Arc<Self>, fate: Fate) -> Vec<Unfired> {
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return Vec::new();
        }
        state.phase = Phase::Stopped;
        self.closed.store(true, Ordering::Release);
        state.left = fate;
        let wheel = state.wheel.take();
        let mut names = state.names.take_all();
        let records = core::mem::take(&mut state.records);
        let wall = core::mem::take(&mut state.wall);
        let sleepers = state.sleepers.take();
        state.cancelled += sleepers.len() as u64;
        // Handles that ask from here on wait for the answer.
        let left = self.left();
        drop(state);
        self.leader.notify_all();
        self.guard.notify_all();
        self.idle.notify_all();
        self.ended.notify_all();
        let unfired = self.hand_back(wheel, &mut names, left, fate);
        drop((records, wall, names));
        self.wake_stopped(sleepers.into_wakers());
        #[cfg(feature = "pace")]
        self.tenants.tell(|tenant| tenant.timer_stopped());
        unfired
    }

    /// Makes a list of what was pending, by deadline, and notes the places for the handles.
    fn hand_back(
        &self,
        wheel: AnyWheel,
        names: &mut Names,
        mut left: MutexGuard<'_, Vec<wheel::Key>>,
        fate: Fate,
    ) -> Vec<Unfired> {
        let jobs = wheel.into_jobs();
        let plain = jobs.iter().filter(|due| due.value.record().is_none());
        *left = plain.map(|due| due.key).collect();
        left.shrink_to_fit();
        left.sort_unstable();
        drop(left);
        let unfired = jobs.into_iter().map(|due| {
            let job = due.value;
            if let Some(record) = job.record() {
                record.set_fate(fate);
            }
            let key = if job.is_named() { names.forget(due.key) } else { None };
            let at = due.deadline.saturating_mul(self.config.tick);
            Unfired::new(job, key, self.clock.instant(at), self.config.panic_hook.clone())
        });
        unfired.collect()
    }

    /// Waits until no task runs and no thread is left; `false` if that takes longer than `limit`.
    /// From inside a task of this timer there is nothing to wait for.
    pub(super) fn wait_ended(&self, limit: Duration) -> bool {
        let ended = |state: &State| state.running == 0 && state.threads.count() == 0;
        panics::is_inside(self) || self.wait(limit, ended)
    }

    /// Refuses new tasks and lets the pending ones run, for so long; periodic ones end.
    pub(super) fn drain(self: &Arc<Self>, limit: Duration) {
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return;
        }
        state.phase = Phase::Draining;
        self.closed.store(true, Ordering::Release);
        let mut unvisited = state.records.len();
        while unvisited > 0 {
            let cancelled = state.cancel_series(&mut unvisited);
            drop(state);
            for cancelled in cancelled {
                panics::catch(&self.config, || drop_cancelled(cancelled));
            }
            state = self.lock();
        }
        drop(state);
        #[cfg(feature = "pace")]
        self.tenants.tell(super::host::Tenant::timer_drains);
        if self.has_threads() && !panics::is_inside(self) {
            self.wait(limit, |state| {
                let busy = state.pending_tasks() + state.running + state.queued;
                state.phase == Phase::Stopped || busy == 0
            });
        }
    }

    fn wait(&self, limit: Duration, done: impl Fn(&State) -> bool) -> bool {
        let mut state = self.lock();
        let until = instant_now().checked_add(limit);
        while !done(&state) {
            let Some(until) = until else {
                state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(instant_now());
            if left.is_zero() {
                return false;
            }
            let woken = self.ended.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The places of the plain tasks that were pending when the timer was stopped. Waits while they
    /// are being written down.
    pub(super) fn left(&self) -> MutexGuard<'_, Vec<wheel::Key>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
