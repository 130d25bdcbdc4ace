//! The worker on a server in memory, with time that the tests move: leases, shutdown, layers,
//! panics and names.
//!
//! Tokio's clock stands still until every task waits, so a test of a 30-second lease takes
//! milliseconds, and a busy machine changes nothing.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_client::api::{Job, JobState};
use tickwheel_client::testing::Fake;
use tickwheel_client::{Client, NewJob, Next, Outcome, Payload, Work, WorkerBuilder};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const QUEUE: &str = "q";
const LEASE: Duration = Duration::from_secs(30);

async fn put(client: &Client, text: &str) {
    client.put(NewJob::text(QUEUE, text)).await.unwrap();
}

fn only_job(fake: &Fake) -> Job {
    let [job] = &fake.jobs(QUEUE)[..] else { panic!("not one job: {:?}", fake.jobs(QUEUE)) };
    job.clone()
}

/// Runs a worker in the background, until [`Running::stop`].
struct Running {
    stop: oneshot::Sender<()>,
    worker: JoinHandle<()>,
}

impl Running {
    fn start(worker: WorkerBuilder) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = tokio::spawn(worker.run(async { drop(stopped.await) }));
        Self { stop, worker }
    }

    /// Gives the signal to stop, and waits until the worker has shut down.
    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.worker.await.unwrap();
    }
}

/// Tells when a handler is dropped before its end.
struct Dropped(mpsc::UnboundedSender<Instant>);

