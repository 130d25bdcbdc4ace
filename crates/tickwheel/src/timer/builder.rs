//! How a timer is set up.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::any::Any;
use std::boxed::Box;
use std::io;
use std::string::String;
use std::sync::Arc;

use super::clock::{Clock, ManualClock, Nanos, nanos};
use super::{BuildError, Timer};
use crate::timer::core::Core;
use crate::timer::execution::executor::{Executor, Task};
use crate::timer::execution::panics::{self, PanicHook};

/// The tick of a timer that nobody chose one for.
pub(crate) const DEFAULT_TICK: Nanos = 1_000_000;

/// So many threads a timer starts at most unless told otherwise: tasks that block longer than
/// they should are few, or else want an executor of their own.
const DEFAULT_WORKERS: usize = 64;
const MAX_WORKERS: usize = 1024;
const MAX_SLOTS: usize = 1 << 24;
const SHORTEST_TICK: Duration = Duration::from_micros(1);
const LONGEST_TICK: Duration = Duration::from_hours(24);

/// So many timers a process may well have. One is enough for millions of tasks.
const MANY_TIMERS: usize = 64;

static LIVE_TIMERS: AtomicUsize = AtomicUsize::new(0);
static WARNED: AtomicBool = AtomicBool::new(false);

/// Which wheel a timer turns.
///
/// ```
/// use tickwheel::{Timer, WheelKind};
///
/// let timer = Timer::builder().wheel(WheelKind::Hashed { slots: 512 }).build()?;
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum WheelKind {
    /// Rings above rings, nothing to tune.
    #[default]
    Hierarchical,
    /// One ring, for deadlines that are mostly less than a turn away.
    Hashed {
        /// How many slots the ring has; rounded up to a power of two.
        slots: usize,
    },
}

/// A thread's body, for [`Builder::thread_hook`].
///
/// ```
/// use tickwheel::{ThreadBody, Timer};
///
/// fn on_a_small_stack(body: ThreadBody) -> std::io::Result<()> {
///     std::thread::Builder::new().stack_size(256 << 10).spawn(body).map(drop)
/// }
///
/// let timer = Timer::builder().thread_hook(on_a_small_stack).build()?;
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
pub type ThreadBody = Box<dyn FnOnce() + Send>;

type ThreadHook = Arc<dyn Fn(ThreadBody) -> io::Result<()> + Send + Sync>;

/// What wakes the event loop that drives a timer.
pub(crate) type WakeHook = Arc<dyn Fn() + Send + Sync>;

/// The most shards that a timer has.
const MAX_SHARDS: usize = 32;

/// What stays the same through a timer's life.
pub(crate) struct Config {
    pub(crate) tick: Nanos,
    pub(crate) wheel: WheelKind,
    pub(crate) max_pending: usize,
    pub(crate) executor: Executor,
    pub(crate) panic_hook: Option<PanicHook>,
    pub(crate) wake_hook: Option<WakeHook>,
    pub(crate) cores: usize,
    /// The number of shards, a power of two.
    pub(crate) shards: usize,
    /// How many of them hold tasks with keys, a power of two.
    pub(crate) key_shards: usize,
    thread_name: String,
    thread_hook: Option<ThreadHook>,
}

impl Config {
    /// As this, for a timer with nothing to run but what wakes futures.
    #[cfg(feature = "async")]
    pub(crate) fn for_successor(&self, clock: &Clock) -> Self {
        Self {
            tick: self.tick,
            wheel: WheelKind::default(),
            max_pending: usize::MAX,
            executor: match clock {
                Clock::System { .. } => Executor::Inline,
                Clock::Manual(_) => Executor::Caller,
            },
            panic_hook: self.panic_hook.clone(),
            wake_hook: None,
            cores: self.cores,
            shards: 1,
            key_shards: 1,
            thread_name: self.thread_name.clone(),
            thread_hook: self.thread_hook.clone(),
        }
    }

    pub(crate) fn spawn(&self, body: ThreadBody) -> io::Result<()> {
        match &self.thread_hook {
            Some(hook) => panics::result(|| hook(body)),
            None => self.spawn_plain(body),
        }
    }

    /// Starts a thread without the hook.
    pub(crate) fn spawn_plain(&self, body: ThreadBody) -> io::Result<()> {
        std::thread::Builder::new().name(self.thread_name.clone()).spawn(body).map(drop)
    }
}

