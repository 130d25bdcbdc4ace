//! The commands that reserve jobs, say what became of them, and make others ready.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tickwheel_queue::{Delivery, Error, List, Offer, Order, SettingsPatch, State};

use super::command::Command;
use super::job::lease_of;
use super::number::Number;
use super::priority::of_pri;
use super::session::{Held, NOT_FOUND, Next, OUT_OF_MEMORY, Session};
use super::tubes::Reference;
use crate::http::memory::Share;
use crate::tokens::Scope;

/// The last part of a job's time to run, in which its worker is not made to wait for another job.
const SAFETY_MARGIN: Duration = Duration::from_secs(1);
/// The line of an answer with a job.
const LINE_BYTES: usize = 64;
/// Delayed jobs that one step of a `kick` makes ready.
const KICK_STEP: usize = 1_000;

impl Session {
    pub(super) async fn work(&mut self, command: Command) -> io::Result<Next> {
        let scope = match command {
            Command::Kick(_) | Command::KickJob(_) | Command::PauseTube(..) => Scope::Admin,
            // Deleting a job that no worker has is a right of producers.
            Command::Delete(_) => Scope::Produce,
            _ => Scope::Consume,
        };
        if !self.check(scope) {
            return Ok(Next::Continue);
        }
        match command {
            Command::Reserve(timeout) => return self.reserve(timeout).await,
            Command::ReserveJob(id) => self.reserve_job(id).await,
            Command::Delete(id) => self.delete(id).await,
            Command::Release { id, pri, delay } => self.release(id, pri, delay).await,
            Command::Bury { id, pri } => self.bury(id, pri).await,
            Command::Touch(id) => self.touch(id).await,
            Command::Kick(bound) => self.kick(bound).await,
            Command::KickJob(id) => self.kick_job(id).await,
            Command::PauseTube(tube, delay) => self.pause_tube(&tube, delay).await,
            _ => {}
        }
        Ok(Next::Continue)
    }

    /// Waits for a job, until the timeout or until a reserved job comes near its end.
    async fn reserve(&mut self, timeout: Option<u32>) -> io::Result<Next> {
        self.became_worker();
        let now = self.app.now();
        self.held.retain(|_, held| held.until > now);
        let timeout = timeout.map_or(Duration::MAX, |seconds| Duration::from_secs(seconds.into()));
        let margin = self.held.values().map(|held| held.until.since(now)).min();
        let margin = margin.map_or(Duration::MAX, |left| left.saturating_sub(SAFETY_MARGIN));
        let charge = Charge::new(self.app.memory().share());
        let watched: Arc<[Arc<str>]> = self.watched.as_slice().into();
        let answer = self.queues.reserve_any(
            Arc::clone(&watched),
            timeout.min(margin),
            lease_of,
            charge.admit(),
        );
        let (app, tubes) = (self.app.clone(), Arc::clone(&self.tubes));
        for tube in &*watched {
            tubes.enter(tube, Reference::Waiting);
            app.insight().workers.note(tube, self.worker_name(), timeout.min(margin));
        }
        tubes.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let reserved = self.wait_with_client(answer).await;
        tubes.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        for tube in &*watched {
            tubes.leave(tube, Reference::Waiting);
            app.insight().workers.note_end(tube, self.worker_name());
        }
        match reserved? {
            Some(Ok(Some(delivery))) => {
                self.deliver(delivery);
                // The share goes when the answer is written.
                self.flush().await?;
            }
            Some(Ok(None)) if margin <= timeout => self.respond("DEADLINE_SOON\r\n"),
            Some(Ok(None)) => self.respond("TIMED_OUT\r\n"),
            Some(Err(error)) => self.respond_error(&error),
            None => {
                self.respond("TIMED_OUT\r\n");
                return Ok(Next::Close);
            }
        }
        drop(charge);
        Ok(Next::Continue)
    }

    async fn reserve_job(&mut self, id: u64) {
        let id = match self.find(id).await {
            Ok(Some(id)) => id,
            Ok(None) => return self.respond(NOT_FOUND),
            Err(error) => return self.respond_error(&error),
        };
        self.became_worker();
        let charge = Charge::new(self.app.memory().share());
        match self.queues.reserve_job(id, lease_of, charge.admit()).await {
            Ok(Some(delivery)) => {
                let (workers, queue) = (&self.app.insight().workers, &delivery.job.queue);
                workers.note(queue, self.worker_name(), Duration::ZERO);
                self.deliver(delivery);
            }
            Ok(None) => self.respond(NOT_FOUND),
            Err(error) => self.respond_error(&error),
        }
    }

