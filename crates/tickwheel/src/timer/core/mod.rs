//! The core of a timer: its shards, and the operations that choose one or need all of them.
//!
//! ```text
//! Timer ─► Owner ─► Core ─► Driver          clock, threads, the leader's wake-up time
//!                     └───► Shard 0, 1, …   each with a lock, wheels, keys and counters
//! Timeout ────────────────► Shard
//! ```
//!
//! A thread schedules into the shard of its [thread index](crate::timer::core::thread_index). A task
//! with a key goes to the shard of its key's hash, so that replacing it is one step under one lock.
//! Shards are created on first use. A timer that runs its tasks in order of deadline (inline,
//! caller-driven, manual clock) has one shard.
//!
//! Ground rules:
//! * Locks are taken in this order: the roster, then shards in order of their index.
//! * Shards are created under the roster's lock, so a thread that holds it sees all of them.
//! * The sum of the shards' quotas and the driver's free credits is `max_pending`, and a shard holds
//!   at most as many tasks as its quota. So the limit is exact, and a call that schedules writes to
//!   shared memory at most once per [`CREDITS`] tasks, unless the timer is nearly full.

mod any_wheel;
pub(crate) mod driver;
pub(crate) mod shard;
pub(crate) mod shrink;
mod shutdown;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "only futures sleep"))]
pub(crate) mod sleepers;
pub(crate) mod state;
#[cfg(feature = "pace")]
pub(crate) mod tenants;
mod thread_index;
pub(crate) mod wall;

use core::sync::atomic::Ordering;
use std::boxed::Box;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use std::vec::Vec;

use crate::timer::builder::Config;
use crate::timer::clock::{Clock, Nanos};
#[cfg(any(feature = "async", feature = "pace"))]
pub(crate) use driver::Nudge;
pub(crate) use driver::Phase;

use crate::timer::core::shard::{EMPTY, Shard, drop_cancelled};
use crate::timer::core::state::{Cancelled, Popped, State};
use crate::timer::core::thread_index::thread_index;
use crate::timer::execution::panics;
use crate::timer::execution::roster::Roster;
use crate::timer::stats::Stats;
use crate::timer::sync::{AtomicU64, MutexGuard};
use crate::timer::tasks::job::Job;
use crate::timer::tasks::periodic::Series;
use crate::timer::tasks::record::{Record, Work};
use crate::timer::{Key, ScheduleError, Timeout};
use driver::{AWAKE, Driver, NEVER};

/// The number of tasks by which a shard raises its quota at once.
const CREDITS: u64 = 64;

/// The core of a timer, shared by its clones, threads and futures.
pub(crate) struct Core {
    pub(crate) driver: Arc<Driver>,
    shards: Box<[OnceLock<Arc<Shard>>]>,
    /// A bit for each shard that was created. Set after the shard is in place.
    created: AtomicU64,
    /// The timer that serves futures after this one is stopped.
    #[cfg(feature = "async")]
    successor: OnceLock<crate::timer::Timer>,
    #[cfg(feature = "pace")]
    pub(crate) tenants: tenants::Tenants,
}

/// No panic leaves a core half changed: see [`Driver`] and [`Shard`].
impl UnwindSafe for Core {}
impl RefUnwindSafe for Core {}

impl Core {
    pub(crate) fn new(config: Config, clock: Clock) -> Arc<Self> {
        let core = Arc::new_cyclic(|core| Self {
            shards: (0..config.shards).map(|_| OnceLock::new()).collect(),
            created: AtomicU64::new(0),
            driver: Arc::new(Driver::new(config, clock, core.clone())),
            #[cfg(feature = "async")]
            successor: OnceLock::new(),
            #[cfg(feature = "pace")]
            tenants: tenants::Tenants::default(),
        });
        if let Clock::Manual(clock) = core.clock() {
            clock.attach(&core);
        }
        core
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.driver.clock
    }

    /// Returns the length of a tick in nanoseconds.
    #[inline]
    pub(crate) fn tick(&self) -> Nanos {
        self.driver.config.tick
    }

