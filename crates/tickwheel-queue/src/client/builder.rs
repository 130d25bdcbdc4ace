//! Configuring and opening queues.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tickwheel::ManualClock;

use crate::client::queues::Queues;
use crate::client::stepper::Stepper;
use crate::engine::EngineOptions;
use crate::model::error::{Error, OpenError};
use crate::model::job::Job;
use crate::model::placement::Placement;
use crate::model::settings::Limits;
use crate::model::stats::Durability;
use crate::model::time::{Clock, TimeFloor};
use crate::runtime::core::Core;
use crate::runtime::writer::{Writer, WriterOptions};
use crate::store::{Directory, Disk, MemoryDisk, StoreError, StoreOptions};

/// The largest value of a row, minus room for the rest of the job.
const LARGEST: u64 = 1 << 30;
/// Keys of the store have 16-bit lengths.
const LONGEST: u64 = 60_000;
/// The bounds of a reserve, in bytes.
const RESERVE: std::ops::RangeInclusive<u64> = 16 << 20..=1 << 30;
/// Configures and opens queues.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{Durability, Limits, Queues};
///
/// let folder = tempfile::tempdir()?;
/// let queues = Queues::builder()
///     .durability(Durability::Sync)
///     .horizon(Duration::from_secs(60))
///     .limits(Limits { pending: 1_000_000, ..Limits::default() })
///     .cache(64 << 20)
///     .open(folder.path())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    durability: Durability,
    horizon: Duration,
    near: usize,
    patience: Duration,
    limits: Limits,
    cache: u64,
    open_files: usize,
    measure: fn(&Job) -> usize,
    events: usize,
    salvage: bool,
    reserve: u64,
    clock: Clock,
    placement: Option<Placement>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            horizon: Duration::from_secs(300),
            near: 500_000,
            patience: Duration::from_micros(200),
            limits: Limits::default(),
            cache: StoreOptions::default().cache,
            open_files: StoreOptions::default().open_files,
            measure: Job::bytes,
            events: 10_000,
            salvage: false,
            reserve: StoreOptions::default().reserve,
            clock: Clock::default(),
            placement: None,
        }
    }
}

impl Builder {
    /// Sets how durable an answer is. Defaults to [`Durability::Sync`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how far ahead jobs are kept in memory: 1 second to 1 day. Defaults to 5 minutes.
    #[must_use]
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// Sets the approximate number of jobs in memory, of about 100 bytes each. Defaults to 500,000.
    /// Each queue may always hold a few.
    #[must_use]
    pub fn near(mut self, jobs: usize) -> Self {
        self.near = jobs;
        self
    }

    /// Sets how long a commit waits for callers that shared the last one, at most 1 second.
    /// Defaults to 200 µs. A single caller never waits, and commits without a sync never wait.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the limits. Whatever exceeds one is refused.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the bytes of cache for blocks read from disk. Defaults to 32 MiB.
    #[must_use]
    pub fn cache(mut self, bytes: u64) -> Self {
        self.cache = bytes;
        self
    }

    /// Sets the number of table files that are kept open, at least 10. Defaults to 900. A few
    /// others are open for short times.
    #[must_use]
    pub fn open_files(mut self, files: usize) -> Self {
        self.open_files = files;
        self
    }

