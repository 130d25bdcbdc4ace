//! One connection: reading, keeping answers in order, writing.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tickwheel_queue::{Error, JobId, Lease, Limit, Queues, Time};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::command::{Command, Put, Refusal};
use super::decoder::{Decoder, Request};
use super::job::new_job;
use super::number::Number;
use super::pending::{Batch, Pending, Waited, poll_first};
use super::stats;
use super::tubes::{DEFAULT, Reference, Tubes};
use crate::app::App;
use crate::auth::Caller;
use crate::http::connections::{Answering, Place};
use crate::http::memory::Share;
use crate::http::stall::Impatient;
use crate::insight::WorkerName;
use crate::tokens::Scope;

/// Answers that are waited for at the same time: batches of puts or deletes, and lines after them.
pub(super) const MAX_PENDING: usize = 256;
/// Puts or deletes in one batch.
const MAX_BATCH: usize = 1_024;
/// What a put takes beside its body.
const PUT_BYTES: usize = 512;
/// Tubes that a connection may watch.
const MAX_WATCHED: usize = 1_024;
/// Numbers that are not inside ids and lead back to their jobs on this connection.
const MAX_SHOWN: usize = 1_024;

pub(super) const NOT_FOUND: &str = "NOT_FOUND\r\n";
pub(super) const OUT_OF_MEMORY: &str = "OUT_OF_MEMORY\r\n";
const UNAUTHORIZED: &str = "UNAUTHORIZED\r\n";
const FORBIDDEN: &str = "FORBIDDEN\r\n";

/// A job that this connection has reserved.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) lease: Lease,
    /// When its time to run is over.
    pub(super) until: Time,
    pub(super) time_to_run: Duration,
    pub(super) tube: Arc<str>,
}

/// What becomes of a connection after a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Close,
}

pub(super) struct Session {
    pub(super) app: App,
    pub(super) tubes: Arc<Tubes>,
    place: Arc<Place>,
    pub(super) stream: Impatient<TcpStream>,
    /// Who is at the other end; `None` until a token is shown, if one is needed.
    caller: Option<Caller>,
    /// The name of the worker at the other end.
    worker: String,
    /// The queues, as far as the caller may touch them.
    pub(super) queues: Queues,
    pub(super) decoder: Decoder,
    pub(super) input: BytesMut,
    pub(super) output: Vec<u8>,
    pub(super) used: Arc<str>,
    pub(super) watched: Vec<Arc<str>>,
    pub(super) held: HashMap<Number, Held>,
    /// Jobs whose numbers are not inside their ids, as they were shown.
    shown: VecDeque<(Number, JobId)>,
    batch: Option<Batch>,
    pub(super) pending: VecDeque<Pending>,
    /// The memory of bodies that were not answered yet, and of the one that arrives.
    share: Share,
    receiving: usize,
    waiting: usize,
    is_producer: bool,
    is_worker: bool,
    pub(super) has_ended: bool,
    /// There while the connection must not be closed to make room.
    pub(super) busy: Option<Answering>,
    /// Since when the rest of a request is waited for.
    pub(super) request_since: Option<Instant>,
}

impl Session {
    pub(super) fn new(app: App, tubes: Arc<Tubes>, place: Arc<Place>, stream: TcpStream) -> Self {
        let limits = app.config().limits;
        let stream = Impatient::new(stream, limits.write_timeout, place.stall());
        let caller = app.gate().caller_without_token();
        let queues = match &caller {
            Some(caller) => app.queues().limited_to(caller.access().clone()),
            None => app.queues().clone(),
        };
        let worker = format!("beanstalk {}", place.address());
        Self {
            used: tubes.enter(DEFAULT, Reference::Using),
            watched: vec![tubes.enter(DEFAULT, Reference::Watching)],
            queues: queues.as_worker(worker.clone()),
            worker,
            decoder: Decoder::new(app.queue_limits().payload),
            share: app.memory().share(),
            app,
            tubes,
            place,
            stream,
            caller,
            input: BytesMut::new(),
            output: Vec::new(),
            held: HashMap::new(),
            shown: VecDeque::new(),
            batch: None,
            pending: VecDeque::new(),
            receiving: 0,
            waiting: 0,
            is_producer: false,
            is_worker: false,
            has_ended: false,
            busy: None,
            request_since: None,
        }
    }