    /// Wakes or starts the leader. No lock may be held.
    #[cfg(feature = "async")]
    pub(crate) fn nudge(&self, nudge: Nudge) -> Result<(), ScheduleError> {
        self.driver.nudge(nudge)
    }

    /// Calls user code. A panic is logged and not propagated.
    #[cfg(feature = "async")]
    pub(crate) fn catch(&self, call: impl FnOnce()) {
        panics::catch(&self.driver.config, call);
    }

    /// Returns the timer that serves futures after this one is stopped. It has the same clock and runs
    /// nothing else. Callers cannot stop it; it ends with the last of these futures.
    #[cfg(feature = "async")]
    pub(crate) fn successor(&self) -> crate::timer::Timer {
        self.successor.get_or_init(|| crate::timer::Timer::successor_of(&self.driver)).clone()
    }

    /// Returns the shard into which the calling thread schedules.
    #[inline]
    pub(crate) fn my_shard(&self) -> &Arc<Shard> {
        self.shard(thread_index() & (self.shards.len() - 1))
    }

    /// Returns the shard with an index, and creates it if necessary.
    #[inline]
    pub(crate) fn shard(&self, index: usize) -> &Arc<Shard> {
        let created = self.created.load(Ordering::Acquire) & 1 << index != 0;
        let shard = self.shards[index].get().filter(|_| created);
        shard.unwrap_or_else(|| self.create_shard(index))
    }

    #[cold]
    fn create_shard(&self, index: usize) -> &Arc<Shard> {
        let roster = self.driver.roster();
        let shard = self.shards[index].get_or_init(|| {
            let phase = roster.phase.max(Phase::Running);
            Arc::new(Shard::new(Arc::clone(&self.driver), index as u32, phase))
        });
        self.created.fetch_or(1 << index, Ordering::Release);
        shard
    }

    /// Returns the hash of a key, and the shard that holds tasks with that key.
    fn key_shard(&self, key: &Key) -> (u64, &Arc<Shard>) {
        let hash = self.driver.hash(key);
        // The key table uses the low bits of the hash.
        let index = (hash >> 48) as usize & (self.driver.config.key_shards - 1);
        (hash, self.shard(index))
    }

    /// Iterates over the shards that exist.
    #[inline]
    pub(crate) fn shards(&self) -> impl Iterator<Item = &Arc<Shard>> {
        let created = self.created.load(Ordering::Acquire);
        let shards = self.shards.iter().enumerate();
        shards
            .filter(move |(index, _)| created & 1 << index != 0)
            .filter_map(|(_, shard)| shard.get())
    }

