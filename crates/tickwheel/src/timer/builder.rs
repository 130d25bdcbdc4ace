//! The builder of a timer and the configuration that it produces.

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

/// The default tick, in nanoseconds.
pub(crate) const DEFAULT_TICK: Nanos = 1_000_000;

/// The default limit on threads. They are started only when tasks block. A program in which more
/// than this many tasks block at once should use an executor of its own.
const DEFAULT_WORKERS: usize = 64;
const MAX_WORKERS: usize = 1024;
const MAX_SLOTS: usize = 1 << 24;
const MIN_TICK: Duration = Duration::from_micros(1);
const MAX_TICK: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of live timers above which a warning is logged. One timer is enough for millions of
/// tasks.
const MANY_TIMERS: usize = 64;

static LIVE_TIMERS: AtomicUsize = AtomicUsize::new(0);
static WARNED: AtomicBool = AtomicBool::new(false);

/// The kind of wheel in which a timer keeps its tasks.
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
    /// A wheel of several levels. There is nothing to tune.
    #[default]
    Hierarchical,
    /// A single ring of slots, for deadlines that are mostly less than one turn away.
    Hashed {
        /// The number of slots, from 1 to 2²⁴. Rounded up to a power of two.
        slots: usize,
    },
}

/// The body of a timer's thread, passed to a [`Builder::thread_hook`].
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

/// A callback that wakes the event loop of a caller-driven timer.
pub(crate) type WakeHook = Arc<dyn Fn() + Send + Sync>;

/// The maximum number of shards of a timer.
const MAX_SHARDS: usize = 32;

/// The settings of a timer. They do not change after it is built.
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
    /// The number of shards that hold keyed tasks, a power of two.
    pub(crate) key_shards: usize,
    thread_name: String,
    thread_hook: Option<ThreadHook>,
}

impl Config {
    /// Returns the settings of the timer that serves futures after this one is stopped.
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

/// A builder of timers, returned by [`Timer::builder`].
///
/// [`workers`](Self::workers), [`inline`](Self::inline), [`executor`](Self::executor) and
/// [`caller_driven`](Self::caller_driven) exclude each other: the last call wins.
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

    /// Sets the length of a tick, from 1 µs to 1 day. Defaults to 1 ms.
    ///
    /// A task starts up to one tick after its deadline, never before it. A longer tick means fewer
    /// wake-ups; nothing else gets cheaper.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().tick(Duration::from_secs(1)).clock(clock.clone()).build()?;
    /// timer.after(Duration::from_millis(2_500), || {})?;
    /// clock.advance(Duration::from_millis(2_999));
    /// assert_eq!(timer.pending(), 1); // the task is due at the third tick
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(timer.pending(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Sets the kind of wheel. Defaults to [`WheelKind::Hierarchical`].
    pub fn wheel(mut self, kind: WheelKind) -> Self {
        self.wheel = kind;
        self
    }

    /// Sets the maximum number of pending tasks. Defaults to 0, which means no limit.
    ///
    /// The limit is exact, however many threads schedule at once. Sleeping futures do not count
    /// towards it.
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

    /// Sets the name of the timer's threads. Defaults to `tickwheel`.
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

    /// Sets a function that starts the timer's threads, for example to choose their priority, stack
    /// size or affinity.
    ///
    /// The timer calls the hook with the body of a thread. The hook starts a thread that runs the
    /// body. Calls that schedule meanwhile wait until the hook returns.
    ///
    /// If the hook fails, the call that needed the thread returns [`ScheduleError::Thread`]. The next
    /// call tries again; while the hook keeps failing, the timer backs off for up to one second. If
    /// the timer has already accepted tasks (because the hook scheduled some itself, or dropped the
    /// body later), it starts a thread without the hook.
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

    /// Sets the maximum number of threads that run tasks, from 1 to 1024. Defaults to 64.
    ///
    /// The timer starts more threads when tasks block, and ends threads that have nothing to do.
    pub fn workers(mut self, max: usize) -> Self {
        self.executor = Some(Executor::Workers(max));
        self
    }

    /// Runs all tasks on the leader, the thread that waits for deadlines, in order of deadline.
    ///
    /// A task that blocks delays all others.
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

    /// Passes every due task to a function, which runs it elsewhere: on a thread pool, or on an async
    /// runtime. The function should not block.
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

    /// Starts no threads: tasks run on the thread that calls [`Timer::turn`].
    ///
    /// This is for event loops. A loop sleeps until [`Timer::next_deadline`] and then calls `turn`.
    /// If other threads schedule too, a [`wake_hook`](Self::wake_hook) wakes the loop. The example
    /// `event_loop` is a server built on `mio`.
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

    /// Sets a callback that wakes the event loop of a [`caller_driven`](Self::caller_driven) timer.
    ///
    /// The timer calls it when any thread schedules something that is due before the loop wakes up.
    /// The loop is assumed to sleep until the time that [`Timer::next_deadline`] last returned, to
    /// sleep without end before its first call of `next_deadline`, and to be awake from
    /// [`Timer::turn`] until it calls `next_deadline` again.
    ///
    /// The hook runs on the thread that schedules, and no lock is held. It should only wake the loop,
    /// with `mio::Waker`, an eventfd or a channel. A panic in the hook is caught and logged.
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

    /// Sets a callback that receives the payload of a task's panic. Without it, panics are still
    /// caught, counted and logged.
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

    /// Uses a clock that is advanced by hand, for tests. The timer starts no threads: tasks run on
    /// the thread that advances the clock.
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

    /// Sets the number of shards, rounded up to a power of two, for tests and measurements. A timer
    /// with one shard needs less memory when many threads use it.
    #[doc(hidden)]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards.clamp(1, MAX_SHARDS));
        self
    }

    /// Builds the timer. Its first thread starts with the first task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder().tick(Duration::from_micros(100)).build()?;
    /// let error = Timer::builder().tick(Duration::ZERO).build().unwrap_err();
    /// assert_eq!(error.to_string(), "tick must be between 1 µs and 1 day, got 0ns");
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that names the value and its bounds if a setting is invalid.
    pub fn build(self) -> Result<Timer, BuildError> {
        let timer = self.build_quietly();
        warn_of_many_timers();
        timer
    }

    /// Builds the timer without logging. A `tracing` subscriber that itself uses Tickwheel must not
    /// be called under a lock, or while the process-wide timer is being created.
    pub(crate) fn build_quietly(self) -> Result<Timer, BuildError> {
        if !(MIN_TICK..=MAX_TICK).contains(&self.tick) {
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

/// Returns the default number of shards: several per core. With one shard per core, a thread that is
/// preempted while it holds a lock would block the next thread on the same core. Loom models use one
/// shard unless they ask for more.
fn default_shards(cores: usize) -> usize {
    if cfg!(tickwheel_loom) { 1 } else { (4 * cores).min(MAX_SHARDS) }
}

/// Counts a new timer.
pub(crate) fn count_live() {
    LIVE_TIMERS.fetch_add(1, Ordering::Relaxed);
}

/// Logs a warning, once per process, if too many timers are alive. No lock may be held.
pub(crate) fn warn_of_many_timers() {
    let live = LIVE_TIMERS.load(Ordering::Relaxed);
    if live > MANY_TIMERS && !WARNED.swap(true, Ordering::Relaxed) {
        panics::log(|| {
            tracing::warn!(
                live,
                "more than {MANY_TIMERS} timers are alive in this process; share one timer \
                 instead: it holds millions of tasks"
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