/// Sets a timer up: made by [`Timer::builder`].
///
/// Of [`workers`](Self::workers), [`inline`](Self::inline), [`executor`](Self::executor) and
/// [`caller_driven`](Self::caller_driven) the last one counts.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Timer, WheelKind};
///
/// let timer = Timer::builder()
///     .tick(Duration::from_millis(10))
///     .wheel(WheelKind::Hashed { slots: 512 })
///     .max_pending(1_000_000)
///     .thread_name("payments")
///     .build()?;
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    tick: Duration,
    wheel: WheelKind,
    max_pending: usize,
    thread_name: String,
    thread_hook: Option<ThreadHook>,
    executor: Option<Executor>,
    panic_hook: Option<PanicHook>,
    wake_hook: Option<WakeHook>,
    clock: Option<ManualClock>,
    shards: Option<usize>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            tick: Duration::from_nanos(DEFAULT_TICK),
            wheel: WheelKind::default(),
            max_pending: 0,
            thread_name: String::from("tickwheel"),
            thread_hook: None,
            executor: None,
            panic_hook: None,
            wake_hook: None,
            clock: None,
            shards: None,
        }
    }

    /// How long a tick is: tasks start up to a tick after their deadline, never before it. From
    /// 1 µs to 1 day; 1 ms unless said here. A longer tick saves wake-ups, nothing else.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().tick(Duration::from_secs(1)).clock(clock.clone()).build()?;
    /// timer.after(Duration::from_millis(2_500), || {})?;
    /// clock.advance(Duration::from_millis(2_999));
    /// assert_eq!(timer.pending(), 1); // it is due with the third tick
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(timer.pending(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Which wheel to turn: the hierarchical one unless said here.
    ///
    /// ```
    /// use tickwheel::{Timer, WheelKind};
    ///
    /// let timer = Timer::builder().wheel(WheelKind::Hashed { slots: 512 }).build()?;
    /// assert!(Timer::builder().wheel(WheelKind::Hashed { slots: 0 }).build().is_err());
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    pub fn wheel(mut self, kind: WheelKind) -> Self {
        self.wheel = kind;
        self
    }

    /// How many tasks may be pending at once; no limit if 0, or not said. The limit is exact,
    /// however many threads schedule. Futures that wait do not count: they always have a place.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ScheduleError, Timer};
    ///
    /// let timer = Timer::builder().max_pending(1).build()?;
    /// let first = timer.after(Duration::from_secs(60), || {})?;
    /// let refused = timer.after(Duration::from_secs(60), || {}).unwrap_err();
    /// assert_eq!(refused, ScheduleError::Full { limit: 1, pending: 1 });
    /// first.cancel();
    /// assert!(timer.after(Duration::from_secs(60), || {}).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_pending(mut self, limit: usize) -> Self {
        self.max_pending = limit;
        self
    }

    /// The name of the timer's threads: `tickwheel` unless said here.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::thread;
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder().thread_name("payments").build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// timer.after(Duration::ZERO, move || {
    ///     sender.send(thread::current().name().map(String::from)).unwrap();
    /// })?;
    /// assert_eq!(receiver.recv()?.as_deref(), Some("payments"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = name.into();
        self
    }

    /// Starts the timer's threads: called with a thread's body, the hook runs it on a thread that it
    /// starts, with the priority, stack size or affinity that it wants. Calls that schedule
    /// meanwhile wait until the hook returns.
    ///
    /// When the hook fails, the first task is refused with [`ScheduleError::Thread`]; the next call
    /// tries again, after a pause that grows up to a second while the hook keeps failing. If tasks
    /// were accepted already (the hook itself scheduled some, or it dropped the body later), a
    /// thread is started without the hook.
    ///
    /// [`ScheduleError::Thread`]: crate::ScheduleError::Thread
    ///
    /// ```
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder()
    ///     .thread_hook(|body| {
    ///         std::thread::Builder::new().stack_size(256 << 10).spawn(body).map(drop)
    ///     })
    ///     .build()?;
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    pub fn thread_hook(
        mut self,
        hook: impl Fn(ThreadBody) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.thread_hook = Some(Arc::new(hook));
        self
    }

    /// How many threads may run tasks at once: from 1 to 1024, and 64 unless said here. They are
    /// started when tasks block, and end when they have nothing to do.
    ///
    /// ```
    /// use tickwheel::{BuildError, Timer};
    ///
    /// let timer = Timer::builder().workers(4).build()?;
    /// assert_eq!(Timer::builder().workers(0).build().unwrap_err(), BuildError::Workers(0));
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    pub fn workers(mut self, most: usize) -> Self {
        self.executor = Some(Executor::Workers(most));
        self
    }

    /// Runs all tasks on the thread that waits for deadlines, in order of deadline. A task that
    /// blocks delays all others.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::thread;
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder().inline().build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// for millis in 1..=3 {
    ///     let sender = sender.clone();
    ///     timer.after(Duration::from_millis(millis), move || {
    ///         sender.send(thread::current().id()).unwrap();
    ///     })?;
    /// }
    /// let threads = [receiver.recv()?, receiver.recv()?, receiver.recv()?];
    /// assert!(threads[0] == threads[1] && threads[1] == threads[2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inline(mut self) -> Self {
        self.executor = Some(Executor::Inline);
        self
    }

    /// Hands every due task to a function, which runs it where it likes: on a thread pool, on an
    /// async runtime. It should not block.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickwheel::{Task, Timer};
    ///
    /// let (pool, tasks) = mpsc::channel::<Task>();
    /// let timer = Timer::builder().executor(move |task| drop(pool.send(task))).build()?;
    /// timer.after(Duration::from_millis(1), || println!("on a thread of the pool"))?;
    /// std::thread::spawn(move || tasks.recv().unwrap().run()).join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn executor(mut self, executor: impl Fn(Task) + Send + Sync + 'static) -> Self {
        self.executor = Some(Executor::Custom(Arc::new(executor)));
        self
    }

    /// Starts no thread at all: tasks run when [`Timer::turn`] is called, as an event loop does
    /// that sleeps until [`Timer::next_deadline`]. If other threads schedule as well, a
    /// [`wake_hook`](Self::wake_hook) wakes the loop. The example `event_loop` is a server on `mio`.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder().caller_driven().build()?;
    /// timer.after(Duration::from_millis(1), || println!("on the thread that turns the timer"))?;
    /// while let Some(next) = timer.next_deadline() {
    ///     std::thread::sleep(next.saturating_duration_since(Instant::now()));
    ///     timer.turn();
    /// }
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn caller_driven(mut self) -> Self {
        self.executor = Some(Executor::Caller);
        self
    }

    /// Wakes the event loop that drives a [`caller_driven`](Self::caller_driven) timer: called when
    /// something is scheduled, by any thread, for an earlier time than the loop sleeps for. That is
    /// the time that [`Timer::next_deadline`] gave last; until the loop has asked, it counts as
    /// asleep for ever, and from [`Timer::turn`] until it asks again as awake.
    ///
    /// The hook is called without a lock, on the thread that schedules. It should only wake the
    /// loop, with `mio::Waker`, an eventfd or a channel. A panic in it is logged.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::{Duration, Instant};
    /// use tickwheel::Timer;
    ///
    /// let (waker, wakeups) = mpsc::channel();
    /// let timer = Timer::builder()
    ///     .caller_driven()
    ///     .wake_hook(move || drop(waker.send(())))
    ///     .build()?;
    /// let other = timer.clone();
    /// std::thread::spawn(move || other.after(Duration::from_millis(5), || println!("tick")));
    /// while timer.stats().fired == 0 {
    ///     // The loop sleeps until the next deadline, or until it is woken.
    ///     let _ = match timer.next_deadline() {
    ///         Some(at) => wakeups.recv_timeout(at.saturating_duration_since(Instant::now())).ok(),
    ///         None => wakeups.recv().ok(),
    ///     };
    ///     timer.turn();
    /// }
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    pub fn wake_hook(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.wake_hook = Some(Arc::new(hook));
        self
    }

    /// Is told what a task panicked with. The panic is caught, counted and logged anyway.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let (sender, receiver) = mpsc::channel();
    /// let timer = Timer::builder()
    ///     .clock(clock.clone())
    ///     .panic_hook(move |payload| drop(sender.send(payload.downcast_ref::<&str>().copied())))
    ///     .build()?;
    /// timer.after(Duration::from_secs(1), || panic!("no such order"))?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(receiver.recv()?, Some("no such order"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_hook(mut self, hook: impl Fn(&(dyn Any + Send)) + Send + Sync + 'static) -> Self {
        self.panic_hook = Some(Arc::new(hook));
        self
    }

    /// Takes the time from a clock that is moved by hand, for tests. The timer starts no thread:
    /// tasks run on the thread that moves the clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.after(Duration::from_secs(1800), || println!("half an hour later"))?;
    /// clock.advance(Duration::from_secs(1800));
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the number of shards, rounded up to a power of two. Timers with one need less memory when
    /// many threads use them; for tests and measurements.
    #[doc(hidden)]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards.clamp(1, MAX_SHARDS));
        self
    }

    /// Builds the timer. No thread is started until there is a task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder().tick(Duration::from_micros(100)).build()?;
    /// let error = Timer::builder().tick(Duration::ZERO).build().unwrap_err();
    /// assert_eq!(error.to_string(), "a tick of 0ns is not possible: take one from 1 µs to 1 day");
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a value is not possible; the error says which, and what is.
    pub fn build(self) -> Result<Timer, BuildError> {
        let timer = self.build_quietly();
        warn_of_many_timers();
        timer
    }

    /// Builds the timer without a warning: a subscriber that uses Tickwheel must not be called while
    /// a lock is held, or where the process-wide timer is being made.
    pub(crate) fn build_quietly(self) -> Result<Timer, BuildError> {
        if !(SHORTEST_TICK..=LONGEST_TICK).contains(&self.tick) {
            return Err(BuildError::Tick(self.tick));
        }
        if let WheelKind::Hashed { slots } = self.wheel
            && !(1..=MAX_SLOTS).contains(&slots)
        {
            return Err(BuildError::Slots(slots));
        }
        if let Some(Executor::Workers(workers)) = self.executor
            && !(1..=MAX_WORKERS).contains(&workers)
        {
            return Err(BuildError::Workers(workers));
        }
        if self.thread_name.contains('\0') {
            return Err(BuildError::ThreadName(self.thread_name));
        }
        let (clock, executor) = match (self.clock, self.executor) {
            (None, executor) => {
                (Clock::system(), executor.unwrap_or(Executor::Workers(DEFAULT_WORKERS)))
            }
            (Some(clock), None | Some(Executor::Caller)) => {
                (Clock::Manual(clock), Executor::Caller)
            }
            (Some(_), Some(_)) => return Err(BuildError::ClockNeedsNoThread),
        };
        if self.wake_hook.is_some() && !matches!(executor, Executor::Caller) {
            return Err(BuildError::WakeHookNeedsCaller);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = match executor {
            // These run tasks in order of their deadlines, which is the order of one wheel.
            Executor::Inline | Executor::Caller => 1,
            Executor::Workers(_) | Executor::Custom(_) => {
                self.shards.unwrap_or_else(|| default_shards(cores)).next_power_of_two()
            }
        };
        let config = Config {
            tick: nanos(self.tick),
            wheel: self.wheel,
            max_pending: if self.max_pending == 0 { usize::MAX } else { self.max_pending },
            executor,
            panic_hook: self.panic_hook,
            wake_hook: self.wake_hook,
            cores,
            shards,
            key_shards: shards.min(cores.next_power_of_two()),
            thread_name: self.thread_name,
            thread_hook: self.thread_hook,
        };
        Ok(Timer::of(Core::new(config, clock)))
    }
}

