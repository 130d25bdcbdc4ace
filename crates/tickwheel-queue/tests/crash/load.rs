//! The load: producers, which put, cancel and move their own jobs, and workers, which process all
//! jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tickwheel_queue::cron::Misfire;
use tickwheel_queue::{
    Error, IdempotencyKey, Job, JobId, NewJob, NewSchedule, PutKind, Queues, Retry, Time,
};

use crate::chance;
use crate::log::{Event, Log};

pub(crate) const QUEUE: &str = "load";
const PRODUCERS: usize = 3;
const WORKERS: usize = 2;
/// The schedule that puts jobs in addition to the producers.
pub(crate) const SCHEDULE: &str = "beat";
pub(crate) const PERIOD: Duration = Duration::from_millis(50);
/// The number of keys of each producer.
const KEYS: u64 = 8;

pub(crate) struct Load {
    queues: Queues,
    round: u64,
    seq: AtomicU64,
    pub(crate) stop: Arc<AtomicBool>,
}

/// A thread's view of the load.
struct Hand<'a> {
    load: &'a Load,
    log: Log,
}

impl Load {
    pub(crate) fn new(queues: Queues, round: u64) -> Self {
        Self { queues, round, seq: AtomicU64::new(0), stop: Arc::default() }
    }

    /// Runs the load until it is stopped or the queue fails.
    pub(crate) fn run(&self, log: impl Fn(usize) -> Log) {
        // Every round declares the schedule again; it continues where it was.
        let schedule = NewSchedule::new(SCHEDULE, PERIOD, NewJob::new(QUEUE, "beat"))
            .misfire(Misfire::All { limit: 1_000 });
        let answer = self.queues.put_schedule(schedule).wait();
        assert!(is_gone(&answer) || answer.is_ok(), "{answer:?}");
        std::thread::scope(|scope| {
            for thread in 0..PRODUCERS {
                let hand = Hand { load: self, log: log(thread) };
                scope.spawn(move || hand.produce(thread));
            }
            for thread in PRODUCERS..PRODUCERS + WORKERS {
                let hand = Hand { load: self, log: log(thread) };
                scope.spawn(move || hand.work());
            }
        });
    }
}

/// Returns the occurrence that a schedule put this job for.
pub(crate) fn occurrence(job: &Job) -> Option<Time> {
    let (_, text) = job.headers.iter().find(|(name, _)| name == "tickwheel-occurrence")?;
    text.parse().ok().map(Time::from_millis)
}

/// The idempotency key of a put of this job.
pub(crate) fn once_key(id: JobId) -> IdempotencyKey {
    IdempotencyKey::new(id.to_string())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    since.as_millis() as u64
}

/// Returns `true` if the queue has failed or closed, so that the outcome of the operation is
/// unknown.
fn is_gone<T>(answer: &Result<T, Error>) -> bool {
    use Error::{Closed, Failed, Unavailable, Unreadable};
    matches!(answer, Err(Failed(_) | Unavailable(_) | Unreadable(_) | Closed))
}