    /// Serves requests until the client closes or the service stops.
    pub(super) async fn serve(&mut self) -> io::Result<()> {
        loop {
            let next = self.take_up().await?;
            self.close_batch();
            if next == Next::Close {
                self.settle().await?;
                return self.flush().await;
            }
            if !self.pending.is_empty() {
                self.read_until_answered().await?;
                self.take_answers().await?;
                continue;
            }
            self.flush().await?;
            if self.has_ended || self.app.shutdown().has_begun() || !self.read_request().await? {
                return Ok(());
            }
        }
    }

    /// Releases what the connection has reserved, and forgets its tubes.
    pub(super) async fn end(mut self) {
        let leases: Vec<_> = self.held.drain().map(|(_, held)| held.lease).collect();
        for leases in leases.chunks(MAX_BATCH) {
            let released = leases.iter().map(|lease| (*lease, Duration::ZERO));
            // Also if the caller's access was revoked meanwhile.
            if let Err(error) = self.app.queues().release_all(released).await {
                tracing::warn!(%error, "jobs of a closed connection stay reserved for their time");
            }
        }
        self.tubes.leave(&self.used, Reference::Using);
        for tube in &self.watched {
            self.tubes.leave(tube, Reference::Watching);
        }
        let counts = &self.tubes.counts;
        if self.is_producer {
            counts.producers.fetch_sub(1, Ordering::Relaxed);
        }
        if self.is_worker {
            counts.workers.fetch_sub(1, Ordering::Relaxed);
            for tube in &self.watched {
                self.app.insight().workers.forget(tube, self.worker_name());
            }
        }
    }

    /// Takes up the requests that have arrived.
    async fn take_up(&mut self) -> io::Result<Next> {
        while self.pending.len() < MAX_PENDING {
            let Some(request) = self.decode() else { break };
            self.request_since = None;
            if self.busy.is_none() {
                self.busy = Some(self.place.begin().answering());
            }
            if self.take_up_one(request).await? == Next::Close {
                return Ok(Next::Close);
            }
        }
        Ok(Next::Continue)
    }

    fn decode(&mut self) -> Option<Request> {
        let Self { decoder, input, share, receiving, waiting, caller, .. } = self;
        let is_known = caller.is_some();
        decoder.next(input, |bytes| {
            let fits = is_known && share.grow_to(*waiting + bytes + PUT_BYTES).is_ok();
            *receiving = if fits { bytes + PUT_BYTES } else { 0 };
            fits
        })
    }

    async fn take_up_one(&mut self, request: Request) -> io::Result<Next> {
        let Some(caller) = self.caller.clone() else {
            return Ok(self.authenticate(&request));
        };
        let address = self.place.address().ip();
        while let Some(wait) = self.app.wait_for_rate(&caller, address) {
            tokio::time::sleep(wait).await;
        }
        match request {
            Request::Refused(Refusal::Http) => {
                tracing::warn!(%address, "an HTTP request came to the beanstalk port");
                Ok(Next::Close)
            }
            Request::Refused(refusal) => {
                if refusal.is_of_put() {
                    self.tubes.counts.note_put();
                }
                self.receiving = 0;
                self.share.shrink_to(self.waiting);
                self.respond(refusal.line());
                Ok(Next::Continue)
            }
            Request::Put(put, body) => {
                self.tubes.counts.note_put();
                self.put(put, body);
                Ok(Next::Continue)
            }
            Request::Command(command) => {
                self.tubes.counts.note(&command);
                self.carry_out(command).await
            }
        }
    }

