//! The accounts: the operations that clients began, the answers that they got, and the checks that
//! follow from them.
//!
//! Clients record the beginning and the answer of each operation with the next number of one
//! counter. An operation that begins after the answer of another one takes effect after it. An
//! operation that was never answered may have happened or not; from then on less is known about its
//! job, and fewer checks apply to it.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a record.
pub(crate) type Stamp = u64;

#[derive(Debug, Default)]
struct Facts {
    /// Whether the put was answered, so that the job was certainly in the queue.
    is_put: bool,
    /// Operations without an answer, so far or for good, that may end the job.
    ending: u32,
    /// When the job was first certainly gone.
    gone: Option<Stamp>,
    /// The due time, if it is certain.
    due: Option<u64>,
    /// The end of its last lease; 0 once it may have been released.
    until: u64,
}

/// The accounts of all clients.
#[derive(Debug, Default)]
pub(crate) struct Account {
    counter: AtomicU64,
    jobs: Mutex<HashMap<String, Facts>>,
    errors: Mutex<Vec<String>>,
    pub(crate) puts: AtomicU64,
    pub(crate) deliveries: AtomicU64,
    pub(crate) acks: AtomicU64,
    pub(crate) cancels: AtomicU64,
    pub(crate) cut_off: AtomicU64,
}

/// A delivery in an answer.
#[derive(Debug)]
pub(crate) struct Delivered<'a> {
    pub(crate) id: &'a str,
    /// When the reserve was begun.
    pub(crate) begun: Stamp,
    /// The due time in the job.
    pub(crate) due: u64,
    /// The end and the length of the lease.
    pub(crate) until: u64,
    pub(crate) lease: u64,
    /// When the answer came in.
    pub(crate) now: u64,
}

impl Account {
    pub(crate) fn stamp(&self) -> Stamp {
        self.counter.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn error(&self, what: String) {
        self.errors.lock().expect("no panic").push(what);
    }

    fn job(&self, id: &str, change: impl FnOnce(&mut Facts)) {
        change(self.jobs.lock().expect("no panic").entry(id.to_owned()).or_default());
    }

    /// Records that a put is about to be sent.
    pub(crate) fn put(&self, id: &str, due: u64) {
        self.job(id, |facts| facts.due = Some(due));
    }

    pub(crate) fn put_done(&self, id: &str) {
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.job(id, |facts| facts.is_put = true);
    }

    /// Records that a cancel or an ack is about to be sent.
    pub(crate) fn ending(&self, id: &str) {
        self.job(id, |facts| facts.ending += 1);
    }

    /// Records its answer: whether the job is gone.
    pub(crate) fn ended(&self, id: &str, is_gone: bool) {
        let stamp = self.stamp();
        self.job(id, |facts| {
            facts.ending -= 1;
            if is_gone {
                facts.gone.get_or_insert(stamp);
            }
        });
    }

    /// Records that a reschedule or a fail is about to be sent: from now on only the queue knows
    /// the due time.
    pub(crate) fn moving(&self, id: &str, gives_back: bool) {
        self.job(id, |facts| {
            facts.due = None;
            if gives_back {
                facts.until = 0;
            }
        });
    }

    pub(crate) fn delivered(&self, delivery: &Delivered) {
        self.deliveries.fetch_add(1, Ordering::Relaxed);
        let &Delivered { id, begun, due, until, lease, now } = delivery;
        let mut wrong = Vec::new();
        let mut jobs = self.jobs.lock().expect("no panic");
        match jobs.get_mut(id) {
            None => wrong.push(format!("{id} was delivered, and nobody put it")),
            Some(facts) => {
                if now < due {
                    wrong.push(format!("{id} was delivered at {now}, due at {due}"));
                }
                if facts.gone.is_some_and(|gone| gone < begun) {
                    wrong.push(format!("{id} was delivered after it was done or cancelled"));
                }
                if let Some(known) = facts.due.filter(|known| *known != due) {
                    wrong.push(format!("{id} was delivered as due at {due}, but was {known}"));
                }
                // Clients may see answers in another order than the server gave them.
                if facts.until != 0 && until.abs_diff(facts.until) < lease {
                    let before = facts.until;
                    wrong.push(format!("{id} is leased to {until} and to {before} at once"));
                }
                facts.until = facts.until.max(until);
            }
        }
        drop(jobs);
        self.errors.lock().expect("no panic").extend(wrong);
    }

    /// Compares the accounts with the ids of all live and dead jobs, while no client is active.
    /// Returns the jobs that should exist and do not.
    pub(crate) fn check(&self, found: &[String]) -> Vec<String> {
        let jobs = self.jobs.lock().expect("no panic");
        let mut errors = self.errors.lock().expect("no panic");
        for id in found {
            match jobs.get(id) {
                None => errors.push(format!("{id} is in the queue, and nobody put it")),
                Some(facts) if facts.gone.is_some() => {
                    errors.push(format!("{id} is there, but was done or cancelled"));
                }
                Some(_) => {}
            }
        }
        let found: HashSet<&String> = found.iter().collect();
        let has_to_be_there =
            |facts: &Facts| facts.is_put && facts.gone.is_none() && facts.ending == 0;
        let missing =
            jobs.iter().filter(|(id, facts)| has_to_be_there(facts) && !found.contains(id));
        missing.map(|(id, _)| id.clone()).collect()
    }

    /// Checks that every job whose put was answered is done or cancelled.
    pub(crate) fn check_all_gone(&self) {
        let jobs = self.jobs.lock().expect("no panic");
        let left = jobs.iter().filter(|(_, facts)| facts.is_put && facts.gone.is_none());
        let mut errors = self.errors.lock().expect("no panic");
        errors.extend(left.map(|(id, _)| format!("{id} was put and never worked off")));
    }

    /// Returns the errors, if there are any.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let errors = self.errors.lock().expect("no panic");
        if errors.is_empty() {
            return Ok(());
        }
        let shown = errors.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        Err(format!("{} promises were broken:\n{shown}", errors.len()))
    }

    pub(crate) fn summary(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "{} puts, {} deliveries, {} acks and {} cancels were answered, {} requests were cut off",
            count(&self.puts),
            count(&self.deliveries),
            count(&self.acks),
            count(&self.cancels),
            count(&self.cut_off),
        )
    }
}
