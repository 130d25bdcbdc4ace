//! A timer as other rooms of this library use it, for work of their own.
//!
//! Ground rules:
//! * A [`Host`] does not keep the timer alive, and what it places is not limited by `max_pending`:
//!   what a caller was promised must not fail because others fill the timer.
//! * Nothing of a caller's is called by [`Host::place`], [`Host::move_to`] and the questions: they
//!   may be used under a lock. What has to follow without that lock is left to a [`Nudge`].

use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;
use std::vec::Vec;

use crate::timer::core::Core;
use crate::timer::core::driver::{Nudge, Phase};
use crate::timer::execution::panics;
use crate::timer::sync::{AtomicBool, Mutex, MutexGuard};
use crate::timer::tasks::job::Job;
use crate::timer::{Nanos, ScheduleError, Timer};
use crate::wheel;

#[derive(Clone)]
pub(crate) struct Host {
    core: Arc<Core>,
}

/// Where a job is: in which shard, and where in its wheel.
#[derive(Clone, Copy)]
pub(crate) struct JobKey {
    shard: u32,
    key: wheel::Key,
}

/// A part of this library with work of its own on a timer: a pacer.
pub(crate) trait Tenant: Send + Sync {
    /// The timer takes no more tasks. The tenant keeps a job in it while it has work left, and
    /// removes the job when there is none.
    fn timer_drains(self: Arc<Self>);
    /// The timer runs nothing any more.
    fn timer_stopped(&self);
}

/// The tenants of a timer, which it does not keep alive.
#[derive(Default)]
pub(crate) struct Tenants(Mutex<Vec<Weak<dyn Tenant>>>);

impl Tenants {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Tenant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, tenant: Weak<dyn Tenant>) {
        let mut tenants = self.lock();
        if tenants.len() == tenants.capacity() {
            tenants.retain(|tenant| tenant.strong_count() > 0);
        }
        tenants.push(tenant);
    }

    /// Calls every tenant that is alive. The timer's lock must not be held.
    pub(crate) fn tell(&self, tell: impl Fn(Arc<dyn Tenant>)) {
        let tenants: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        tenants.into_iter().for_each(tell);
    }
}

impl Host {
    pub(crate) fn of(timer: &Timer) -> Self {
        Self { core: Arc::clone(timer.core()) }
    }

    /// Has a tenant told when the timer drains or stops.
    pub(crate) fn attach(&self, tenant: Weak<dyn Tenant>) {
        self.core.tenants.add(tenant);
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        self.core.clock().now()
    }

    /// Nanoseconds in a tick.
    #[inline]
    pub(crate) fn tick(&self) -> Nanos {
        self.core.tick()
    }

    /// Whether tasks run on threads that have to be woken for them.
    pub(crate) fn has_threads(&self) -> bool {
        self.core.driver.has_threads()
    }

    /// The instant of a time; `None` if that is never.
    pub(crate) fn instant(&self, at: Nanos) -> Option<Instant> {
        self.core.clock().instant(at)
    }

    /// Whether the timer is neither stopped nor draining.
    #[inline]
    pub(crate) fn takes_tasks(&self) -> bool {
        self.core.driver.takes_tasks()
    }

    /// Whether this thread runs a task of the timer.
    pub(crate) fn is_inside(&self) -> bool {
        panics::is_inside(&self.core.driver)
    }

    /// Schedules a job, which is made only if the timer takes it. A timer that drains does: a
    /// tenant may have accepted work before, and needs the timer for it.
    pub(crate) fn place(
        &self,
        at: Nanos,
        job: impl FnOnce() -> Job,
    ) -> Result<(JobKey, Nudge), ScheduleError> {
        let shard = self.core.my_shard();
        let mut state = shard.lock();
        if state.phase == Phase::Stopped {
            return Err(ScheduleError::Stopped);
        }
        state.scheduled += 1;
        let key = state.insert(at, job());
        Ok((JobKey { shard: shard.index, key }, shard.unlock_after(state, at)))
    }

    /// Moves a job to another time; `None` if it has left the wheel.
    pub(crate) fn move_to(&self, place: JobKey, at: Nanos) -> Option<Nudge> {
        let shard = self.core.shard(place.shard as usize);
        let mut state = shard.lock();
        if state.phase == Phase::Stopped || !state.reset(place.key, at) {
            return None;
        }
        Some(shard.unlock_after(state, at))
    }

    /// Does what remains to be done after a job was placed. No lock may be held.
    pub(crate) fn nudge(&self, nudge: Nudge) -> Result<(), ScheduleError> {
        self.core.driver.nudge(nudge)
    }

    /// Calls user code as the timer calls a task. Returns `true` if it panicked.
    pub(crate) fn catch(&self, call: impl FnOnce()) -> bool {
        panics::catch(&self.core.driver.config, call)
    }

    /// Takes a job out of the wheel again and drops it.
    pub(crate) fn take_back(&self, place: JobKey) -> bool {
        self.core.shard(place.shard as usize).cancel(place.key, &AtomicBool::new(false))
    }
}
