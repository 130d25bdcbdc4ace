//! Data for operators: filters, errors by group, due counts, the wheel, and events.

use std::time::Duration;

use tickwheel::ManualClock;
use tickwheel_queue::{
    Access, Delivery, Error, ErrorGroup, ErrorList, GroupPatch, Keep, List, NewJob, Queues, Retry,
    SettingsPatch, State, Time,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn take(queues: &Queues, queue: &str) -> Delivery {
    queues.reserve(queue, 1, None).wait().unwrap().remove(0)
}

/// Puts a job with a key and lets it fail with an error.
fn fail(queues: &Queues, queue: &str, key: &str, error: &str, retry: Retry) {
    queues.put(NewJob::new(queue, "payload").key(key)).wait().unwrap();
    let lease = take(queues, queue).lease;
    queues.fail(lease, error, retry).wait().unwrap();
}

fn keys(queues: &Queues, list: List) -> Vec<String> {
    let page = queues.list(list).wait().unwrap();
    assert_eq!(page.next, None);
    page.jobs.into_iter().map(|job| job.key.unwrap()).collect()
}

#[test]
fn jobs_are_found_by_their_error() {
    let queues = Queues::in_memory();
    fail(&queues, "mail", "a", "10.0.0.7:25 refused the connection", Retry::Never);
    fail(&queues, "mail", "b", "10.0.0.8:25 Refused the connection", Retry::After(seconds(60)));
    fail(&queues, "mail", "c", "no such address", Retry::Never);
    queues.put(NewJob::new("mail", "").key("fresh").delay(seconds(60))).wait().unwrap();
    let list = || List::of("mail");
    assert_eq!(keys(&queues, list().error("refused")), ["b", "a"]);
    assert_eq!(keys(&queues, list().error("refused").state(State::Dead)), ["a"]);
    assert_eq!(keys(&queues, list().error("ADDRESS")), ["c"]);
    assert_eq!(keys(&queues, list().error("nothing like that")), Vec::<String>::new());
    let mut group = list();
    group.error_group = Some(ErrorGroup::text_of("1.2.3.4:5 refused the connection"));
    assert_eq!(keys(&queues, group.clone()), ["a"]);
    group.error_group = Some("refused".into());
    assert_eq!(keys(&queues, group), Vec::<String>::new());
    let mut waiting = list();
    waiting.only_waiting = true;
    assert_eq!(keys(&queues, waiting.clone()), ["b", "fresh"]);
    waiting.payloads = false;
    let page = queues.list(waiting).wait().unwrap();
    assert!(page.jobs.iter().all(|job| job.payload.is_empty()));
}

#[test]
fn finished_jobs_are_found_by_key_on_every_page() {
    let queues = Queues::in_memory();
    let patch = SettingsPatch { done: Some(Keep::FOREVER), ..SettingsPatch::default() };
    queues.patch_settings("mail", patch).wait().unwrap();
    for _ in 0..3 {
        for key in ["order-1", "order-2"] {
            queues.put(NewJob::new("mail", "").key(key)).wait().unwrap();
            queues.ack(take(&queues, "mail").lease).wait().unwrap();
        }
    }
    fail(&queues, "mail", "order-1", "no", Retry::Never);
    queues.put(NewJob::new("mail", "").key("order-1").delay(seconds(9))).wait().unwrap();
    let mut list = List::of("mail").key("order-1").limit(2);
    let mut states = Vec::new();
    loop {
        let page = queues.list(list.clone()).wait().unwrap();
        assert!(page.jobs.iter().all(|job| job.key.as_deref() == Some("order-1")));
        states.extend(page.jobs.iter().map(|job| job.state));
        list.after = page.next;
        if list.after.is_none() {
            break;
        }
    }
    let (live, done) = (State::Scheduled, State::Done);
    assert_eq!(states, [live, State::Dead, done, done, done]);
    let prefixed = |state| keys(&queues, List::of("mail").key_prefix("order-").state(state)).len();
    assert_eq!([prefixed(done), prefixed(State::Dead), prefixed(live)], [6, 1, 1]);
    assert_eq!(keys(&queues, List::of("mail").key_prefix("order-")), ["order-1"]);
}

#[test]
fn errors_are_grouped_and_counted() {
    let clock = ManualClock::new();
    let queues = Queues::builder().clock(clock.clone()).in_memory().unwrap();
    for number in 0..4 {
        let retry = if number == 3 { Retry::After(seconds(60)) } else { Retry::Never };
        fail(&queues, "mail", &number.to_string(), &format!("timeout after {number} s"), retry);
        clock.advance(seconds(10));
    }
    fail(&queues, "orders", "x", "card declined\n  at pay()", Retry::Never);
    queues.put(NewJob::new("mail", "").delay(seconds(1))).wait().unwrap();

    let page = queues.errors(ErrorList::of("mail")).wait().unwrap();
    assert!(page.is_complete && page.others == 0);
    let [group] = &page.groups[..] else { panic!("{page:?}") };
    assert_eq!((&*group.text, group.count, group.dead), ("timeout after # s", 4, 3));
    assert_eq!(group.newest, group.oldest.map(|oldest| oldest.after_seconds(30)));
    assert!(group.example_error.starts_with("timeout after "));
    let example = queues.get(group.example).wait().unwrap().unwrap();
    assert_eq!(example.state, State::Dead);

    let all = queues.errors(ErrorList::all()).wait().unwrap();
    let texts: Vec<_> = all.groups.iter().map(|group| &*group.text).collect();
    assert_eq!(texts, ["timeout after # s", "card declined"]);
    let first = queues.errors(ErrorList { limit: 1, ..ErrorList::all() }).wait().unwrap();
    assert_eq!((first.groups.len(), first.others), (1, 1));

    let limited = queues.limited_to(Access::to(["orders"]));
    let seen = limited.errors(ErrorList::all()).wait().unwrap();
    assert_eq!((seen.groups.len(), &*seen.groups[0].queue), (1, "orders"));
    let refused = limited.errors(ErrorList::of("mail")).wait();
    assert_eq!(refused, Err(Error::Forbidden("mail".into())));
}

/// A time some seconds later.
trait After {
    fn after_seconds(self, seconds: u64) -> Time;
}

impl After for Time {
    fn after_seconds(self, seconds: u64) -> Time {
        Time::from_millis(self.as_millis() + seconds * 1_000)
    }
}

#[test]
fn more_rows_than_a_step_looks_at_are_grouped_and_counted() {
    let queues = Queues::in_memory();
    let patch = SettingsPatch { max_attempts: Some(1), ..SettingsPatch::default() };
    queues.patch_settings("mail", patch).wait().unwrap();
    for _ in 0..3 {
        queues.put_all((0..1_000).map(|_| NewJob::new("mail", ""))).wait().unwrap();
        let jobs = queues.reserve("mail", 1_000, None).wait().unwrap();
        let failures = jobs.iter().zip(0..).map(|(job, number): (_, u32)| {
            (job.lease, format!("worker {number} gave up"), Retry::ByPolicy)
        });
        queues.fail_all(failures).wait().unwrap();
    }
    let later = (0..5_000).map(|number| NewJob::new("mail", "").delay(seconds(60 + number % 2)));
    queues.put_all(later).wait().unwrap();
    let page = queues.errors(ErrorList::of("mail")).wait().unwrap();
    assert_eq!((page.groups.len(), page.groups[0].count), (1, 3_000));

    let due = queues.list(List::of("mail").limit(1)).wait().unwrap().jobs[0].due;
    let last = due.after_seconds(100);
    let counts = queues.count_due([last, due.after_seconds(0), Time::default()]).wait().unwrap();
    assert_eq!(counts[0].counts.iter().sum::<u64>(), 5_000);
    assert_eq!((counts[0].counts[0], counts[0].counts[3]), (0, 0));
    assert_eq!(queues.count_due([]).wait().unwrap()[0].counts, [5_000]);
}

#[test]
fn events_tell_the_key_and_the_error() {
    let queues = Queues::in_memory();
    let mut events = queues.events(None);
    fail(&queues, "mail", "order-42", "no route to host", Retry::After(Duration::ZERO));
    let lease = take(&queues, "mail").lease;
    queues.fail(lease, "é".repeat(500), Retry::Never).wait().unwrap();
    let told: Vec<_> = (0..5)
        .map(|_| {
            let event = events.wait().unwrap();
            assert_eq!(event.key.as_deref(), Some("order-42"), "{event:?}");
            (event.kind.as_str(), event.error)
        })
        .collect();
    let kinds: Vec<_> = told.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["put", "leased", "failed", "leased", "dead"]);
    assert_eq!(told[2].1.as_deref(), Some("no route to host"));
    assert_eq!(told[4].1.as_deref(), Some(&*format!("{}…", "é".repeat(128))));
    assert!(told[0].1.is_none() && told[1].1.is_none());
}

