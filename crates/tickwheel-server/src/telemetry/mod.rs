//! Traces for OpenTelemetry: the way of a job from its put to its end.
//!
//! | span | from | to | kind |
//! |---|---|---|---|
//! | `send QUEUE` | the put begins | it is durable | producer |
//! | `wait QUEUE` | the put, or the end of the attempt before | the delivery | internal |
//! | `process QUEUE` | the delivery to a worker | ack, fail, release, or the end of the lease | consumer |
//! | `deliver QUEUE` | the delivery to a target | its answer is stored | client |
//!
//! All spans of a job are in one trace: that of the job's header `traceparent`; or that of the
//! request that put it, which becomes the job's header; or one with the id of the job. So nothing
//! else has to be stored, and a trace continues after a restart. An attempt links to the one before.
//!
//! Ground rules: a request never waits for telemetry. Finished spans go into a bounded channel, and
//! are dropped and counted if it is full. Deliveries in progress are in a bounded table.
//!
//! | file | what it holds |
//! |---|---|
//! | `context` | the header `traceparent` |
//! | `span` | a finished span |
//! | `deliveries` | deliveries that have not ended |
//! | `exporter` | encoding and sending by OTLP over HTTP |

mod context;
mod deliveries;
#[cfg(feature = "otlp")]
mod exporter;
mod span;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tickwheel_queue::{Delivery, Error, JobId, Lease, NewJob, Put, PutKind, State, Time};
use tokio::sync::mpsc;

pub(crate) use self::context::{TRACEPARENT, TraceContext, one_each, within};
use self::deliveries::{Deliveries, Ended, Open};
use self::span::{Kind, Span};
use crate::config::Config;

/// Finished spans that wait to be sent, each about 500 bytes.
const MAX_WAITING_SPANS: usize = 8_192;
/// How often leases that have expired are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Bytes of an error that a span shows.
const MAX_ERROR_BYTES: usize = 1_024;

/// The receiver of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Receiver<'a> {
    Worker,
    /// The name of a push target.
    Target(&'a str),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acked,
    /// With the error, and whether the job is dead, if that is known.
    Failed(String, Option<State>),
    Released,
    Expired,
}

/// The recorder of traces; does nothing unless an endpoint is configured. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry(Option<Arc<Recorder>>);

#[derive(Debug)]
struct Recorder {
    /// The share of traces without a parent that is recorded, in percent.
    sample_percent: u64,
    spans: mpsc::Sender<Span>,
    dropped: AtomicU64,
    deliveries: Deliveries,
}

/// Puts that are under way.
pub(crate) struct Puts {
    start: SystemTime,
    jobs: Vec<PutJob>,
}

struct PutJob {
    queue: String,
    /// The parent of the span, and its own id; `None` if the job begins a trace of its own.
    context: Option<(TraceContext, u64)>,
}

/// The task that sends spans.
pub(crate) struct Export {
    #[cfg(feature = "otlp")]
    exporter: Option<(exporter::Exporter, mpsc::Receiver<Span>, Arc<Recorder>)>,
}

impl Telemetry {
    /// The recorder of a configuration, and the task that has to run for it.
    pub(crate) fn new(config: &Config) -> (Self, Export) {
        #[cfg(feature = "otlp")]
        if let Some(otlp) = &config.otlp {
            let (spans, waiting) = mpsc::channel(MAX_WAITING_SPANS);
            let recorder = Arc::new(Recorder {
                sample_percent: otlp.sample_percent,
                spans,
                dropped: AtomicU64::new(0),
                deliveries: Deliveries::default(),
            });
            let exporter = exporter::Exporter::new(otlp);
            let export = Export { exporter: Some((exporter, waiting, Arc::clone(&recorder))) };
            return (Self(Some(recorder)), export);
        }
        let _ = config;
        #[cfg(feature = "otlp")]
        return (Self(None), Export { exporter: None });
        #[cfg(not(feature = "otlp"))]
        (Self(None), Export {})
    }