    /// Sets how the size of a job is measured. A page of a list and an answer to `reserve` end once
    /// their jobs have 16 MiB by this measure. Defaults to the bytes of payload and headers. A
    /// service that sends jobs in another form measures that form.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::builder().measure(|_| 8 << 20).in_memory()?;
    /// queues.put_all((0..5).map(|_| NewJob::new("mail", ""))).wait()?;
    /// assert_eq!(queues.reserve("mail", 5, None).wait()?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn measure(mut self, bytes: fn(&Job) -> usize) -> Self {
        self.measure = bytes;
        self
    }

    /// Sets the number of events that are kept for listeners, of about 100 bytes each. Defaults to
    /// 10,000. Without a listener none are kept.
    #[must_use]
    pub fn events(mut self, events: usize) -> Self {
        self.events = events;
        self
    }

    /// Opens a damaged directory with what can be read of it, instead of refusing to open it.
    ///
    /// The whole store is read, the index is repaired from the jobs, and jobs are counted again.
    /// Unreadable parts are omitted: their files are kept in the folder `damaged`, each part is
    /// logged with its file, and [`Stats::damaged`](crate::Stats::damaged) counts the parts and the
    /// lost jobs. With millions of jobs this takes a while, so use it only for the first opening
    /// after damage was reported.
    #[must_use]
    pub fn salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }

    /// Sets the bytes on disk that are reserved for when the disk is full: 0 for none, or 16 MiB to
    /// 1 GiB. Defaults to 32 MiB, and is at most a sixteenth of
    /// [`Limits::disk`](crate::Limits::disk), but not less than 16 MiB.
    ///
    /// The reserve is released when the disk is full. While it lasts, jobs can still be reserved,
    /// acknowledged, cancelled and removed; an acknowledgement takes about 300 bytes. It is
    /// allocated again once there is room.
    #[must_use]
    pub fn reserve(mut self, bytes: u64) -> Self {
        self.reserve = bytes;
        self
    }

    /// Uses a clock that tests move, instead of the system's.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::ManualClock;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let clock = ManualClock::new();
    /// let queues = Queues::builder().clock(clock.clone()).in_memory()?;
    /// queues.put(NewJob::new("orders", "close").delay(Duration::from_secs(1_800))).wait()?;
    /// assert!(queues.reserve("orders", 1, None).wait()?.is_empty());
    /// clock.advance(Duration::from_secs(1_801));
    /// assert_eq!(queues.reserve("orders", 1, None).wait()?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock.manual = Some(clock);
        self
    }

    /// Sets the time that the present never falls short of, for replicated stores.
    #[doc(hidden)]
    #[must_use]
    pub fn time_floor(mut self, floor: TimeFloor) -> Self {
        self.clock.floor = Some(floor);
        self
    }

    /// Sets which queues the store has, if it is one of several.
    #[doc(hidden)]
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Opens the queues in a directory, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// If the directory cannot be opened; the error says why and what to do.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Queues, OpenError> {
        let path = path.as_ref();
        self.open_on(Directory::new(path), path)
    }

    /// Opens queues in memory, which are gone when they are closed.
    ///
    /// # Errors
    ///
    /// If a setting is out of bounds.
    pub fn in_memory(self) -> Result<Queues, OpenError> {
        self.open_disk(MemoryDisk::new())
    }

    /// Opens queues on any kind of disk, for tests of crashes.
    ///
    /// # Errors
    ///
    /// If the disk cannot be opened; the error says why and what to do.
    #[doc(hidden)]
    pub fn open_disk(self, disk: impl Disk + 'static) -> Result<Queues, OpenError> {
        self.open_on(disk, Path::new("the store"))
    }

    /// Opens queues whose writer has no thread: the caller turns it by hand, for simulations.
    ///
    /// # Errors
    ///
    /// If the disk cannot be opened; the error says why and what to do.
    #[doc(hidden)]
    pub fn open_stepped(self, disk: impl Disk + 'static) -> Result<(Queues, Stepper), OpenError> {
        let (core, writer) = self.start(disk, Path::new("the store"))?;
        Ok((Queues::new(Arc::clone(&core), None), Stepper::new(core, writer)))
    }

    fn open_on(self, disk: impl Disk + 'static, path: &Path) -> Result<Queues, OpenError> {
        let (core, writer) = self.start(disk, path)?;
        let thread = std::thread::Builder::new().name("tickwheel-writer".into());
        let thread = thread
            .spawn({
                let core = Arc::clone(&core);
                move || run_writer(&core, writer)
            })
            .map_err(|error| {
                let why = format!("no thread for the writer: {error}");
                open_error(path.to_owned(), StoreError::Io(why))
            })?;
        Ok(Queues::new(core, Some(thread)))
    }

    fn start(
        self,
        disk: impl Disk + 'static,
        path: &Path,
    ) -> Result<(Arc<Core>, Writer), OpenError> {
        self.check()?;
        let store_options = StoreOptions {
            cache: self.cache,
            open_files: self.open_files,
            salvage: self.salvage,
            reserve: self.reserve_within_limit(),
            ..StoreOptions::default()
        };
        let at = |error| open_error(path.to_owned(), error);
        let store = disk.open(&store_options).map_err(at)?;
        let core = Core::new(store.clone(), self.clock, self.events, self.measure);
        let options = WriterOptions {
            engine: EngineOptions {
                limits: self.limits,
                horizon: self.horizon,
                near: self.near,
                measure: self.measure,
                placement: self.placement,
            },
            store: store_options,
            durability: self.durability,
            patience: self.patience,
        };
        let writer = Writer::new(&core, Box::new(disk), Arc::clone(&store), options)
            .map_err(|error| at(store.explain(error)))?;
        Ok((core, writer))
    }

    /// Limits the reserve to a sixteenth of the limit of the disk.
    fn reserve_within_limit(&self) -> u64 {
        let most = (self.limits.disk / 16).max(*RESERVE.start());
        self.reserve.min(most)
    }

    fn check(&self) -> Result<(), OpenError> {
        let wrong = |why: String| Err(OpenError::Setting(why));
        if self.horizon < Duration::from_secs(1) || self.horizon > Duration::from_secs(86_400) {
            return wrong(format!(
                "the horizon must be between 1 s and 1 day, got {:?}",
                self.horizon
            ));
        }
        if self.patience > Duration::from_secs(1) {
            return wrong(format!(
                "the wait for a group must be at most 1 s, got {:?}",
                self.patience
            ));
        }
        if let Durability::Interval(interval) = self.durability
            && (interval.is_zero() || interval > Duration::from_secs(60))
        {
            return wrong(format!(
                "the interval between syncs must be between 1 ns and 60 s, got {interval:?}; for a \
                 sync with every commit use `Durability::Sync`"
            ));
        }
        if self.reserve != 0 && !RESERVE.contains(&self.reserve) {
            return wrong(format!(
                "a reserve must have 0 or from {} to {} bytes, got {}",
                RESERVE.start(),
                RESERVE.end(),
                self.reserve
            ));
        }
        if self.events == 0 {
            return wrong("the number of events must be at least 1, got 0".into());
        }
        if self.limits.payload > LARGEST || self.limits.headers > LARGEST {
            return wrong(format!(
                "the limits of payload and header bytes must be at most {LARGEST}, got {} and {}",
                self.limits.payload, self.limits.headers
            ));
        }
        if self.limits.key > LONGEST || self.limits.queue_name > LONGEST {
            return wrong(format!(
                "the limits of the bytes of a key and of a queue's name must be at most {LONGEST}, \
                 got {} and {}",
                self.limits.key, self.limits.queue_name
            ));
        }
        Ok(())
    }
}

/// Runs the writer. If it panics, no caller is left waiting: promises that are dropped answer
/// for themselves, and the inbox takes no more of them.
fn run_writer(core: &Core, writer: Writer) {
    core.claim_thread();
    let outcome = catch_unwind(AssertUnwindSafe(|| writer.run()));
    close_core(core);
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// Refuses all further and waiting requests.
pub(super) fn close_core(core: &Core) {
    core.inbox.close();
    core.set_store(Err(Error::Closed));
    core.events.close();
    core.inbox.take(&mut Vec::new(), None, 0, Duration::ZERO);
}

fn open_error(path: PathBuf, error: StoreError) -> OpenError {
    match error {
        StoreError::Locked => OpenError::Locked { path },
        StoreError::NewerVersion { found, known } => OpenError::NewerVersion { path, found, known },
        StoreError::NotAQueue(why) => OpenError::NotAQueue { path, why },
        StoreError::Full(why) | StoreError::Io(why) | StoreError::Replaced(why) => {
            OpenError::Io { path, why }
        }
        StoreError::Damaged(why) => OpenError::Damaged { path, why },
    }
}