impl Drop for Dropped {
    fn drop(&mut self) {
        // The test may be over.
        self.0.send(Instant::now()).ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_extended_each_third_of_its_length() {
    let fake = Fake::new();
    let client = fake.client();
    put(&client, "long").await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let watched = fake.clone();
    let worker = client.worker().lease(LEASE).handle(QUEUE, move |_: Work| {
        let (fake, tell) = (watched.clone(), tell.clone());
        async move {
            // The server's time follows tokio's, half a second apart from the extensions.
            let start = Instant::now();
            let mut until = only_job(&fake).lease.unwrap().until_ms;
            sleep(Duration::from_millis(500)).await;
            while start.elapsed() < LEASE * 2 {
                let lease = only_job(&fake).lease.expect("the lease never expires");
                if lease.until_ms != until {
                    until = lease.until_ms;
                    tell.send(start.elapsed().as_secs()).unwrap();
                }
                fake.advance(Duration::from_secs(1));
                sleep(Duration::from_secs(1)).await;
            }
            tell.send(u64::MAX).unwrap();
        }
    });
    let running = Running::start(worker);
    let mut extended = Vec::new();
    while let Some(seconds) = told.recv().await {
        if seconds == u64::MAX {
            break;
        }
        extended.push(seconds);
    }
    assert_eq!(extended, [10, 20, 30, 40, 50]);
    running.stop().await;
    assert_eq!(fake.jobs(QUEUE).len(), 0, "the job is acknowledged");
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_job_that_waits_in_the_worker_is_extended_too() {
    let fake = Fake::new();
    let client = fake.client();
    for text in ["first", "second"] {
        put(&client, text).await;
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let watched = fake.clone();
    let worker = client.worker().lease(LEASE).prefetch(1).handle(QUEUE, move |work: Work| {
        let (fake, tell) = (watched.clone(), tell.clone());
        async move {
            if work.job().text.as_deref() == Some("first") {
                for _ in 0..20 {
                    sleep(Duration::from_secs(5)).await;
                    fake.advance(Duration::from_secs(5));
                }
            }
            tell.send(work.job().attempts).unwrap();
        }
    });
    let running = Running::start(worker);
    // The second job waited for 100 seconds, and is still at its first attempt.
    assert_eq!([told.recv().await, told.recv().await], [Some(1), Some(1)]);
    running.stop().await;
    assert_eq!(fake.jobs(QUEUE).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_lease_is_lost_is_stopped_and_reports_nothing() {
    let fake = Fake::new();
    let client = fake.client();
    put(&client, "x").await;
    let (sender, mut begun) = mpsc::unbounded_channel();
    let (drop_sender, mut dropped) = mpsc::unbounded_channel();
    let worker = client.worker().lease(LEASE).handle(QUEUE, move |work: Work| {
        let (sender, guard) = (sender.clone(), Dropped(drop_sender.clone()));
        async move {
            sender.send((Instant::now(), work.job().attempts)).unwrap();
            if work.job().attempts == 1 {
                pending::<()>().await;
            }
            drop(guard);
        }
    });
    let running = Running::start(worker);
    let (start, attempt) = begun.recv().await.unwrap();
    assert_eq!(attempt, 1);
    // The server gives the job up: its time passes, and no extension has come.
    fake.advance(LEASE);
    assert_eq!(only_job(&fake).state, JobState::Ready);
    let stopped = dropped.recv().await.unwrap();
    assert_eq!(stopped - start, LEASE / 3, "the first extension says that the lease is stale");
    // The job is delivered again; the handler that was stopped has changed nothing.
    assert_eq!(begun.recv().await.unwrap().1, 2);
    dropped.recv().await.unwrap();
    running.stop().await;
    assert_eq!(fake.jobs(QUEUE).len(), 0, "the second attempt is acknowledged");
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_period_jobs_are_released_without_counting_an_attempt() {
    const GRACE: Duration = Duration::from_secs(7);
    let fake = Fake::new();
    let client = fake.client();
    for text in ["running", "waiting", "waiting too"] {
        put(&client, text).await;
    }
    let (sender, mut begun) = mpsc::unbounded_channel();
    let (drop_sender, mut dropped) = mpsc::unbounded_channel();
    let worker = client.worker().prefetch(2).grace(GRACE).handle(QUEUE, move |_: Work| {
        let (sender, guard) = (sender.clone(), Dropped(drop_sender.clone()));
        async move {
            sender.send(()).unwrap();
            pending::<()>().await;
            drop(guard);
        }
    });
    let running = Running::start(worker);
    begun.recv().await.unwrap();
    while fake.jobs(QUEUE).iter().any(|job| job.state != JobState::Leased) {
        tokio::task::yield_now().await;
    }
    let stop = Instant::now();
    running.stop().await;
    assert_eq!(stop.elapsed(), GRACE, "the handler has its whole grace period, and no more");
    assert_eq!(dropped.recv().await.unwrap() - stop, GRACE);
    assert!(begun.try_recv().is_err(), "nothing is begun during a shutdown");
    for job in fake.jobs(QUEUE) {
        assert_eq!((job.state, job.attempts), (JobState::Ready, 0), "{:?}", job.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_finish_within_the_grace_period() {
    let fake = Fake::new();
    let client = fake.client();
    put(&client, "x").await;
    let begun = Arc::new(Notify::new());
    let notify = Arc::clone(&begun);
    let grace = Duration::from_secs(7);
    let worker = client.worker().grace(grace).handle(QUEUE, move |_: Work| {
        notify.notify_one();
        sleep(Duration::from_secs(6))
    });
    let running = Running::start(worker);
    begun.notified().await;
    let stop = Instant::now();
    running.stop().await;
    assert!(stop.elapsed() < grace, "the worker waits for the handler only");
    assert_eq!(fake.jobs(QUEUE).len(), 0, "the job is acknowledged");
}

#[tokio::test(start_paused = true)]
async fn the_first_layer_is_outermost_and_sees_the_outcome() {
    let fake = Fake::new();
    let client = fake.client();
    put(&client, "x").await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let layer = |name: &'static str| {
        let order = Arc::clone(&order);
        move |work: Work, next: Next| {
            let order = Arc::clone(&order);
            async move {
                order.lock().unwrap().push(format!("{name} in"));
                let outcome = next.run(work).await;
                let shown = matches!(&outcome, Outcome::Failed { error, .. } if error == "no luck");
                order.lock().unwrap().push(format!("{name} out: {shown}"));
                outcome
            }
        }
    };
    let done = Arc::new(Notify::new());
    let (handled, finished) = (Arc::clone(&order), Arc::clone(&done));
    let worker = client
        .worker()
        .layer(move |work: Work, next: Next| {
            let finished = Arc::clone(&finished);
            async move {
                let outcome = next.run(work).await;
                finished.notify_one();
                outcome
            }
        })
        .layer(layer("outer"))
        .layer(layer("inner"))
        .handle(QUEUE, move |_: Work| {
            handled.lock().unwrap().push("handler".to_owned());
            async { Err::<(), _>("no luck") }
        });
    let running = Running::start(worker);
    done.notified().await;
    running.stop().await;
    assert_eq!(
        *order.lock().unwrap(),
        ["outer in", "inner in", "handler", "inner out: true", "outer out: true"]
    );
    assert_eq!(only_job(&fake).last_error.as_deref(), Some("no luck"));
}

#[tokio::test(start_paused = true)]
async fn a_layer_may_answer_without_the_handler() {
    let fake = Fake::new();
    let client = fake.client();
    put(&client, "x").await;
    let answered = Arc::new(Notify::new());
    let answer = Arc::clone(&answered);
    let worker = client
        .worker()
        .layer(move |_: Work, _: Next| {
            answer.notify_one();
            async { Outcome::dead("not today") }
        })
        .handle(QUEUE, async |_: Work| Outcome::dead("the handler ran"));
    let running = Running::start(worker);
    answered.notified().await;
    running.stop().await;
    let job = only_job(&fake);
    assert_eq!((job.state, job.last_error.as_deref()), (JobState::Dead, Some("not today")));
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_its_attempt_and_the_worker_continues() {
    let fake = Fake::new();
    let client = fake.client();
    for number in 0..3 {
        client.put(NewJob::json(QUEUE, &number).unwrap()).await.unwrap();
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = client.worker().handle(QUEUE, move |work: Work| {
        let tell = tell.clone();
        async move {
            let number: u64 = work.job().json().unwrap();
            tell.send(number).unwrap();
            match number {
                0 => panic!("a text"),
                1 => panic!("the number {number}"),
                _ => {}
            }
        }
    });
    let running = Running::start(worker);
    for number in 0..3 {
        assert_eq!(told.recv().await, Some(number));
    }
    running.stop().await;
    let mut errors: Vec<_> = fake.jobs(QUEUE).into_iter().map(|job| job.last_error).collect();
    errors.sort();
    let failed = |text: &str| Some(format!("the handler panicked: {text}"));
    assert_eq!(errors, [failed("a text"), failed("the number 1")]);
    assert!(fake.jobs(QUEUE).iter().all(|job| job.attempts == 1));
}

#[tokio::test(start_paused = true)]
async fn the_server_knows_the_name_of_the_worker() {
    let fake = Fake::new();
    let client = fake.client();
    put(&client, "x").await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = client.worker().name("mailer-1").handle(QUEUE, move |work: Work| {
        let tell = tell.clone();
        async move {
            let job = work.client().get(work.job().id).await?;
            tell.send(job.lease.and_then(|lease| lease.worker)).unwrap();
            Ok::<_, tickwheel_client::Error>(())
        }
    });
    let running = Running::start(worker);
    assert_eq!(told.recv().await.unwrap().as_deref(), Some("mailer-1"));
    running.stop().await;
}