    /// Answers with a job that is reserved from now on.
    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { lease, job, .. } = delivery;
        let number = Number::of(job.id);
        let until = job.leased_until.unwrap_or_default();
        let since = job.leased_since.unwrap_or_default();
        let tube = Arc::clone(&job.queue);
        let held = Held { lease, until, time_to_run: until.since(since), tube };
        self.held.insert(number, held);
        self.show(number, job.id);
        let line = format!("RESERVED {} {}\r\n", number.0, job.payload.len());
        self.respond_with(&line, &job.payload);
    }

    /// Deletes a job that this connection has not reserved.
    async fn delete(&mut self, id: u64) {
        let job = match self.find(id).await {
            Ok(Some(id)) => id,
            Ok(None) => return self.respond(NOT_FOUND),
            Err(error) => return self.respond_error(&error),
        };
        let tube = self.queues.get(job).await.ok().flatten().map(|job| job.queue);
        match self.queues.remove_job(job).await {
            Ok(_) => {
                if let Some(tube) = tube {
                    self.tubes.change(&tube, |tube| tube.deletes += 1);
                }
                self.respond("DELETED\r\n");
            }
            Err(error) => self.respond_error(&error),
        }
    }

    async fn release(&mut self, id: u64, pri: u32, delay: u32) {
        let Some(held) = self.held.remove(&Number(id)) else { return self.respond(NOT_FOUND) };
        let delay = Duration::from_secs(delay.into());
        match self.queues.release_with_priority(held.lease, delay, of_pri(pri)).await {
            Ok(()) => self.respond("RELEASED\r\n"),
            Err(error) => self.keep_held(id, held, &error),
        }
    }

    async fn bury(&mut self, id: u64, pri: u32) {
        let Some(held) = self.held.remove(&Number(id)) else { return self.respond(NOT_FOUND) };
        match self.queues.bury(held.lease, "buried", of_pri(pri)).await {
            Ok(_) => self.respond("BURIED\r\n"),
            Err(error) => self.keep_held(id, held, &error),
        }
    }

    async fn touch(&mut self, id: u64) {
        let Some(held) = self.held.remove(&Number(id)) else { return self.respond(NOT_FOUND) };
        match self.queues.extend(held.lease, held.time_to_run).await {
            Ok(until) => {
                self.held.insert(Number(id), Held { until, ..held });
                self.respond("TOUCHED\r\n");
            }
            Err(error) => self.keep_held(id, held, &error),
        }
    }

    /// Answers with an error. The connection keeps the job unless the error says that its time is
    /// over or that it is gone.
    fn keep_held(&mut self, id: u64, held: Held, error: &Error) {
        if !matches!(error, Error::StaleLease { .. } | Error::NotFound(_)) {
            self.held.insert(Number(id), held);
        }
        self.respond_error(error);
    }

    /// Makes buried jobs of the tube in use ready, or delayed ones if none is buried.
    async fn kick(&mut self, bound: u64) {
        let tube = self.used.to_string();
        let kicked = match self.queues.queue(tube.clone()).await {
            Ok(None) => Ok(0),
            Ok(Some(queue)) if queue.dead > 0 => self.queues.kick_some(tube, bound).await,
            Ok(Some(_)) => self.kick_delayed(&tube, bound).await,
            Err(error) => Err(error),
        };
        match kicked {
            Ok(kicked) => self.respond(format!("KICKED {kicked}\r\n")),
            Err(error) => self.respond_error(&error),
        }
    }

    async fn kick_delayed(&self, tube: &str, bound: u64) -> Result<u64, Error> {
        let mut kicked = 0;
        while kicked < bound {
            let step = usize::try_from(bound - kicked).unwrap_or(usize::MAX).min(KICK_STEP);
            let list = List::of(tube).state(State::Scheduled).limit(step);
            let ids: Vec<_> =
                self.queues.list(list).await?.jobs.into_iter().map(|job| job.id).collect();
            if ids.is_empty() {
                break;
            }
            let moved = ids.into_iter().map(|id| (id, Duration::ZERO));
            let moved = self.queues.reschedule_all(moved).await?;
            let count = moved.iter().filter(|result| result.is_ok()).count();
            if count == 0 {
                break;
            }
            kicked += count as u64;
        }
        Ok(kicked)
    }

    async fn kick_job(&mut self, id: u64) {
        let id = match self.find(id).await {
            Ok(Some(id)) => id,
            Ok(None) => return self.respond(NOT_FOUND),
            Err(error) => return self.respond_error(&error),
        };
        let kicked = match self.queues.kick(id).await {
            Err(Error::WrongState { state: State::Scheduled, .. }) => {
                self.queues.reschedule(id, Duration::ZERO).await.map(drop)
            }
            kicked => kicked,
        };
        match kicked {
            Ok(()) => self.respond("KICKED\r\n"),
            Err(error) => self.respond_error(&error),
        }
    }

    async fn pause_tube(&mut self, tube: &str, delay: u32) {
        if !self.exists(tube).await {
            return self.respond(NOT_FOUND);
        }
        let length = Duration::from_secs(delay.into());
        let mut paused = self.queues.pause_for(tube, length).await;
        if matches!(paused, Err(Error::NoSuchQueue(_))) {
            // A tube that a connection refers to, and that has had no job yet.
            let patch = SettingsPatch { order: Some(Order::Priority), ..SettingsPatch::default() };
            paused = match self.queues.patch_settings(tube, patch).await {
                Ok(_) => self.queues.pause_for(tube, length).await,
                Err(error) => Err(error),
            };
        }
        match paused {
            Ok(()) => {
                self.tubes.change(tube, |tube| {
                    tube.pauses += 1;
                    tube.pause = delay.into();
                });
                self.respond("PAUSED\r\n");
            }
            Err(error) => self.respond_error(&error),
        }
    }

    /// Charges the largest job to the memory of the service; answers if there is no room.
    pub(super) fn charge_job(&mut self) -> Option<Share> {
        let most = usize::try_from(self.app.queue_limits().payload).unwrap_or(usize::MAX);
        let mut share = self.app.memory().share();
        if share.grow(most.saturating_add(LINE_BYTES)).is_err() {
            self.respond(OUT_OF_MEMORY);
            return None;
        }
        Some(share)
    }
}

/// The memory of an answer with a job, charged while the engine reserves the job.
struct Charge(Arc<Mutex<Share>>);

impl Charge {
    fn new(share: Share) -> Self {
        Self(Arc::new(Mutex::new(share)))
    }

    fn admit(&self) -> impl Fn(&Offer<'_>) -> bool + Send + Sync + 'static {
        let share = Arc::clone(&self.0);
        move |offer| {
            let mut share = share.lock().unwrap_or_else(PoisonError::into_inner);
            share.grow_to(offer.job.payload.len() + LINE_BYTES).is_ok()
        }
    }
}
