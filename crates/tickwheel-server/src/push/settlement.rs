//! Reporting the outcomes of requests to the queue, many in one commit.
//!
//! A lane adds an outcome and takes the next job. The task of the target reports what has gathered:
//! all acknowledgements are one command. A crash before the commit means that these jobs are sent
//! again after their leases have expired. A stop does not: outcomes are reported while the last
//! requests are in flight, and once more when their grace is over.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tickwheel_queue::{Answer, Delivery, Error, Lease, Retry};
use tokio::task::JoinSet;

use super::definition::Definition;
use super::deliverer::{Deliverer, Pending, STORE_PAUSE, ready};
use super::response::Verdict;
use super::why::Why;
use crate::http::memory::Share;
use crate::telemetry::Outcome;

/// How often an outcome is reported if the store fails.
const SETTLE_ATTEMPTS: u32 = 10;

/// What the queue is told about a job.
enum Report {
    Done(Option<Bytes>),
    /// With the error of the answer, the text for the queue, and an excerpt of the answer.
    Failed {
        error: String,
        text: String,
        detail: Option<String>,
        retry: Retry,
    },
    /// The target was held or stopped, and why.
    Held(String),
}

/// The outcome of a request that the queue does not know yet.
pub(super) struct Settled {
    lease: Lease,
    report: Report,
    /// The memory of the job.
    _share: Option<Share>,
}

impl Settled {
    pub(super) fn new(
        delivery: &Delivery,
        share: Option<Share>,
        definition: &Definition,
        verdict: Verdict,
        took: Duration,
    ) -> Self {
        let job = &delivery.job;
        let timed = |why: &Why| format!("{} (after {} ms)", why.text, took.as_millis());
        let report = match verdict {
            Verdict::Done(result) => Report::Done(result),
            Verdict::Failed { why, detail, is_final, .. } => {
                let is_last = job.max_attempts.is_none()
                    && definition.max_attempts.is_some_and(|most| job.attempts >= most);
                let retry = match (&job.retry, &definition.retry) {
                    _ if is_final || is_last => Retry::Never,
                    (None, Some(policy)) => Retry::After(policy.delay(job.id, job.attempts)),
                    _ => Retry::ByPolicy,
                };
                let text = timed(&why);
                Report::Failed { error: why.text, text, detail, retry }
            }
            Verdict::Hold { why, .. } | Verdict::Stop { why } => Report::Held(timed(&why)),
        };
        Self { lease: delivery.lease, report, _share: share }
    }

    fn outcome(&self) -> Outcome {
        match &self.report {
            Report::Done(_) => Outcome::Acked,
            Report::Failed { error, .. } => Outcome::Failed(error.clone(), None),
            Report::Held(_) => Outcome::Released,
        }
    }
}