impl Hand<'_> {
    fn write(&self, event: Event) -> u64 {
        let seq = self.load.seq.fetch_add(1, Ordering::SeqCst);
        self.log.write(self.load.round, seq, event);
        seq
    }

    fn goes_on(&self) -> bool {
        !self.load.stop.load(Ordering::Relaxed)
    }

    fn produce(&self, thread: usize) {
        let mut own: Vec<JobId> = Vec::new();
        let mut holders: Vec<Option<JobId>> = vec![None; KEYS as usize];
        while self.goes_on() {
            let going = match (chance(10), own.is_empty()) {
                (0..6, _) | (_, true) => self.put(thread, &mut own, &mut holders),
                (6..8, _) => self.cancel(own.swap_remove(chance(own.len() as u64) as usize)),
                _ => self.reschedule(own[chance(own.len() as u64) as usize]),
            };
            if !going {
                return;
            }
            if own.len() > 200 {
                own.drain(..100);
            }
        }
    }

    fn put(&self, thread: usize, own: &mut Vec<JobId>, holders: &mut [Option<JobId>]) -> bool {
        let due = now() + chance(60);
        let id = JobId::new(Time::from_millis(due));
        let mut job =
            NewJob::new(QUEUE, "x".repeat(chance(400) as usize)).id(id).at(Time::from_millis(due));
        let mut holder = None;
        let (has_key, is_once) = (chance(3) == 0, chance(2) == 0);
        if has_key {
            let key = chance(KEYS) as usize;
            job = job.key(format!("{}-{thread}-{key}", self.load.round));
            holder = holders[key].replace(id);
        } else if is_once {
            self.write(Event::Once { id, due });
        }
        if let Some(holder) = holder {
            self.write(Event::MayReplace { id: holder });
        }
        self.write(Event::Put { id, due });
        let answer = if is_once && !has_key {
            self.load.queues.put_once(once_key(id), [job]).wait().and_then(|put| {
                assert!(!put.is_replay, "the key of {id} is new");
                put.puts.into_iter().next().expect("one job was put")
            })
        } else {
            self.load.queues.put(job).wait()
        };
        if is_gone(&answer) {
            return false;
        }
        let put = answer.expect("a put is not refused");
        let replaced = match put.kind {
            PutKind::Replaced(old) => Some(old),
            _ => None,
        };
        self.write(Event::PutDone { id: put.id, replaced });
        if let Some(holder) = holder.filter(|holder| replaced != Some(*holder)) {
            self.write(Event::ReplaceOver { id: holder });
        }
        own.push(id);
        true
    }

    fn cancel(&self, id: JobId) -> bool {
        self.write(Event::Cancel { id });
        let answer = self.load.queues.cancel(id).wait();
        if is_gone(&answer) {
            return false;
        }
        self.write(Event::CancelDone { id, done: answer.is_ok() });
        true
    }

    fn reschedule(&self, id: JobId) -> bool {
        let due = now() + chance(100);
        self.write(Event::Move { id, due });
        let answer = self.load.queues.reschedule(id, Time::from_millis(due)).wait();
        if is_gone(&answer) {
            return false;
        }
        self.write(Event::MoveDone { id, done: answer.is_ok() });
        true
    }

    fn work(&self) {
        let (lease, wait) = (Duration::from_millis(300), Duration::from_millis(20));
        while self.goes_on() {
            let begun = self.load.seq.fetch_add(1, Ordering::SeqCst);
            let jobs = 1 + chance(5) as usize;
            let answer = self.load.queues.reserve_within(QUEUE, jobs, lease, wait).wait();
            if is_gone(&answer) {
                return;
            }
            let received = now();
            for delivery in answer.expect("a reserve is not refused") {
                let (id, due) = (delivery.job.id, delivery.job.due.as_millis());
                if occurrence(&delivery.job).is_some() {
                    self.write(Event::Fired { id });
                }
                let until = delivery.job.leased_until.expect("it is leased").as_millis();
                self.write(Event::Delivered { id, begun, due, until, now: received });
                if !self.finish(delivery.lease) {
                    return;
                }
            }
        }
    }

    fn finish(&self, lease: tickwheel_queue::Lease) -> bool {
        let id = lease.id;
        match chance(10) {
            0 => true, // Forgotten: its lease runs out.
            1 | 2 => {
                self.write(Event::Fail { id });
                let retry = Retry::After(Duration::from_millis(chance(50)));
                let answer = self.load.queues.fail(lease, "no luck", retry).wait();
                if is_gone(&answer) {
                    return false;
                }
                self.write(Event::FailDone { id, done: answer.is_ok() });
                true
            }
            _ => {
                self.write(Event::Ack { id });
                let answer = self.load.queues.ack(lease).wait();
                if is_gone(&answer) {
                    return false;
                }
                self.write(Event::AckDone { id, done: answer.is_ok() });
                true
            }
        }
    }
}
