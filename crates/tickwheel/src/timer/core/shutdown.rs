//! The end of a timer: `stop`, which hands back pending tasks, and `drain`, which lets them run.
//!
//! Ground rule: locks are held only briefly. The wheels are taken out as a whole under the lock; work
//! that takes time per task is done without it, or in steps.

use core::time::Duration;
use std::sync::{Arc, PoisonError};
use std::vec::Vec;

use crate::timer::clock::instant_now;
use crate::timer::core::Core;
use crate::timer::core::any_wheel::AnyWheel;
use crate::timer::core::driver::Phase;
use crate::timer::core::shard::{Shard, drop_cancelled};
use crate::timer::core::sleepers::Sleepers;
use crate::timer::core::state::State;
use crate::timer::core::wall::Wall;
use crate::timer::execution::panics;
use crate::timer::execution::roster::Roster;
use crate::timer::keys::table::KeyTable;
use crate::timer::sync::MutexGuard;
use crate::timer::tasks::record::Fate;
use crate::timer::tasks::records::Records;
use crate::timer::tasks::unfired::Unfired;
use crate::wheel;

/// The contents of a shard whose timer was stopped.
struct Taken<'a> {
    shard: &'a Arc<Shard>,
    wheel: AnyWheel,
    keys: KeyTable,
    sleepers: Sleepers,
    /// Dropped after the locks are released: that may take long, or run user code.
    _rest: (Records, Wall),
}

/// The wheel keys of a shard's plain tasks, locked until they are collected: handles that ask for the
/// fate of a task wait for them.
type UnfiredKeys<'a> = MutexGuard<'a, Vec<wheel::Key>>;

impl Shard {
    /// Takes out everything that is pending. Handles will report `fate` for those tasks.
    fn close<'a>(
        self: &'a Arc<Self>,
        state: &mut State,
        fate: Fate,
    ) -> (Taken<'a>, UnfiredKeys<'a>) {
        state.phase = Phase::Stopped;
        state.fate_at_stop = fate;
        let wheel = state.wheel.take();
        let keys = state.keys.take_all();
        let records = core::mem::replace(&mut state.records, Records::new());
        let rest = (records, core::mem::take(&mut state.wall));
        let sleepers = state.sleepers.take();
        state.cancelled += sleepers.len() as u64;
        self.publish_next(state);
        (Taken { shard: self, wheel, keys, sleepers, _rest: rest }, self.unfired_keys())
    }
}

impl Taken<'_> {
    /// Returns the tasks in order of deadline, and records the wheel keys of plain ones for their
    /// handles.
    fn hand_back(&mut self, mut keys: UnfiredKeys<'_>, fate: Fate) -> Vec<(u64, Unfired)> {
        let driver = &self.shard.driver;
        let jobs = self.wheel.take().into_jobs();
        let plain = jobs.iter().filter(|due| due.value.record().is_none());
        *keys = plain.map(|due| due.key).collect();
        keys.shrink_to_fit();
        keys.sort_unstable();
        drop(keys);
        let unfired = jobs.into_iter().map(|due| {
            let job = due.value;
            if let Some(record) = job.record() {
                record.set_fate(fate);
            }
            let key = if job.has_key() { self.keys.forget(due.key) } else { None };
            let at = driver.clock.instant(due.deadline.saturating_mul(driver.config.tick));
            (due.deadline, Unfired::new(job, key, at, driver.config.panic_hook.clone()))
        });
        unfired.collect()
    }
}

impl Core {
    /// Stops the timer and returns its pending tasks in order of deadline. Handles will report `fate`
    /// for those tasks. Work that takes long is done without the locks.
    pub(crate) fn end(self: &Arc<Self>, fate: Fate) -> Vec<Unfired> {
        let driver = &self.driver;
        let mut roster = driver.roster();
        if roster.phase == Phase::Stopped {
            return Vec::new();
        }
        driver.set_phase(&mut roster, Phase::Stopped);
        // All shards are closed at one moment: after a call was refused, no other is accepted.
        let mut states = self.lock_all(&roster);
        let closed = self.shards().zip(&mut states).map(|(shard, state)| shard.close(state, fate));
        let (mut taken, keys): (Vec<_>, Vec<_>) = closed.unzip();
        drop(states);
        drop(roster);
        driver.leader.notify_all();
        driver.guard.notify_all();
        driver.idle.notify_all();
        driver.ended.notify_all();
        let listed =
            taken.iter_mut().zip(keys).flat_map(|(taken, keys)| taken.hand_back(keys, fate));
        let mut unfired: Vec<_> = listed.collect();
        if taken.len() > 1 {
            unfired.sort_by_key(|&(deadline, _)| deadline);
        }
        // Only now: a waker may ask the handles of any shard.
        for Taken { shard, sleepers, .. } in taken {
            shard.wake_stopped(sleepers.into_wakers());
        }
        #[cfg(feature = "pace")]
        self.tenants.tell(|tenant| tenant.timer_stopped());
        unfired.into_iter().map(|(_, unfired)| unfired).collect()
    }

    /// Waits until no task runs and no thread is left. Returns `false` if that takes longer than
    /// `limit`. Returns at once when called from a task of this timer.
    pub(crate) fn wait_ended(&self, limit: Duration) -> bool {
        let is_idle = |state: &State| state.running == 0;
        let ended = |roster: &Roster| roster.count == 0 && self.all(roster, is_idle);
        panics::is_inside(&self.driver) || self.wait(limit, ended)
    }

    /// Refuses new tasks and lets the pending ones run for up to `limit`. Cancels periodic tasks.
    pub(crate) fn drain(self: &Arc<Self>, limit: Duration) {
        let mut roster = self.driver.roster();
        if roster.phase == Phase::Stopped {
            return;
        }
        self.driver.set_phase(&mut roster, Phase::Draining);
        for state in &mut self.lock_all(&roster) {
            state.phase = Phase::Draining;
        }
        drop(roster);
        for shard in self.shards() {
            self.cancel_series(shard);
        }
        #[cfg(feature = "pace")]
        self.tenants.tell(crate::timer::core::tenants::Tenant::timer_drains);
        if self.driver.has_threads() && !panics::is_inside(&self.driver) {
            let is_done = |state: &State| state.pending_tasks() + state.running + state.queued == 0;
            self.wait(limit, |roster| roster.phase == Phase::Stopped || self.all(roster, is_done));
        }
    }

    /// Cancels the periodic tasks of a shard, in steps.
    fn cancel_series(&self, shard: &Shard) {
        let mut unvisited = u32::MAX;
        while unvisited > 0 {
            let cancelled = shard.lock().cancel_series(&mut unvisited);
            for cancelled in cancelled {
                panics::catch(&self.driver.config, || drop_cancelled(cancelled));
            }
        }
    }

    /// Returns `true` if a condition holds for all shards at one moment.
    fn all(&self, roster: &Roster, is: impl Fn(&State) -> bool) -> bool {
        self.lock_all(roster).iter().all(|state| is(state))
    }

    fn wait(&self, limit: Duration, done: impl Fn(&Roster) -> bool) -> bool {
        let driver = &self.driver;
        let mut roster = driver.roster();
        let until = instant_now().checked_add(limit);
        while !done(&roster) {
            let Some(until) = until else {
                roster = driver.ended.wait(roster).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(instant_now());
            if left.is_zero() {
                return false;
            }
            let woken = driver.ended.wait_timeout(roster, left);
            roster = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
