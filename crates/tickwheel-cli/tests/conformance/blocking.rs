//! The blocking client against the real binary: the life of jobs, queues and schedules.

use std::thread;
use std::time::Duration;

use serde_json::value::to_raw_value;
use tickwheel_client::api::{
    BulkAction, BulkRequest, Code, Delay, JobState, Order, PutOutcome, QueueSettingsPatch,
    RescheduleRequest, ReserveRequest, ScheduleRequest,
};
use tickwheel_client::testing::Server;
use tickwheel_client::{Lease, List, NewJob, Payload, Retry, blocking};

const HOUR: Duration = Duration::from_secs(3_600);

fn start() -> (Server, blocking::Client) {
    let server = Server::builder().binary(env!("CARGO_BIN_EXE_tickwheel")).start();
    let server = server.expect("a server");
    let client = blocking::Client::new(server.url()).expect("a client");
    (server, client)
}

fn reserve_one(client: &blocking::Client, queue: &str) -> Lease {
    let deliveries = client.reserve(queue, ReserveRequest::default()).expect("a delivery");
    Lease::from(deliveries.first().expect("one job"))
}

#[test]
fn a_job_lives_from_put_to_acknowledgement() {
    let (_server, client) = start();
    let job = NewJob::json("orders", &42).expect("JSON").key("order-42");
    let put = client.put(job.delay(HOUR)).expect("a job");
    assert_eq!(put.outcome, PutOutcome::Created);
    let job = client.get(("orders", "order-42")).expect("the job");
    assert_eq!((job.id, job.state), (put.id, JobState::Scheduled));
    assert_eq!(job.json::<u64>().expect("a number"), 42);
    assert_eq!(client.list_all(List::of("orders")).expect("jobs").len(), 1);

    let soon = RescheduleRequest { delay: Some(Delay(HOUR / 2)), due: None };
    let moved = client.reschedule(put.id, soon).expect("moved");
    assert!(moved.due_ms < job.due_ms);
    client.advance(HOUR / 2).expect("a manual clock");

    // Released, failed, dead, retried, acknowledged.
    let lease = reserve_one(&client, "orders");
    assert_eq!(lease.id, put.id);
    client.extend(lease, HOUR).expect("extended");
    client.release(lease, None).expect("released");
    assert!(client.extend(lease, HOUR).expect_err("the lease has ended").is_stale_lease());
    let lease = reserve_one(&client, "orders");
    let state = client.fail(lease, "busy", Retry::After(HOUR)).expect("failed");
    assert_eq!(state, JobState::Scheduled);
    client.advance(HOUR).expect("a manual clock");
    let lease = reserve_one(&client, "orders");
    assert_eq!(client.fail(lease, "hopeless", Retry::Never).expect("failed"), JobState::Dead);
    let errors = client.errors(Some("orders"), None).expect("errors");
    assert_eq!(errors.groups[0].error, "hopeless");
    assert_eq!(client.kick(put.id).expect("kicked"), JobState::Ready);
    let lease = reserve_one(&client, "orders");
    let result = to_raw_value(&"closed").expect("JSON");
    assert_eq!(client.ack(lease, Some(&result)).expect("acknowledged"), JobState::Done);
    assert_eq!(client.queue("orders").expect("the queue").counters.acked, 1);
    assert_eq!(client.stats().expect("statistics").acked, Some(1));
}

#[test]
fn queues_and_schedules_are_administered() {
    let (_server, client) = start();
    let jobs = (0..3).map(|number| NewJob::text("mail", number.to_string()).delay(HOUR));
    let results = client.put_all(jobs).expect("one request");
    assert!(results.iter().all(Result::is_ok));
    let job = results[0].as_ref().expect("a job").id;
    assert_eq!(client.cancel(job).expect("cancelled"), JobState::Scheduled);
    assert_eq!(client.get(job).expect_err("it is gone").code(), Some(Code::NotFound));
    assert_eq!(client.list(&List::of("mail")).expect("a page").jobs.len(), 2);

    assert!(client.pause_queue("mail").expect("paused").paused);
    assert!(!client.resume_queue("mail").expect("resumed").paused);
    let patch = QueueSettingsPatch { order: Some(Order::Priority), ..Default::default() };
    let settings = client.patch_settings("mail", &patch).expect("changed").settings;
    assert_eq!(settings.order, Order::Priority);
    let changed = client.change_all_matching("mail", BulkRequest::new(BulkAction::Run));
    assert_eq!(changed.expect("changed").changed, 2);
    assert_eq!(client.queues().expect("queues").len(), 1);
    assert_eq!(client.overview().expect("an overview").queues[0].jobs.ready, 2);

    let hourly = ScheduleRequest {
        queue: "mail".to_owned(),
        every: Some(Delay(HOUR)),
        text: Some("beat".to_owned()),
        ..Default::default()
    };
    assert_eq!(client.put_schedule("beat", &hourly).expect("a schedule").name, "beat");
    client.advance(HOUR).expect("a manual clock");
    assert_eq!(client.remove_schedule("beat").expect("removed").fired, 1);
    // Every other operation is one of the async client.
    let ready = client.wait(client.client().ready());
    assert_eq!(ready.expect("ready").status, "ready");
}

#[test]
fn threads_share_a_client_and_their_puts_travel_together() {
    let (_server, client) = start();
    let putters: Vec<_> = (0..8)
        .map(|number| {
            let client = client.clone();
            thread::spawn(move || {
                let job = NewJob::json("q", &number).expect("JSON");
                client.put(job).expect("a job").id
            })
        })
        .collect();
    let ids: Vec<_> = putters.into_iter().map(|it| it.join().expect("no panic")).collect();
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(client.get(id).expect("the job").json::<usize>().expect("a number"), number);
    }
}
