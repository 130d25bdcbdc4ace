//! The interface of a timer to other modules of this library (*tenants*), for work of their own.
//!
//! Ground rules:
//! * A [`Host`] does not keep the timer running, and `max_pending` does not limit its jobs: work that
//!   was promised to a caller must not fail because other callers fill the timer.
//! * [`Host::place`], [`Host::move_to`] and the methods that only read call no user code, so they may
//!   be used under a lock. They return a [`Nudge`] for the part that must run without that lock.

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

/// A tenant's reference to its timer.
#[derive(Clone)]
pub(crate) struct Host {
    core: Arc<Core>,
}

/// The place of a job: its shard, and its key in the shard's wheel.
#[derive(Clone, Copy)]
pub(crate) struct JobKey {
    shard: u32,
    key: wheel::Key,
}

/// A part of this library with work of its own on a timer: a pacer.
pub(crate) trait Tenant: Send + Sync {
    /// Called when the timer begins to drain and accepts no more tasks. The tenant keeps a job in the
    /// timer as long as it has work left, and removes it afterwards.
    fn timer_drains(self: Arc<Self>);
    /// Called after the timer was stopped.
    fn timer_stopped(&self);
}

/// The tenants of a timer. The timer does not keep them alive.
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

    /// Registers a tenant, to be called when the timer drains or stops.
    pub(crate) fn attach(&self, tenant: Weak<dyn Tenant>) {
        self.core.tenants.add(tenant);
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        self.core.clock().now()
    }

    /// Returns the length of a tick in nanoseconds.
    #[inline]
    pub(crate) fn tick(&self) -> Nanos {
        self.core.tick()
    }

    /// Returns `true` if tasks run on threads of the timer, which may have to be woken.
    pub(crate) fn has_threads(&self) -> bool {
        self.core.driver.has_threads()
    }

    /// Converts a time to an instant. Returns `None` if the time means never.
    pub(crate) fn instant(&self, at: Nanos) -> Option<Instant> {
        self.core.clock().instant(at)
    }

    /// Returns `true` if the timer is neither stopped nor draining.
    #[inline]
    pub(crate) fn takes_tasks(&self) -> bool {
        self.core.driver.takes_tasks()
    }

    /// Returns `true` if the calling thread is running a task of the timer.
    pub(crate) fn is_inside(&self) -> bool {
        panics::is_inside(&self.core.driver)
    }

    /// Schedules a job, which is created only if the timer accepts it. A draining timer does: the
    /// tenant may need it for work that it accepted before.
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

    /// Moves a job to another time. Returns `None` if the job has left the wheel.
    pub(crate) fn move_to(&self, place: JobKey, at: Nanos) -> Option<Nudge> {
        let shard = self.core.shard(place.shard as usize);
        let mut state = shard.lock();
        if state.phase == Phase::Stopped || !state.reset(place.key, at) {
            return None;
        }
        Some(shard.unlock_after(state, at))
    }

    /// Wakes or starts the leader after a job was placed or moved. No lock may be held.
    pub(crate) fn nudge(&self, nudge: Nudge) -> Result<(), ScheduleError> {
        self.core.driver.nudge(nudge)
    }

    /// Calls user code like a task of the timer. Returns `true` if it panicked.
    pub(crate) fn catch(&self, call: impl FnOnce()) -> bool {
        panics::catch(&self.core.driver.config, call)
    }

    /// Removes a job from the wheel and drops it. Returns `false` if it has left the wheel.
    pub(crate) fn take_back(&self, place: JobKey) -> bool {
        self.core.shard(place.shard as usize).cancel(place.key, &AtomicBool::new(false))
    }
}