/// More shards than cores, as threads that take turns on a core would otherwise meet at a lock that a
/// thread holds which was interrupted. A model has one unless it asks for more.
fn default_shards(cores: usize) -> usize {
    if cfg!(tickwheel_loom) { 1 } else { (4 * cores).min(MAX_SHARDS) }
}

/// Counts a timer that was made.
pub(crate) fn count_live() {
    LIVE_TIMERS.fetch_add(1, Ordering::Relaxed);
}

/// Logs one warning in the life of a process that has more timers than it needs. No lock may be
/// held.
pub(crate) fn warn_of_many_timers() {
    let live = LIVE_TIMERS.load(Ordering::Relaxed);
    if live > MANY_TIMERS && !WARNED.swap(true, Ordering::Relaxed) {
        panics::log(|| {
            tracing::warn!(
                live,
                "more than {MANY_TIMERS} timers are alive in this process; a timer is meant to be \
                 shared: one holds millions of tasks"
            );
        });
    }
}

pub(crate) fn uncount_live() {
    LIVE_TIMERS.fetch_sub(1, Ordering::Relaxed);
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tick", &self.tick)
            .field("wheel", &self.wheel)
            .field("max_pending", &self.max_pending)
            .field("thread_name", &self.thread_name)
            .finish_non_exhaustive()
    }
}