    /// Lets a client in that shows a valid token first.
    fn authenticate(&mut self, request: &Request) -> Next {
        if let Request::Command(Command::Auth(token)) = request
            && let Some(caller) = self.app.gate().caller_with_token(token)
        {
            self.queues = self.queues.limited_to(caller.access().clone());
            self.caller = Some(caller);
            self.respond("OK\r\n");
            return Next::Continue;
        }
        self.respond(UNAUTHORIZED);
        Next::Close
    }

    async fn carry_out(&mut self, command: Command) -> io::Result<Next> {
        match command {
            Command::Quit => return Ok(Next::Close),
            Command::Auth(token) => {
                // Once is enough, and another token would change what the tubes mean.
                let is_valid = self.app.gate().caller_with_token(&token).is_some();
                self.respond(if is_valid { "OK\r\n" } else { UNAUTHORIZED });
            }
            Command::Put(_) => self.respond(Refusal::BadFormat.line()),
            Command::Use(tube) => {
                let tube = self.tubes.enter(&tube, Reference::Using);
                self.tubes.leave(&self.used, Reference::Using);
                self.used = tube;
                self.respond(format!("USING {}\r\n", self.used));
            }
            Command::ListTubeUsed => self.respond(format!("USING {}\r\n", self.used)),
            Command::ListTubesWatched => {
                let text = stats::list(self.watched.iter().map(|tube| &**tube));
                self.respond(format!("OK {}\r\n{text}\r\n", text.len()));
            }
            Command::Watch(tube) => self.watch(&tube),
            Command::Ignore(tube) => self.ignore(&tube),
            Command::Delete(id) if self.held.contains_key(&Number(id)) => self.delete_held(id),
            command => {
                self.settle().await?;
                let next = match command {
                    Command::Reserve(_)
                    | Command::ReserveJob(_)
                    | Command::Delete(_)
                    | Command::Release { .. }
                    | Command::Bury { .. }
                    | Command::Touch(_)
                    | Command::Kick(_)
                    | Command::KickJob(_)
                    | Command::PauseTube(..) => self.work(command).await?,
                    command => {
                        self.inspect(command).await;
                        Next::Continue
                    }
                };
                return Ok(next);
            }
        }
        Ok(Next::Continue)
    }

    fn watch(&mut self, tube: &str) {
        if !self.watched.iter().any(|watched| **watched == *tube) {
            if self.watched.len() == MAX_WATCHED {
                return self.respond(OUT_OF_MEMORY);
            }
            self.watched.push(self.tubes.enter(tube, Reference::Watching));
        }
        self.respond(format!("WATCHING {}\r\n", self.watched.len()));
    }

    fn ignore(&mut self, tube: &str) {
        if let Some(place) = self.watched.iter().position(|watched| **watched == *tube) {
            if self.watched.len() == 1 {
                return self.respond("NOT_IGNORED\r\n");
            }
            let tube = self.watched.remove(place);
            self.tubes.leave(&tube, Reference::Watching);
        }
        self.respond(format!("WATCHING {}\r\n", self.watched.len()));
    }

    /// Adds a put to the batch.
    fn put(&mut self, put: Put, body: Bytes) {
        let bytes = std::mem::take(&mut self.receiving);
        let refusal = if self.may(Scope::Produce) {
            self.app.shutdown().has_begun().then_some("DRAINING\r\n")
        } else {
            Some(FORBIDDEN)
        };
        if let Some(refusal) = refusal {
            self.share.shrink_to(self.waiting);
            return self.respond(refusal);
        }
        if !self.is_producer {
            self.is_producer = true;
            self.tubes.counts.producers.fetch_add(1, Ordering::Relaxed);
        }
        self.waiting += bytes;
        let job = new_job(put, &self.used, body);
        let most = MAX_BATCH.min(usize::try_from(self.app.queue_limits().batch).unwrap_or(1));
        match &mut self.batch {
            Some(Batch::Puts(jobs, batch_bytes)) if jobs.len() < most => {
                jobs.push(job);
                *batch_bytes += bytes;
            }
            _ => {
                self.close_batch();
                self.batch = Some(Batch::Puts(vec![job], bytes));
            }
        }
    }

