//! The beanstalkd protocol on a real socket: reserving, and the ways in which jobs end.

use std::time::Duration;

use tickwheel::ManualClock;

use crate::beanstalk::{Client, service, service_with_clock};
use crate::client::{PATIENCE, Service};

/// Advances the clock from one alarm to the next. After each step it waits until the queue has
/// handled what is due: each answer takes a turn of the writer, which sets the alarm after a turn
/// without work.
async fn advance(clock: &ManualClock, client: &mut Client, seconds: u64) {
    let settle = async |client: &mut Client| {
        for _ in 0..8 {
            client.ask("stats-tube default").await;
        }
    };
    settle(client).await;
    for _ in clock.steps(Duration::from_secs(seconds)) {
        settle(client).await;
    }
}

/// Returns once a connection waits for a job.
async fn somebody_waits(service: &Service) {
    let mut client = Client::of(service).await;
    let waits = async {
        while client.field("stats", "current-waiting").await != "1" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.expect("a connection waits");
}

#[tokio::test]
async fn the_smallest_priority_of_all_watched_tubes_goes_first() {
    let service = service().await;
    let mut client = Client::of(&service).await;
    let mut numbers = Vec::new();
    for (tube, pri) in [("a", 5), ("b", 3), ("a", 4), ("c", 1), ("b", 3), ("a", 4_000_000_000_u32)]
    {
        client.ask(&format!("use {tube}")).await;
        numbers.push(client.put(&format!("{pri} 0 60"), tube).await);
    }
    client.ask("watch a").await;
    client.ask("watch b").await;
    client.ask("ignore default").await;
    let mut order = Vec::new();
    for _ in 0..5 {
        let reserved = client.ask("reserve-with-timeout 0").await;
        order.push(reserved.split(' ').nth(1).unwrap().parse::<u64>().unwrap());
    }
    assert_eq!(order, [1, 4, 2, 0, 5].map(|index| numbers[index]));
    assert_eq!(client.ask("reserve-with-timeout 0").await, "TIMED_OUT");
    service.stop().await;
}

#[tokio::test]
async fn a_worker_that_waits_for_several_tubes_gets_the_job_of_any() {
    let service = service().await;
    let mut put = Client::of(&service).await;
    for tube in ["one", "two"] {
        let mut work = Client::of(&service).await;
        work.ask("watch one").await;
        work.ask("watch two").await;
        work.send("reserve\r\n").await;
        somebody_waits(&service).await;
        put.ask(&format!("use {tube}")).await;
        let number = put.put("0 0 60", tube).await;
        assert_eq!(work.answer().await, format!("RESERVED {number} 3\n{tube}"));
        assert_eq!(work.ask(&format!("delete {number}")).await, "DELETED");
        assert_eq!(put.field(&format!("stats-tube {tube}"), "current-waiting").await, "0");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_delayed_job_comes_in_its_time() {
    let (service, clock) = service_with_clock().await;
    let mut client = Client::of(&service).await;
    let number = client.put("7 10 60", "x").await;
    let job = format!("stats-job {number}");
    assert_eq!(client.field(&job, "state").await, "delayed");
    assert_eq!(client.field(&job, "time-left").await, "9");
    assert_eq!(client.ask("peek-delayed").await, format!("FOUND {number} 1\nx"));
    assert_eq!(client.ask("reserve-with-timeout 0").await, "TIMED_OUT");
    advance(&clock, &mut client, 4).await;
    assert_eq!(client.field(&job, "time-left").await, "5");
    let mut work = Client::of(&service).await;
    work.send("reserve\r\n").await;
    somebody_waits(&service).await;
    advance(&clock, &mut client, 6).await;
    assert_eq!(work.answer().await, format!("RESERVED {number} 1\nx"));
    assert_eq!(client.field(&job, "state").await, "reserved");
    assert_eq!(client.field(&job, "age").await, "10");
    assert_eq!(client.field(&job, "delay").await, "10");
    service.stop().await;
}

#[tokio::test]
async fn the_last_second_of_a_reserved_job_ends_a_wait() {
    let (service, clock) = service_with_clock().await;
    let mut client = Client::of(&service).await;
    let mut work = Client::of(&service).await;
    let number = client.put("0 0 5", "x").await;
    assert!(work.ask("reserve").await.starts_with("RESERVED "));
    // The safety margin of the lease begins while the worker waits.
    work.send("reserve\r\n").await;
    somebody_waits(&service).await;
    advance(&clock, &mut client, 4).await;
    assert_eq!(work.line().await, "DEADLINE_SOON");
    // Within the margin, a reserve does not wait, but still returns ready jobs.
    assert_eq!(work.ask("reserve").await, "DEADLINE_SOON");
    let second = client.put("0 0 5", "y").await;
    assert_eq!(work.ask("reserve").await, format!("RESERVED {second} 1\ny"));
    assert_eq!(work.ask(&format!("delete {second}")).await, "DELETED");
    // A touch restarts the time to run.
    assert_eq!(work.ask(&format!("touch {number}")).await, "TOUCHED");
    assert_eq!(client.field(&format!("stats-job {number}"), "time-left").await, "4");
    assert_eq!(work.ask("reserve-with-timeout 0").await, "TIMED_OUT");
    advance(&clock, &mut client, 5).await;
    assert_eq!(client.ask("reserve").await, format!("RESERVED {number} 1\nx"));
    assert_eq!(work.ask(&format!("touch {number}")).await, "NOT_FOUND");
    let job = format!("stats-job {number}");
    assert_eq!(client.field(&job, "timeouts").await, "1");
    assert_eq!(client.field(&job, "reserves").await, "2");
    assert_eq!(work.ask(&format!("delete {number}")).await, "NOT_FOUND");
    service.stop().await;
}

#[tokio::test]
async fn a_job_whose_time_ran_out_can_be_deleted_by_anybody() {
    let (service, clock) = service_with_clock().await;
    let mut client = Client::of(&service).await;
    let number = client.put("0 0 1", "x").await;
    assert!(client.ask("reserve").await.starts_with("RESERVED "));
    advance(&clock, &mut client, 2).await;
    assert_eq!(client.field(&format!("stats-job {number}"), "state").await, "ready");
    assert_eq!(client.ask(&format!("delete {number}")).await, "DELETED");
    assert_eq!(client.ask(&format!("delete {number}")).await, "NOT_FOUND");
    service.stop().await;
}

#[tokio::test]
async fn a_connection_that_ends_gives_its_jobs_back() {
    let service = service().await;
    let mut put = Client::of(&service).await;
    let first = put.put("0 0 3600", "x").await;
    let second = put.put("1 0 3600", "y").await;
    let mut gone = Client::of(&service).await;
    for number in [first, second] {
        assert!(gone.ask("reserve").await.starts_with(&format!("RESERVED {number} ")));
    }
    let mut work = Client::of(&service).await;
    work.send("reserve\r\n").await;
    somebody_waits(&service).await;
    assert_eq!(gone.hang_up().await, "");
    assert_eq!(work.answer().await, format!("RESERVED {first} 1\nx"));
    // A worker that hangs up while it waits gets an answer, and no job is lost.
    let mut waits = Client::of(&service).await;
    waits.ask("watch empty").await;
    waits.ask("ignore default").await;
    waits.send("reserve\r\n").await;
    somebody_waits(&service).await;
    assert_eq!(waits.hang_up().await, "TIMED_OUT\r\n");
    put.ask("use empty").await;
    let third = put.put("0 0 60", "z").await;
    work.ask("watch empty").await;
    let mut rest = [work.ask("reserve").await, work.ask("reserve").await];
    rest.sort();
    assert_eq!(rest, [format!("RESERVED {second} 1\ny"), format!("RESERVED {third} 1\nz")]);
    service.stop().await;
}

#[tokio::test]
async fn a_released_job_has_its_new_priority_and_delay() {
    let (service, clock) = service_with_clock().await;
    let mut client = Client::of(&service).await;
    let first = client.put("1 0 60", "x").await;
    let second = client.put("2 0 60", "y").await;
    assert!(client.ask("reserve").await.starts_with(&format!("RESERVED {first} ")));
    assert_eq!(client.ask(&format!("release {first} 3 0")).await, "RELEASED");
    assert_eq!(client.ask(&format!("release {first} 3 0")).await, "NOT_FOUND");
    let job = format!("stats-job {first}");
    for (name, value) in [("pri", "3"), ("state", "ready"), ("releases", "1"), ("delay", "0")] {
        assert_eq!(client.field(&job, name).await, value, "{name}");
    }
    assert_eq!(client.ask("peek-ready").await, format!("FOUND {second} 1\ny"));
    assert!(client.ask("reserve").await.starts_with(&format!("RESERVED {second} ")));
    assert!(client.ask("reserve").await.starts_with(&format!("RESERVED {first} ")));
    assert_eq!(client.ask(&format!("release {first} 0 9")).await, "RELEASED");
    for (name, value) in [("pri", "0"), ("state", "delayed"), ("delay", "9")] {
        assert_eq!(client.field(&job, name).await, value, "{name}");
    }
    advance(&clock, &mut client, 9).await;
    assert!(client.ask("reserve").await.starts_with(&format!("RESERVED {first} ")));
    // A restart keeps the priority.
    client.ask(&format!("release {first} 7 0")).await;
    drop(client);
    let folder = service.stop().await;
    let clock = clock.clone();
    let service = Service::on(folder, |config| {
        crate::beanstalk::listen(config);
        config.clock = Some(clock);
    });
    let service = service.await;
    let mut client = Client::of(&service).await;
    assert_eq!(client.field(&job, "pri").await, "7");
    // The other job was released when its connection ended.
    assert!(client.ask("reserve").await.starts_with(&format!("RESERVED {second} ")));
    service.stop().await;
}

#[tokio::test]
async fn buried_jobs_are_dead_until_they_are_kicked() {
    let service = service().await;
    let mut client = Client::of(&service).await;
    let mut numbers = Vec::new();
    for pri in 0..3 {
        let number = client.put(&format!("{pri} 0 60"), "x").await;
        assert!(client.ask("reserve").await.starts_with("RESERVED "));
        assert_eq!(client.ask(&format!("bury {number} 9")).await, "BURIED");
        numbers.push(number);
    }
    assert_eq!(client.ask(&format!("bury {} 9", numbers[0])).await, "NOT_FOUND");
    assert_eq!(service.get("/v1/queues/default").await.json()["jobs"]["dead"], 3);
    assert_eq!(client.ask("peek-buried").await, format!("FOUND {} 1\nx", numbers[0]));
    let job = format!("stats-job {}", numbers[0]);
    for (name, value) in [("state", "buried"), ("pri", "9"), ("buries", "1"), ("kicks", "0")] {
        assert_eq!(client.field(&job, name).await, value, "{name}");
    }
    let delayed = client.put("0 3600 60", "later").await;
    assert_eq!(client.ask("kick 2").await, "KICKED 2");
    assert_eq!(client.field("stats-tube default", "current-jobs-buried").await, "1");
    assert_eq!(client.ask(&format!("kick-job {}", numbers[2])).await, "KICKED");
    assert_eq!(client.ask(&format!("kick-job {}", numbers[2])).await, "NOT_FOUND");
    assert_eq!(client.field(&job, "kicks").await, "1");
    // Without buried jobs, delayed ones are kicked.
    assert_eq!(client.field("stats-tube default", "current-jobs-delayed").await, "1");
    assert_eq!(client.ask("kick 10").await, "KICKED 1");
    assert!(client.ask("reserve").await.starts_with(&format!("RESERVED {delayed} ")));
    for _ in 0..3 {
        assert!(client.ask("reserve").await.starts_with("RESERVED "));
    }
    assert_eq!(client.ask("kick 10").await, "KICKED 0");
    client.ask(&format!("bury {} 0", numbers[1])).await;
    assert_eq!(client.ask(&format!("delete {}", numbers[1])).await, "DELETED");
    service.stop().await;
}

#[tokio::test]
async fn a_job_is_reserved_by_its_number_in_every_state_but_one() {
    let service = service().await;
    let mut client = Client::of(&service).await;
    let ready = client.put("0 0 60", "r").await;
    let delayed = client.put("0 3600 60", "d").await;
    let buried = client.put("0 0 60", "b").await;
    assert_eq!(
        client.ask(&format!("reserve-job {buried}")).await,
        format!("RESERVED {buried} 1\nb")
    );
    client.ask(&format!("bury {buried} 0")).await;
    for (number, body) in [(ready, "r"), (delayed, "d"), (buried, "b")] {
        let reserved = format!("RESERVED {number} 1\n{body}");
        assert_eq!(client.ask(&format!("reserve-job {number}")).await, reserved);
        assert_eq!(client.ask(&format!("reserve-job {number}")).await, "NOT_FOUND");
    }
    assert_eq!(client.ask("reserve-with-timeout 0").await, "TIMED_OUT");
    // A job that was reserved before its time is ready when it is released without a delay.
    assert_eq!(client.ask(&format!("release {delayed} 0 0")).await, "RELEASED");
    assert_eq!(client.ask("reserve").await, format!("RESERVED {delayed} 1\nd"));
    service.stop().await;
}

#[tokio::test]
async fn a_paused_tube_gives_no_jobs_for_a_while() {
    let (service, clock) = service_with_clock().await;
    let mut client = Client::of(&service).await;
    let number = client.put("0 0 60", "x").await;
    assert_eq!(client.ask("pause-tube default 10").await, "PAUSED");
    assert_eq!(client.ask("reserve-with-timeout 0").await, "TIMED_OUT");
    assert_eq!(client.field("stats-tube default", "pause").await, "10");
    assert_eq!(client.field("stats-tube default", "pause-time-left").await, "9");
    assert_eq!(client.ask("peek-ready").await, format!("FOUND {number} 1\nx"));
    let mut work = Client::of(&service).await;
    work.send("reserve\r\n").await;
    somebody_waits(&service).await;
    advance(&clock, &mut client, 10).await;
    assert_eq!(work.answer().await, format!("RESERVED {number} 1\nx"));
    assert_eq!(client.field("stats-tube default", "cmd-pause-tube").await, "1");
    // A pause of no length ends a longer one; a watched tube can be paused before its first job.
    client.ask("watch empty").await;
    assert_eq!(client.ask("pause-tube empty 3600").await, "PAUSED");
    client.ask("use empty").await;
    let number = client.put("0 0 60", "y").await;
    assert_eq!(client.ask("reserve-with-timeout 0").await, "TIMED_OUT");
    assert_eq!(client.ask("pause-tube empty 0").await, "PAUSED");
    assert_eq!(client.ask("reserve").await, format!("RESERVED {number} 1\ny"));
    service.stop().await;
}

#[tokio::test]
async fn a_service_that_stops_takes_no_jobs_and_gives_reserved_ones_back() {
    let service = service().await;
    let mut client = Client::of(&service).await;
    let number = client.put("0 0 3600", "x").await;
    assert!(client.ask("reserve").await.starts_with("RESERVED "));
    let folder = service.stop().await;
    assert_eq!(client.line().await, "");
    let service = Service::on(folder, crate::beanstalk::listen).await;
    let mut client = Client::of(&service).await;
    assert_eq!(client.ask("reserve").await, format!("RESERVED {number} 1\nx"));
    service.stop().await;
}

#[tokio::test]
async fn connections_that_reserve_are_the_workers_of_the_tubes_they_watch() {
    let service = service().await;
    // Returns the numbers of workers of the tubes mail and default, and of all tubes. Without a
    // worker the number may be unknown, because jobs were delivered recently.
    let workers = async || {
        let overview = service.get("/v1/overview").await.json();
        let queues = overview["queues"].as_array().unwrap();
        let of = |name: &str| &queues.iter().find(|it| it["name"] == name).unwrap()["workers"];
        [of("mail"), of("default"), &overview["totals"]["workers"]]
            .map(|number| number.as_u64().unwrap_or_default())
    };
    let mut put = Client::of(&service).await;
    put.put("0 0 60", "y").await;
    put.ask("use mail").await;
    let number = put.put("0 0 60", "x").await;
    assert_eq!(workers().await, [0, 0, 0]);

    let mut first = Client::of(&service).await;
    first.ask("watch mail").await;
    first.ask("ignore default").await;
    assert_eq!(first.ask("reserve").await, format!("RESERVED {number} 1\nx"));
    assert_eq!(workers().await, [1, 0, 1]);
    // A connection counts as one worker, even while it waits without a limit.
    first.send("reserve\r\n").await;
    somebody_waits(&service).await;
    assert_eq!(workers().await, [1, 0, 1]);

    let mut second = Client::of(&service).await;
    second.ask("watch mail").await;
    assert!(second.ask("reserve-with-timeout 0").await.starts_with("RESERVED "));
    assert_eq!(workers().await, [2, 1, 2]);
    second.hang_up().await;
    drop(first);
    let gone = async {
        while workers().await != [0, 0, 0] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("closed connections are no workers");
    service.stop().await;
}