impl Deliverer {
    /// Reports outcomes to the queue. Repeats those that the store does not accept, up to
    /// [`SETTLE_ATTEMPTS`] times in all; then the leases of the jobs expire.
    pub(super) async fn settle(self: Arc<Self>, settled: Vec<Settled>) {
        let mut left = settled;
        for attempt in 1..=SETTLE_ATTEMPTS {
            left = match self.report(left).await {
                (again, Some(error)) if !again.is_empty() => {
                    let (target, jobs) = (&self.name, again.len());
                    tracing::warn!(target, jobs, %error, attempt,
                        "outcomes of deliveries were not reported to their queue");
                    if matches!(error, Error::Closed) {
                        return;
                    }
                    again
                }
                _ => return,
            };
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    /// Waits for the last requests, after the target was stopped, and reports outcomes meanwhile.
    pub(super) async fn settle_last(
        self: &Arc<Self>,
        mut lanes: JoinSet<()>,
        mut settling: Option<Pending<()>>,
    ) {
        loop {
            while lanes.try_join_next().is_some() {}
            let is_idle = lanes.is_empty();
            let plan = self.plan(false, settling.is_none());
            if !plan.settled.is_empty() {
                settling = Some(Box::pin(Arc::clone(self).settle(plan.settled)));
            }
            if is_idle && settling.is_none() && plan.wake_at.is_none() {
                return;
            }
            tokio::select! {
                Some(_) = lanes.join_next() => {}
                () = ready(&mut settling) => {}
                () = self.news.notified() => {}
                () = self.sleep_until(plan.wake_at.unwrap_or(0)), if plan.wake_at.is_some() => {}
            }
        }
    }

    /// Reports the outcomes that the aborted task of the target left.
    pub(super) async fn settle_rest(self: Arc<Self>) {
        let settled = self.control().take_settled();
        if !settled.is_empty() {
            self.settle(settled).await;
        }
    }

    /// Reports outcomes once. Returns those that the store did not accept, and why.
    async fn report(&self, settled: Vec<Settled>) -> (Vec<Settled>, Option<Error>) {
        let (mut acks, mut others) = (Vec::new(), Vec::new());
        for one in &settled {
            match &one.report {
                Report::Done(result) => acks.push((one.lease, result.clone())),
                Report::Failed { text, detail, retry, .. } => {
                    let (lease, text, retry) = (one.lease, text.clone(), *retry);
                    let failing = match detail {
                        Some(detail) => self.queues.fail_with_detail(lease, text, &**detail, retry),
                        None => self.queues.fail(lease, text, retry),
                    };
                    others.push(Told::Failed(failing));
                }
                Report::Held(why) => {
                    let why = why.clone();
                    let released = self.queues.release_with_error(one.lease, Duration::ZERO, why);
                    others.push(Told::Held(released));
                }
            }
        }
        let count = acks.len();
        let acking = async {
            if acks.is_empty() {
                return Vec::new();
            }
            match self.queues.ack_all_with_results(acks).await {
                Ok(results) => results,
                Err(error) => vec![Err(error); count],
            }
        };
        let (acked, other) = tokio::join!(acking, all(others));
        let (mut acked, mut other) = (acked.into_iter(), other.into_iter());
        let (mut again, mut why) = (Vec::new(), None);
        for one in settled {
            let is_ack = matches!(one.report, Report::Done(_));
            let told = if is_ack { acked.next() } else { other.next() };
            match told.unwrap_or(Ok(())) {
                Ok(()) => self.note_reported(&one),
                Err(error @ (Error::StaleLease { .. } | Error::NotFound(_))) => {
                    tracing::debug!(target = self.name, %error, "a delivery came too late");
                }
                Err(error) => {
                    again.push(one);
                    why = Some(error);
                }
            }
        }
        (again, why)
    }

    /// Counts an outcome that is committed.
    fn note_reported(&self, settled: &Settled) {
        let count = match settled.report {
            Report::Done(_) => &self.counts.delivered,
            Report::Failed { .. } => &self.counts.failed,
            Report::Held(_) => &self.counts.held,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.telemetry.ended(settled.lease, &settled.outcome());
    }
}

/// An outcome other than success, on its way to the queue.
enum Told {
    Failed(Answer<tickwheel_queue::State>),
    Held(Answer<()>),
}

/// Waits for all answers, which share a commit.
async fn all(answers: Vec<Told>) -> Vec<Result<(), Error>> {
    let mut answers: Vec<_> = answers.into_iter().map(|it| (it, None)).collect();
    poll_fn(|context| {
        let mut is_ready = true;
        for (told, result) in &mut answers {
            if result.is_none() {
                let polled = match told {
                    Told::Failed(answer) => Pin::new(answer).poll(context).map_ok(drop),
                    Told::Held(answer) => Pin::new(answer).poll(context),
                };
                match polled {
                    Poll::Ready(outcome) => *result = Some(outcome),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().filter_map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use tickwheel_queue::{JobId, NewJob, QueueSettings, Queues};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::super::Push;
    use super::super::charge::Reserved;
    use super::*;
    use crate::api::TargetSettings;
    use crate::config::Config;
    use crate::http::memory::Memory;
    use crate::telemetry::Telemetry;

    /// The limit after which a test fails instead of hanging.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Starts push delivery to the target `partner`.
    async fn push(queues: &Queues, url: &str) -> Arc<Push> {
        let mut config = Config::default();
        config.push.allow = "127.0.0.0/8".parse().unwrap();
        let telemetry = Telemetry::new(&config).0;
        let opening = Push::open(queues.clone(), &config, Memory::new(1 << 20), telemetry);
        let push = opening.await.unwrap();
        let timeout = crate::api::Delay(10 * PATIENCE);
        let settings = TargetSettings { timeout, ..TargetSettings::new(url) };
        push.put("partner", settings).await.unwrap();
        push
    }

    async fn put(queues: &Queues, count: usize) -> Vec<JobId> {
        let jobs = queues.put_all((0..count).map(|_| NewJob::new("orders", ""))).await.unwrap();
        jobs.into_iter().map(|put| put.unwrap().id).collect()
    }

    /// Returns how many jobs are not done. Jobs that are done are not kept.
    async fn open_jobs(queues: &Queues, ids: &[JobId]) -> usize {
        let mut count = 0;
        for id in ids {
            count += usize::from(queues.get(*id).await.unwrap().is_some());
        }
        count
    }

    #[tokio::test]
    async fn outcomes_are_reported_while_a_slow_request_delays_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let queues = Queues::in_memory();
        let push = push(&queues, &format!("http://{}/", listener.local_addr().unwrap())).await;
        let settings = QueueSettings { target: Some("partner".into()), ..QueueSettings::default() };
        queues.configure("orders", settings).await.unwrap();
        push.queues_changed().await;
        let ids = put(&queues, 3).await;
        let mut requests = Vec::new();
        for _ in &ids {
            let (mut request, _) = listener.accept().await.unwrap();
            request.read_u8().await.unwrap();
            requests.push(request);
        }
        let (end, ended) = oneshot::channel::<()>();
        let stopping = tokio::spawn({
            let push = Arc::clone(&push);
            async move { push.stop(async { ended.await.unwrap() }).await }
        });
        while !push.list().is_empty() {
            tokio::task::yield_now().await;
        }
        for request in &mut requests[1..] {
            request.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        }
        let reported = async {
            while open_jobs(&queues, &ids).await > 1 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reported).await.expect("two jobs are done");
        end.send(()).unwrap();
        stopping.await.unwrap();
        assert_eq!(open_jobs(&queues, &ids).await, 1);
    }

    #[tokio::test]
    async fn outcomes_are_reported_even_if_the_grace_ends_before_the_task() {
        let queues = Queues::in_memory();
        let push = push(&queues, "http://127.0.0.1:1/").await;
        let deliverer = push.with("partner", |target| Arc::clone(&target.deliverer)).ok().unwrap();
        {
            // A task that waits for something else.
            let mut running = push.running.write().unwrap();
            let target = running.get_mut("partner").unwrap();
            target.task.abort();
            target.task = tokio::spawn(std::future::pending());
        }
        let ids = put(&queues, 2).await;
        let mut jobs = queues.reserve("orders", 2, None).await.unwrap();
        let (delivery, lease) = (jobs.remove(0), Duration::from_secs(30));
        let done = Verdict::Done(None);
        let definition = deliverer.definition();
        let settled = Settled::new(&delivery, None, &definition, done, Duration::ZERO);
        let stale = Reserved { delivery: jobs.remove(0), share: None };
        {
            let mut control = deliverer.control();
            control.settle(0, settled);
            let stale = control.permit(0, vec![stale], lease);
            control.wait(0, stale);
        }
        // The task gives a job back when it is aborted.
        let plan = deliverer.plan(true, true);
        assert_eq!((plan.stale.len(), plan.settled.len()), (1, 0));
        assert!(plan.wake_at.is_some());
        push.stop(std::future::ready(())).await;
        assert_eq!(open_jobs(&queues, &ids).await, 1);
    }
}