    /// Notes that jobs are about to be put. A job without a trace gets that of the request as its
    /// header.
    pub(crate) fn begin_puts(&self, jobs: &mut [NewJob]) -> Option<Puts> {
        self.0.as_ref()?;
        let jobs = jobs
            .iter_mut()
            .enumerate()
            .map(|(index, job)| {
                let own = TraceContext::of_headers(&job.headers);
                let context =
                    own.or_else(|| context::incoming(index)).map(|parent| (parent, random_span()));
                if let (None, Some((parent, span))) = (own, context) {
                    let header = parent.with_span(span).to_string();
                    job.headers.push((TRACEPARENT.to_owned(), header));
                }
                PutJob { queue: job.queue.clone(), context }
            })
            .collect();
        Some(Puts { start: SystemTime::now(), jobs })
    }

    /// Notes that jobs were put.
    pub(crate) fn end_puts(&self, puts: Option<Puts>, results: &[Result<Put, Error>]) {
        let (Some(recorder), Some(puts)) = (&self.0, puts) else { return };
        let end = SystemTime::now();
        for (job, result) in puts.jobs.into_iter().zip(results) {
            let Ok(put) = result else { continue };
            if put.kind == PutKind::Kept {
                continue;
            }
            let (trace, span, parent) = match job.context {
                Some((parent, span)) if parent.is_sampled() => {
                    (parent.trace, span, Some(parent.span))
                }
                Some(_) => continue,
                None => {
                    let Some(origin) = recorder.own_trace(put.id) else { continue };
                    (origin.trace, origin.span, None)
                }
            };
            let (start, ids) = (puts.start, (trace, span, parent));
            let span = job_span("send", Kind::Producer, &job.queue, put.id, ids, (start, end));
            recorder.send(span.text("messaging.operation.type", "send"));
        }
    }

    /// Notes that jobs were delivered.
    pub(crate) fn delivered<'a>(
        &self,
        deliveries: impl IntoIterator<Item = &'a Delivery>,
        receiver: Receiver<'_>,
    ) {
        let Some(recorder) = &self.0 else { return };
        for delivery in deliveries {
            recorder.delivered(delivery, receiver);
        }
    }

    /// Notes that a lease was extended by so much from now.
    pub(crate) fn extended(&self, lease: Lease, length: Duration) {
        if let Some(recorder) = &self.0 {
            recorder.deliveries.extend(lease, length);
        }
    }

    /// Notes that an attempt ended.
    pub(crate) fn ended(&self, lease: Lease, outcome: &Outcome) {
        if let Some(recorder) = &self.0 {
            recorder.ended(lease, outcome);
        }
    }

    /// Whether anything is recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The header for the request to a target, if the delivery is recorded.
    pub(crate) fn traceparent(&self, delivery: &Delivery) -> Option<String> {
        let origin = self.0.as_ref()?.origin(delivery)?;
        Some(origin.with_span(span_of(delivery.lease)).to_string())
    }
}

impl Recorder {
    /// The parent of all spans of a delivery; `None` if the trace is not recorded.
    fn origin(&self, delivery: &Delivery) -> Option<TraceContext> {
        match TraceContext::of_headers(&delivery.job.headers) {
            Some(context) => Some(context).filter(|context| context.is_sampled()),
            None => self.own_trace(delivery.job.id),
        }
    }

    /// The trace of a job that was put without one; `None` if it is not in the sample.
    fn own_trace(&self, id: JobId) -> Option<TraceContext> {
        let trace = u128::from_be_bytes(*id.as_bytes());
        let is_chosen = mix(trace as u64) % 100 < self.sample_percent;
        is_chosen.then(|| TraceContext::sampled(trace, mix(trace as u64 ^ (trace >> 64) as u64)))
    }

