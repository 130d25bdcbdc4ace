//! The commands that look at jobs and tubes.

use std::collections::BTreeSet;

use tickwheel_queue::{Error, Job, List, QueueInfo, State};

use super::command::Command;
use super::job::state_name;
use super::number::Number;
use super::session::{NOT_FOUND, Session};
use super::stats;
use super::tubes::DEFAULT;
use crate::tokens::Scope;

impl Session {
    pub(super) async fn inspect(&mut self, command: Command) {
        if !self.check(Scope::Read) {
            return;
        }
        match command {
            Command::Peek(id) => self.peek(id).await,
            Command::PeekReady => self.peek_ready().await,
            Command::PeekDelayed => self.peek_first(State::Scheduled).await,
            Command::PeekBuried => self.peek_first(State::Dead).await,
            Command::Stats => self.stats().await,
            Command::StatsJob(id) => self.stats_job(id).await,
            Command::StatsTube(tube) => self.stats_tube(&tube).await,
            Command::ListTubes => match self.tube_names().await {
                Ok(names) => self.respond_document(&stats::list(names.iter().map(String::as_str))),
                Err(error) => self.respond_error(&error),
            },
            _ => {}
        }
    }

    fn respond_document(&mut self, text: &str) {
        self.respond_with(&format!("OK {}\r\n", text.len()), text.as_bytes());
    }

    async fn peek(&mut self, id: u64) {
        let Some(_share) = self.charge_job() else { return };
        match self.job(id).await {
            Ok(job) => self.respond_found(job),
            Err(error) => self.respond_error(&error),
        }
    }

    /// The job with a number; `None` if there is none, or it is done or cancelled.
    async fn job(&self, id: u64) -> Result<Option<Job>, Error> {
        let Some(id) = self.find(id).await? else { return Ok(None) };
        let job = self.queues.get(id).await?;
        Ok(job.filter(|job| state_name(job.state).is_some()))
    }

    async fn peek_ready(&mut self) {
        match self.queues.next_ready(self.used.to_string()).await {
            // What is in memory may be less than what is on disk.
            Ok(None) => self.peek_first(State::Ready).await,
            Ok(Some(id)) => {
                let Some(_share) = self.charge_job() else { return };
                match self.queues.get(id).await {
                    Ok(job) => self.respond_found(job),
                    Err(error) => self.respond_error(&error),
                }
            }
            Err(error) => self.respond_error(&error),
        }
    }

    /// Shows the first job of the tube in use that is in a state.
    async fn peek_first(&mut self, state: State) {
        let Some(_share) = self.charge_job() else { return };
        let list = List::of(self.used.to_string()).state(state).limit(1);
        match self.queues.list(list).await {
            Ok(page) => self.respond_found(page.jobs.into_iter().next()),
            Err(error) => self.respond_error(&error),
        }
    }

    fn respond_found(&mut self, job: Option<Job>) {
        let Some(job) = job else { return self.respond(NOT_FOUND) };
        let number = Number::of(job.id);
        self.show(number, job.id);
        let line = format!("FOUND {} {}\r\n", number.0, job.payload.len());
        self.respond_with(&line, &job.payload);
    }

    async fn stats_job(&mut self, id: u64) {
        let Some(_share) = self.charge_job() else { return };
        let job = match self.job(id).await {
            Ok(Some(job)) => job,
            Ok(None) => return self.respond(NOT_FOUND),
            Err(error) => return self.respond_error(&error),
        };
        let lease = match self.queues.queue(&*job.queue).await {
            Ok(queue) => queue.map_or(0, |queue| queue.settings.lease.as_secs()),
            Err(error) => return self.respond_error(&error),
        };
        match stats::of_job(&job, self.app.now(), lease) {
            Some(text) => self.respond_document(&text),
            None => self.respond(NOT_FOUND),
        }
    }

    async fn stats_tube(&mut self, tube: &str) {
        let queue = match self.queues.queue(tube).await {
            Ok(queue) => queue,
            Err(error) => return self.respond_error(&error),
        };
        let referenced = self.tubes.get(tube);
        if !queue.as_ref().is_some_and(has_jobs) && referenced.is_none() && tube != DEFAULT {
            return self.respond(NOT_FOUND);
        }
        let counted = referenced.unwrap_or_default();
        let text = stats::of_tube(tube, queue.as_ref(), counted, self.app.now());
        self.respond_document(&text);
    }

    async fn stats(&mut self) {
        let queues = match self.queues.queues().await {
            Ok(queues) => queues,
            Err(error) => return self.respond_error(&error),
        };
        let tubes = match self.tube_names().await {
            Ok(names) => names.len(),
            Err(error) => return self.respond_error(&error),
        };
        let max_job = self.app.queue_limits().payload;
        let is_draining = self.app.shutdown().has_begun();
        let text = stats::of_service(&self.tubes, &queues, tubes, max_job, is_draining);
        self.respond_document(&text);
    }

    /// Returns `true` if a tube has jobs or a connection refers to it.
    pub(super) async fn exists(&self, tube: &str) -> bool {
        self.tubes.get(tube).is_some()
            || tube == DEFAULT
            || matches!(self.queues.queue(tube).await, Ok(Some(queue)) if has_jobs(&queue))
    }

    /// The tubes that exist and that the caller may see, `default` first.
    async fn tube_names(&self) -> Result<Vec<String>, Error> {
        let queues = self.queues.queues().await?;
        let mut names: BTreeSet<String> =
            queues.into_iter().filter(has_jobs).map(|queue| queue.name).collect();
        let referenced = self.tubes.names();
        names.extend(referenced.iter().filter(|name| self.allows(name)).map(ToString::to_string));
        names.remove(DEFAULT);
        let default = self.allows(DEFAULT).then(|| DEFAULT.to_owned());
        Ok(default.into_iter().chain(names).collect())
    }
}

/// Returns `true` if a queue has jobs that the protocol knows.
fn has_jobs(queue: &QueueInfo) -> bool {
    queue.ready + queue.scheduled + queue.leased + queue.dead > 0
}