#[test]
fn held_jobs_are_those_that_a_pause_or_a_limit_keeps_back() {
    let queues = Queues::in_memory();
    for group in ["acme", "acme", "initech"] {
        queues.put(NewJob::new("mail", "").group(group)).wait().unwrap();
    }
    let held = || queues.queue("mail").wait().unwrap().unwrap().held;
    assert_eq!(held(), 0);
    let paused = GroupPatch::default().paused(true);
    queues.patch_group("mail", "acme", paused).wait().unwrap();
    assert_eq!(held(), 2);
    queues.pause("mail").wait().unwrap();
    assert_eq!(held(), 3);
}

#[test]
fn the_wheel_and_samples_show_only_what_a_handle_may_see() {
    let queues = Queues::in_memory();
    for queue in ["a", "b", "b"] {
        queues.put(NewJob::new(queue, "").delay(seconds(60))).wait().unwrap();
    }
    let limited = queues.limited_to(Access::to(["a"]));
    let jobs = |queues: &Queues| -> u64 {
        let wheel = queues.wheel().wait().unwrap();
        wheel.levels.iter().flat_map(|level| &level.slots).map(|slot| slot.jobs).sum()
    };
    assert_eq!((jobs(&queues), jobs(&limited)), (3, 1));
    let sample = limited.sample(Time::default(), Vec::new()).wait().unwrap();
    assert_eq!((sample.queues.len(), sample.total.scheduled, sample.total.counters.put), (1, 1, 0));
    let all = queues.sample(Time::default(), Vec::new()).wait().unwrap();
    assert_eq!((all.queues.len(), all.total.scheduled, all.total.counters.put), (2, 3, 3));
    // Nothing has changed since, so the sample contains only the named queue.
    let later = queues.sample(Time::MAX, vec!["b".into()]).wait().unwrap();
    assert_eq!((later.queues.len(), &*later.queues[0].name), (1, "b"));
    assert_eq!(limited.count_due([]).wait().unwrap().len(), 1);
}