    /// Locks all shards. The caller holds the roster's lock, so that no shard is created meanwhile.
    pub(crate) fn lock_all<'a>(&'a self, _roster: &Roster) -> Vec<MutexGuard<'a, State>> {
        self.shards().map(|shard| shard.lock()).collect()
    }

    /// Sums a number over all shards, at one moment.
    fn sum(&self, of: impl Fn(&State) -> usize) -> usize {
        let roster = self.driver.roster();
        self.lock_all(&roster).iter().map(|state| of(state)).sum()
    }

    /// Pending tasks plus sleeping futures.
    pub(crate) fn pending(&self) -> usize {
        self.sum(State::pending)
    }

    /// Returns the number of running tasks.
    pub(crate) fn running(&self) -> usize {
        self.sum(|state| state.running)
    }

    pub(crate) fn stats(&self) -> Stats {
        let roster = self.driver.roster();
        let mut stats = Stats { wakeups: roster.wakeups, ..Stats::default() };
        for state in self.lock_all(&roster) {
            state.add_to(&mut stats);
        }
        stats
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.shards().map(|shard| shard.memory_usage()).sum()
    }

    /// Schedules a closure.
    #[inline]
    pub(crate) fn schedule(&self, at: Nanos, job: Job) -> Result<Timeout, ScheduleError> {
        let shard = self.my_shard();
        let mut state = self.admit(shard, shard.lock())?;
        state.scheduled += 1;
        let wheel_key = state.insert(at, job);
        let timeout = Timeout::plain(Arc::clone(shard), wheel_key);
        match shard.announce(state, at) {
            // No thread could be started, so the task is refused. If the cancel fails, a thread that
            // another caller started has run the task, and it was accepted after all.
            Err(error) if timeout.cancel() => Err(error),
            _ => Ok(timeout),
        }
    }

    /// Schedules a closure with a key, replacing the pending task with that key.
    pub(crate) fn schedule_keyed(
        &self,
        key: Key,
        at: impl FnOnce(&Clock) -> Nanos,
        job: Job,
    ) -> Result<Timeout, ScheduleError> {
        let (hash, shard) = self.key_shard(&key);
        let mut state = shard.lock();
        // Reading the clock hides a part of the cache miss in the key table.
        state.keys.prefetch(hash);
        let at = at(self.clock());
        let mut holder = state.find(&key, hash);
        if holder.is_some() {
            state.check_accepts_tasks()?;
        } else {
            state = self.admit(shard, state)?;
            // The lock may have been released: another thread may have scheduled the key.
            holder = state.find(&key, hash);
        }
        // Replacing a task needs no room. A timer that is stopped keeps the old task.
        let replaced = holder.map_or(Cancelled::No, |holder| state.cancel_holder(&holder));
        state.scheduled += 1;
        let wheel_key = state.insert(at, job);
        state.keys.insert(key, hash, wheel_key);
        let timeout = Timeout::keyed(Arc::clone(shard), wheel_key);
        let announced = shard.announce(state, at);
        drop_cancelled(replaced);
        match announced {
            // As in `schedule`.
            Err(error) if timeout.cancel() => Err(error),
            _ => Ok(timeout),
        }
    }

    /// Schedules a task with a period or a wall-clock deadline, and possibly a key.
    pub(crate) fn schedule_record(
        &self,
        key: Option<Key>,
        series: Option<Series>,
        work: Work,
        at: Nanos,
        wall: Option<Nanos>,
    ) -> Result<Timeout, ScheduleError> {
        let (hash, shard) = match &key {
            Some(key) => self.key_shard(key),
            None => (0, self.my_shard()),
        };
        let record = Arc::new(Record::new(key, hash as u32, series, wall, work));
        let find = |state: &State| record.key.as_ref().and_then(|key| state.find(key, hash));
        let mut state = shard.lock();
        if find(&state).is_some() {
            state.check_accepts_tasks()?;
        } else {
            state = self.admit(shard, state)?;
        }
        // As in `schedule_keyed`.
        let holder = find(&state);
        let replaced = holder.map_or(Cancelled::No, |holder| state.cancel_holder(&holder));
        state.scheduled += 1;
        state.place(&record, at, self.clock());
        state.records.insert(&record);
        let at = state.wake_time_of(&record);
        let announced = shard.announce(state, at);
        drop_cancelled(replaced);
        match announced {
            // As in `schedule`.
            Err(error) if shard.cancel_record(&record) => Err(error),
            _ => Ok(Timeout::record(Arc::clone(shard), record)),
        }
    }

    pub(crate) fn cancel_key(&self, key: &Key) -> bool {
        let (hash, shard) = self.key_shard(key);
        shard.cancel_key(key, hash)
    }

    pub(crate) fn reset_key(&self, key: &Key, delay: Nanos) -> bool {
        let (hash, shard) = self.key_shard(key);
        shard.reset_key(key, hash, delay)
    }

    pub(crate) fn has_key(&self, key: &Key) -> bool {
        let (hash, shard) = self.key_shard(key);
        shard.has_key(key, hash)
    }

    pub(crate) fn key_due_at(&self, key: &Key) -> Option<Nanos> {
        let (hash, shard) = self.key_shard(key);
        shard.key_due_at(key, hash)
    }

    /// Checks that the timer accepts tasks and the shard has room for one. May release and retake the
    /// shard's lock, to collect the room that other shards do not use.
    #[inline]
    fn admit<'a>(
        &'a self,
        shard: &'a Arc<Shard>,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, ScheduleError> {
        state.check_accepts_tasks()?;
        if !state.is_full() {
            return Ok(state);
        }
        state.quota += self.driver.take_credits(CREDITS) as usize;
        if state.is_full() { self.find_room(shard, state) } else { Ok(state) }
    }

    /// Collects the room that other shards do not use. Returns an error if the timer is full.
    #[cold]
    fn find_room<'a>(
        &'a self,
        shard: &'a Arc<Shard>,
        state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, ScheduleError> {
        drop(state);
        let roster = self.driver.roster();
        let mut states = self.lock_all(&roster);
        let position = self.shards().position(|other| Arc::ptr_eq(other, shard));
        let limit = self.driver.config.max_pending;
        let pending: usize = states.iter().map(|state| state.pending_tasks()).sum();
        // Jobs of pacers are not limited. If there are more than the limit allows, some shard gets
        // less than it holds, so that the sum of the quotas stays within the limit.
        let mut free = limit;
        for state in &mut states {
            state.quota = state.pending_tasks().min(free);
            free -= state.quota;
        }
        let given = free.min(CREDITS as usize);
        self.driver.set_credits((free - given) as u64);
        let mut state = states.swap_remove(position.unwrap_or(0));
        state.quota += given;
        state.check_accepts_tasks()?;
        if given == 0 {
            state.rejected += 1;
            return Err(ScheduleError::Full { limit, pending });
        }
        Ok(state)
    }

    /// Returns a time before which nothing is due. Returns `None` if nothing will be due.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let next = self.shards().filter_map(|shard| shard.lock().next_wake()).min();
        next.filter(|&at| at < NEVER)
    }

    /// Returns the same as [`next_deadline`](Self::next_deadline), to an event loop that will sleep
    /// until then. From now on, scheduling something earlier calls the wake hook.
    pub(crate) fn sleep_until_next(&self) -> Option<Nanos> {
        if self.driver.config.wake_hook.is_none() {
            return self.next_deadline();
        }
        // First of all: a task that is scheduled after the shard was read finds the loop asleep.
        self.driver.set_caller_until(NEVER);
        let shard = self.shard(0);
        let state = shard.lock();
        shard.publish_next(&state);
        drop(state);
        self.driver.set_caller_until(shard.next().min(NEVER));
        Some(shard.next()).filter(|&at| at < NEVER)
    }

    /// Runs all due tasks on the calling thread and returns their number. Returns `None` and does
    /// nothing while another call is doing so, or if it is called by a task of that call.
    pub(crate) fn turn(self: &Arc<Self>) -> Option<usize> {
        let shard = self.shard(0);
        let mut state = shard.lock();
        if core::mem::replace(&mut state.turning, true) {
            return None;
        }
        drop(state);
        // The event loop is awake, and will ask for the next deadline before it sleeps again.
        self.driver.set_caller_until(AWAKE);
        let _inside = panics::enter(&self.driver);
        let mut state = shard.lock();
        let mut count = 0;
        loop {
            let more;
            (state, more) = self.wake_some(shard, state);
            if state.phase == Phase::Stopped && !more {
                break;
            }
            match state.pop(self.clock()) {
                Popped::Fire(fire) => {
                    drop(state);
                    state = shard.execute(fire);
                    count += 1;
                }
                Popped::Yield => state = shard.relock(state),
                Popped::Nothing if more => {}
                Popped::Nothing => {
                    let revised;
                    (state, revised) = shard.revise(state);
                    if !revised {
                        break;
                    }
                }
            }
        }
        shard.publish_next(&state);
        state.turning = false;
        Some(count)
    }

    /// Returns the earliest wake-up time of all shards, or [`EMPTY`] if nothing is pending.
    pub(crate) fn next(&self) -> Nanos {
        self.shards().map(|shard| shard.next()).min().unwrap_or(EMPTY)
    }
}
