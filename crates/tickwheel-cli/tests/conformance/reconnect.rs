//! A worker whose server is killed and started again.

use std::sync::Arc;
use std::time::Duration;

use tickwheel_client::testing::Server;
use tickwheel_client::{NewJob, Work};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

/// Longer than the worker pauses between two attempts, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_reconnects_after_a_restart_of_the_server() {
    let binary = env!("CARGO_BIN_EXE_tickwheel");
    let mut server = Server::builder().binary(binary).start().expect("a server");
    let client = server.client().expect("a client");
    let (sender, mut texts) = mpsc::unbounded_channel();
    let finish = Arc::new(Notify::new());
    let finished = Arc::clone(&finish);
    let worker = client.worker().handle("q", move |work: Work| {
        let (sender, finished) = (sender.clone(), Arc::clone(&finished));
        async move {
            let text = work.job().text.clone().unwrap_or_default();
            sender.send(text.clone()).expect("the test listens");
            if text == "before" {
                finished.notified().await;
            }
        }
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run(async { drop(stopped.await) }));

    client.put(NewJob::text("q", "before")).await.expect("a job");
    let first = timeout(PATIENCE, texts.recv()).await.expect("the handler begins");
    assert_eq!(first.as_deref(), Some("before"));
    // The worker holds a job, and reports it to the new process.
    server.kill_and_restart().expect("the server starts again");
    finish.notify_one();
    client.put(NewJob::text("q", "after")).await.expect("a job");
    let second = timeout(PATIENCE, texts.recv()).await.expect("the worker reserves again");
    assert_eq!(second.as_deref(), Some("after"));

    stop.send(()).expect("the worker runs");
    worker.await.expect("no panic");
    let queue = client.queue("q").await.expect("the queue");
    assert_eq!((queue.jobs.scheduled, queue.jobs.ready, queue.jobs.leased), (0, 0, 0));
    assert_eq!(queue.counters.acked, 2, "both jobs are acknowledged, once each");
}