    /// Adds the deletion of a reserved job to the batch.
    fn delete_held(&mut self, id: u64) {
        let Some(held) = self.held.remove(&Number(id)) else { return self.respond(NOT_FOUND) };
        let deletion = (held.lease, held.tube);
        let most = MAX_BATCH.min(usize::try_from(self.app.queue_limits().batch).unwrap_or(1));
        match &mut self.batch {
            Some(Batch::Deletes(deletions)) if deletions.len() < most => deletions.push(deletion),
            _ => {
                self.close_batch();
                self.batch = Some(Batch::Deletes(vec![deletion]));
            }
        }
    }

    /// Makes one command of the batch. It is sent when it is first polled.
    fn close_batch(&mut self) {
        match self.batch.take() {
            None => {}
            Some(Batch::Puts(jobs, bytes)) => {
                let count = jobs.len();
                let waited = Waited::new(self.queues.put_all(jobs));
                self.pending.push_back(Pending::Puts(waited, count, bytes));
            }
            Some(Batch::Deletes(deletions)) => {
                let (leases, tubes): (Vec<_>, Vec<_>) = deletions.into_iter().unzip();
                let waited = Waited::new(self.queues.ack_all(leases));
                self.pending.push_back(Pending::Deletes(waited, tubes));
            }
        }
    }

    /// Answers a request, after all before it.
    pub(super) fn respond(&mut self, line: impl Into<Cow<'static, str>>) {
        self.close_batch();
        let line = line.into();
        if self.pending.is_empty() {
            self.output.extend_from_slice(line.as_bytes());
        } else {
            self.pending.push_back(Pending::Line(line));
        }
    }

    /// Answers a request with data. Everything before it was answered.
    pub(super) fn respond_with(&mut self, line: &str, data: &[u8]) {
        self.output.extend_from_slice(line.as_bytes());
        self.output.extend_from_slice(data);
        self.output.extend_from_slice(b"\r\n");
    }

    /// Answers a request that the engine refused.
    pub(super) fn respond_error(&mut self, error: &Error) {
        let line = self.line_of(error);
        self.respond(line);
    }

