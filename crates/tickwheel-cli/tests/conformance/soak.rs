//! Kills servers and workers while jobs are put and handled, and checks that nothing is lost.
//!
//! `TICKWHEEL_SOAK_SECONDS` sets the duration; the default is the short form of 3 seconds.

use std::collections::BTreeSet;
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tickwheel_client::testing::Server;
use tickwheel_client::{Client, NewJob, Payload, Work};
use tokio::runtime::Runtime;

type Numbers = Arc<Mutex<BTreeSet<u64>>>;

/// A worker on a runtime of its own. Ending the runtime ends its tasks at any point, as a crash
/// does.
fn start_worker(url: &str, handled: &Numbers) -> Runtime {
    let runtime = Runtime::new().expect("a runtime");
    let client = Client::new(url).expect("a client");
    let handled = Arc::clone(handled);
    let worker = client.worker().concurrency(4).prefetch(4).lease(Duration::from_secs(1));
    let worker = worker.handle("soak", move |work: Work| {
        let handled = Arc::clone(&handled);
        async move {
            let number: u64 = work.job().json()?;
            handled.lock().expect("no panic").insert(number);
            Ok::<_, tickwheel_client::Error>(())
        }
    });
    runtime.spawn(worker.run(std::future::pending()));
    runtime
}

/// Puts jobs until it is stopped; a put is repeated for as long as a restart may take.
async fn produce(url: String, first: u64, put: Numbers, is_over: Arc<AtomicBool>) {
    let client = Client::builder(url).patience(Duration::from_secs(60)).build().expect("a client");
    let mut number = first;
    while !is_over.load(Ordering::Relaxed) {
        let job = NewJob::json("soak", &number).expect("JSON").max_attempts(1_000);
        let job = job.delay(Duration::from_millis(number % 50));
        client.put(job).await.expect("the put succeeds");
        put.lock().expect("no panic").insert(number);
        number += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_servers_and_workers_are_killed() {
    let seconds = env::var("TICKWHEEL_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(3.0));
    let builder = Server::builder().binary(env!("CARGO_BIN_EXE_tickwheel")).system_clock();
    let mut server = builder.start().expect("the server starts");
    let (put, handled) = (Numbers::default(), Numbers::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let producers: Vec<_> = (0..4)
        .map(|number| {
            let (put, is_over) = (Arc::clone(&put), Arc::clone(&is_over));
            tokio::spawn(produce(server.url().to_owned(), number * 1_000_000, put, is_over))
        })
        .collect();
    let mut workers =
        vec![start_worker(server.url(), &handled), start_worker(server.url(), &handled)];
    let mut kills = 0;
    while Instant::now() < end || kills < 2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        workers.remove(0).shutdown_background();
        workers.push(start_worker(server.url(), &handled));
        if kills % 2 == 0 {
            server.kill_and_restart().expect("the server starts again");
        }
        kills += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    for producer in producers {
        producer.await.expect("no panic");
    }
    let client = server.client().expect("a client");
    loop {
        let jobs = client.queue("soak").await.expect("the queue").jobs;
        assert_eq!(jobs.dead, 0);
        if jobs.scheduled + jobs.ready + jobs.leased == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    workers.into_iter().for_each(Runtime::shutdown_background);
    let (put, handled) = (put.lock().expect("no panic"), handled.lock().expect("no panic"));
    assert!(put.len() > 20, "only {} jobs were put", put.len());
    assert_eq!(put.difference(&handled).collect::<Vec<_>>(), Vec::<&u64>::new());
}