    fn delivered(&self, delivery: &Delivery, receiver: Receiver<'_>) {
        let Some(origin) = self.origin(delivery) else { return };
        let (job, lease, now) = (&delivery.job, delivery.lease, SystemTime::now());
        let before = self.deliveries.take_ended(job.id);
        let since = before.map_or_else(|| time(job.created), |ended| ended.at);
        let own = span_of(lease);
        let wait_ids = (origin.trace, mix(own), Some(origin.span));
        let wait =
            job_span("wait", Kind::Internal, &job.queue, job.id, wait_ids, (since.min(now), now));
        let late = now.duration_since(time(job.due)).unwrap_or_default();
        self.send(
            wait.number("tickwheel.attempt", job.attempts.into())
                .number("tickwheel.lateness_ms", late.as_millis() as u64),
        );
        let (name, kind, operation) = match receiver {
            Receiver::Worker => ("process", Kind::Consumer, "process"),
            Receiver::Target(_) => ("deliver", Kind::Client, "process"),
        };
        let ids = (origin.trace, own, Some(origin.span));
        let mut span = job_span(name, kind, &job.queue, job.id, ids, (now, now))
            .text("messaging.operation.type", operation)
            .number("tickwheel.attempt", job.attempts.into());
        match receiver {
            Receiver::Target(target) => span = span.text("tickwheel.target", target),
            Receiver::Worker => {
                if let Some(worker) = &job.worker {
                    span = span.text("tickwheel.worker", &**worker);
                }
            }
        }
        span.link = before.map(|ended| ended.span);
        let length = match (job.leased_since, job.leased_until) {
            (Some(since), Some(until)) => until.as_millis().saturating_sub(since.as_millis()),
            _ => 0,
        };
        if !self.deliveries.begin(lease, Open::new(span, Duration::from_millis(length))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn ended(&self, lease: Lease, outcome: &Outcome) {
        let Some(open) = self.deliveries.end(lease) else { return };
        self.finish(lease.id, open, outcome);
    }

    fn finish(&self, id: JobId, open: Open, outcome: &Outcome) {
        let Open { mut span, .. } = open;
        span.end = SystemTime::now().max(span.start);
        let name = match outcome {
            Outcome::Acked => "ack",
            Outcome::Failed(_, Some(State::Dead)) => "dead",
            Outcome::Failed(..) => "fail",
            Outcome::Released => "release",
            Outcome::Expired => "lease expired",
        };
        span.event = Some(name);
        span.error = match outcome {
            Outcome::Acked | Outcome::Released => None,
            Outcome::Failed(error, _) => Some(shortened(error).to_owned()),
            Outcome::Expired => Some("the lease expired".to_owned()),
        };
        if !matches!(outcome, Outcome::Acked | Outcome::Failed(_, Some(State::Dead))) {
            self.deliveries.note_ended(id, Ended { span: span.id, at: span.end });
        }
        self.send(span.text("tickwheel.outcome", name));
    }

    fn send(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the spans of leases that have expired.
    async fn keep_sweeping(&self) {
        let mut reported = 0;
        loop {
            tokio::time::sleep(SWEEP).await;
            for (lease, open) in self.deliveries.take_expired() {
                self.finish(lease.id, open, &Outcome::Expired);
            }
            let dropped = self.dropped.load(Ordering::Relaxed);
            if dropped > reported {
                tracing::warn!(spans = dropped - reported, "spans were dropped: too many wait");
                reported = dropped;
            }
        }
    }
}

impl Export {
    /// Sends spans until the server stops; then sends what is left, for a short time.
    pub(crate) async fn run(self, stopping: impl Future<Output = ()>) {
        #[cfg(feature = "otlp")]
        if let Some((exporter, spans, recorder)) = self.exporter {
            tokio::select! {
                () = exporter.run(spans, stopping) => {}
                () = recorder.keep_sweeping() => {}
            }
            return;
        }
        stopping.await;
    }
}

/// A span with what all spans of jobs have.
fn job_span(
    operation: &str,
    kind: Kind,
    queue: &str,
    id: JobId,
    (trace, id_of_span, parent): (u128, u64, Option<u64>),
    (start, end): (SystemTime, SystemTime),
) -> Span {
    Span {
        name: format!("{operation} {queue}"),
        kind,
        trace,
        id: id_of_span,
        parent,
        start,
        end,
        attributes: Vec::with_capacity(8),
        link: None,
        event: None,
        error: None,
    }
    .text("messaging.system", "tickwheel")
    .text("messaging.destination.name", queue)
    .text("messaging.message.id", id.to_string())
}

/// The id of the span of a delivery: the same for the same lease.
fn span_of(lease: Lease) -> u64 {
    let id = u128::from_be_bytes(*lease.id.as_bytes());
    mix(id as u64 ^ mix(lease.token ^ (id >> 64) as u64))
}

/// Spreads a number over 64 bits (the finalizer of `SplitMix64`); never 0, which is no span.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

fn random_span() -> u64 {
    getrandom::u64().unwrap_or(1).max(1)
}

fn time(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(time.as_millis())
}

/// The beginning of an error.
fn shortened(error: &str) -> &str {
    let mut end = error.len().min(MAX_ERROR_BYTES);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    &error[..end]
}