    /// Returns `true` if the caller may touch a tube.
    pub(super) fn allows(&self, tube: &str) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.access().allows(tube))
    }

    /// Returns `true` if the caller has a scope.
    pub(super) fn may(&self, scope: Scope) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.has(scope).is_ok())
    }

    /// Returns `true` if the caller has a scope, and otherwise answers that it has not.
    pub(super) fn check(&mut self, scope: Scope) -> bool {
        let may = self.may(scope);
        if !may {
            self.respond(FORBIDDEN);
        }
        may
    }

    /// Waits until everything that was taken up is answered.
    async fn settle(&mut self) -> io::Result<()> {
        self.close_batch();
        while !self.pending.is_empty() {
            self.answered().await;
            self.take_answers().await?;
        }
        Ok(())
    }

    /// Waits for the first answer.
    pub(super) async fn answered(&mut self) {
        poll_fn(|context| poll_first(&mut self.pending, context)).await;
    }

    /// Writes the answers that are there, in order.
    async fn take_answers(&mut self) -> io::Result<()> {
        while self.pending.front().is_some_and(Pending::is_ready) {
            match self.pending.pop_front() {
                None => {}
                Some(Pending::Line(line)) => self.output.extend_from_slice(line.as_bytes()),
                Some(Pending::Puts(waited, count, bytes)) => {
                    self.waiting -= bytes;
                    self.share.shrink_to(self.waiting + self.receiving);
                    self.write_puts(waited.result.unwrap_or(Err(Error::Closed)), count);
                }
                Some(Pending::Deletes(waited, tubes)) => {
                    let results = waited.result.unwrap_or(Err(Error::Closed));
                    self.write_deletes(results, tubes).await;
                }
            }
        }
        if self.output.is_empty() { Ok(()) } else { self.flush().await }
    }

    fn write_puts(
        &mut self,
        results: Result<Vec<Result<tickwheel_queue::Put, Error>>, Error>,
        count: usize,
    ) {
        use std::io::Write as _;
        let results = match results {
            Ok(results) => results,
            Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
        };
        for result in results {
            match result {
                Ok(put) => {
                    let number = Number::of(put.id);
                    self.show(number, put.id);
                    // Writing into memory does not fail.
                    let _ = write!(self.output, "INSERTED {}\r\n", number.0);
                }
                Err(error) => {
                    let line = self.line_of(&error);
                    self.output.extend_from_slice(line.as_bytes());
                }
            }
        }
    }

    async fn write_deletes(
        &mut self,
        results: Result<Vec<Result<(), Error>>, Error>,
        tubes: Vec<Arc<str>>,
    ) {
        let results = match results {
            Ok(results) => results,
            Err(error) => tubes.iter().map(|_| Err(error.clone())).collect(),
        };
        for (tube, result) in tubes.into_iter().zip(results) {
            let deleted = match result {
                // Its time was over. If it waits again, it can be deleted like any other.
                Err(Error::StaleLease { id }) => self.queues.remove_job(id).await.map(drop),
                result => result,
            };
            let line = match deleted {
                Ok(()) => {
                    self.tubes.change(&tube, |tube| tube.deletes += 1);
                    "DELETED\r\n"
                }
                Err(error) => self.line_of(&error),
            };
            self.output.extend_from_slice(line.as_bytes());
        }
    }

    /// The line that tells the client why the engine refused something. A client that may not do
    /// anything any more is not served any longer.
    fn line_of(&mut self, error: &Error) -> &'static str {
        self.has_ended |= *error == Error::Revoked;
        line_of(error)
    }

    /// Remembers a number that does not lead to its id.
    pub(super) fn show(&mut self, number: Number, id: JobId) {
        if number.is_inside_id() || self.shown.contains(&(number, id)) {
            return;
        }
        if self.shown.len() == MAX_SHOWN {
            self.shown.pop_front();
        }
        self.shown.push_back((number, id));
    }

    /// The job with a number; `None` if there is none that the caller may see.
    pub(super) async fn find(&self, number: u64) -> Result<Option<JobId>, Error> {
        let number = Number(number);
        if let Some(held) = self.held.get(&number) {
            return Ok(Some(held.lease.id));
        }
        let Some(beginnings) = number.beginnings() else {
            let shown = self.shown.iter().find(|(shown, _)| *shown == number);
            return Ok(shown.map(|(_, id)| *id));
        };
        for beginning in beginnings {
            match self.queues.find_ids(beginning).await?[..] {
                [] => {}
                [id] => return Ok(Some(id)),
                // Two jobs share the number, so it means neither.
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The connection has reserved jobs.
    pub(super) fn became_worker(&mut self) {
        if !self.is_worker {
            self.is_worker = true;
            self.tubes.counts.workers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the name under which operators see this connection.
    pub(super) fn worker_name(&self) -> WorkerName<'_> {
        WorkerName::Given(&self.worker)
    }
}

/// The line that tells a client why the engine refused something.
fn line_of(error: &Error) -> &'static str {
    match error {
        Error::NotFound(_)
        | Error::StaleLease { .. }
        | Error::WrongState { .. }
        | Error::NoSuchQueue(_)
        | Error::KeyExists { .. }
        | Error::Damaged { .. } => NOT_FOUND,
        Error::OverLimit { limit: Limit::Payload, .. } => Refusal::JobTooBig.line(),
        Error::OverLimit { .. }
        | Error::DiskFull { .. }
        | Error::NotAdmitted
        | Error::Unavailable(_) => OUT_OF_MEMORY,
        Error::Forbidden(_) => FORBIDDEN,
        Error::Revoked => UNAUTHORIZED,
        Error::Closed => "DRAINING\r\n",
        error => {
            tracing::warn!(%error, "a beanstalk command failed");
            "INTERNAL_ERROR\r\n"
        }
    }
}
