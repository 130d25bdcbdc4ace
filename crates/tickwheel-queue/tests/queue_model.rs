//! Random commands against a plain model, on a clock that the test moves, with restarts and power
//! failures after any step. After every step everything is read back and compared.

mod model;
mod rig;
mod story;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use model::{
    FOLLOW_UP_ATTEMPTS, Model, ModelAttempt, ModelSchedule, NewModelJob, RETRY, SCHEDULE_ATTEMPTS,
};
use proptest::prelude::*;
use story::Story;
use tickwheel::ManualClock;
use tickwheel_queue::store::{Directory, Disk, MemoryDisk};
use tickwheel_queue::{
    Attempt, FollowUp, GroupList, GroupPatch, GroupSettings, Job, JobId, JobRef, Lease, List,
    NewJob, NewSchedule, OnConflict, Order, Pacing, QueueSettings, Queues, Retry, RetryPolicy,
    SettingsPatch, State, Time, cron::Misfire,
};

const QUEUES: [&str; 2] = ["alpha", "beta"];
/// Jobs of the same number form a group.
const GROUPS: u8 = 3;
/// The wall clock at the start: whole milliseconds, so that the model need not round.
const START: u64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put(Put),
    PutMany { queue: usize, group: Option<u8>, count: usize, delay: u64, spread: u64 },
    Cancel(usize),
    CancelKey(usize, u8),
    Reschedule(usize, u64),
    Reserve { queue: usize, jobs: usize, lease: u64 },
    Ack(usize),
    Fail(usize, Retry),
    Extend(usize, u64),
    Release(usize, u64),
    Kick(usize),
    KickAll(usize),
    Purge(usize),
    Drain(usize),
    Pause(usize, bool),
    Order(usize, bool),
    Fair(usize, bool),
    GroupConcurrency(usize, Option<u32>),
    Group { queue: usize, group: u8, paused: bool, concurrency: Option<u32> },
    Schedule { number: i8, queue: usize, period: u64 },
    Unschedule(i8),
    Advance(u64),
    SetClock(i64),
    Restart,
    Crash,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    queue: usize,
    key: Option<u8>,
    group: Option<u8>,
    conflict: OnConflict,
    priority: i8,
    delay: u64,
    /// How often it may be delivered.
    max: u32,
    /// The longest time since the first put of its key.
    max_total_delay: Option<u64>,
    /// Whether a job follows in the other queue.
    has_follow_up: bool,
}

fn millis() -> impl Strategy<Value = u64> {
    // Now, within the horizon, around its edge, and far away.
    prop_oneof![3 => Just(0), 4 => 1..2_000_u64, 3 => 900..1_600_u64, 2 => 5_000..90_000_u64]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let queue = || 0..QUEUES.len();
    let any_job = || 0..1_000_usize;
    let group = || prop::option::of(0..GROUPS);
    let limit = || prop::option::of(1..4_u32);
    let conflict =
        prop_oneof![Just(OnConflict::Replace), Just(OnConflict::Keep), Just(OnConflict::Reject)];
    let retry = prop_oneof![
        Just(Retry::ByPolicy),
        Just(Retry::Never),
        (0..2_000_u64).prop_map(|delay| Retry::After(Duration::from_millis(delay)))
    ];
    prop_oneof![
        12 => (
            (queue(), prop::option::of(0..4_u8), group(), conflict),
            (-1..2_i8, millis(), 1..4_u32, prop::option::of(millis()), any::<bool>()),
        ).prop_map(|(
            (queue, key, group, conflict),
            (priority, delay, max, max_total_delay, has_follow_up),
        )| {
            let max_total_delay = max_total_delay.filter(|_| key.is_some());
            Step::Put(Put {
                queue, key, group, conflict, priority, delay, max, max_total_delay,
                has_follow_up,
            })
        }),
        2 => (queue(), group(), 1..60_usize, millis(), 0..100_u64).prop_map(
            |(queue, group, count, delay, spread)| {
                Step::PutMany { queue, group, count, delay, spread }
            }
        ),
        5 => any_job().prop_map(Step::Cancel),
        2 => (queue(), 0..4_u8).prop_map(|(queue, key)| Step::CancelKey(queue, key)),
        5 => (any_job(), millis()).prop_map(|(job, delay)| Step::Reschedule(job, delay)),
        10 => (queue(), 0..9_usize, 1..3_000_u64).prop_map(|(queue, jobs, lease)| {
            Step::Reserve { queue, jobs, lease }
        }),
        6 => any_job().prop_map(Step::Ack),
        5 => (any_job(), retry).prop_map(|(lease, retry)| Step::Fail(lease, retry)),
        2 => (any_job(), 1..5_000_u64).prop_map(|(lease, length)| Step::Extend(lease, length)),
        2 => (any_job(), millis()).prop_map(|(lease, delay)| Step::Release(lease, delay)),
        3 => any_job().prop_map(Step::Kick),
        1 => queue().prop_map(Step::KickAll),
        1 => queue().prop_map(Step::Purge),
        1 => queue().prop_map(Step::Drain),
        2 => (queue(), any::<bool>()).prop_map(|(queue, paused)| Step::Pause(queue, paused)),
        2 => (queue(), any::<bool>()).prop_map(|(queue, on)| Step::Order(queue, on)),
        2 => (queue(), any::<bool>()).prop_map(|(queue, on)| Step::Fair(queue, on)),
        3 => (queue(), limit()).prop_map(|(queue, limit)| Step::GroupConcurrency(queue, limit)),
        3 => (queue(), 0..GROUPS, any::<bool>(), limit()).prop_map(
            |(queue, group, paused, concurrency)| {
                Step::Group { queue, group, paused, concurrency }
            }
        ),
        2 => (0..2_i8, queue(), prop_oneof![Just(20_000), 20_000..60_000_u64]).prop_map(
            |(number, queue, period)| Step::Schedule { number, queue, period }
        ),
        1 => (0..2_i8).prop_map(Step::Unschedule),
        10 => millis().prop_map(Step::Advance),
        2 => (-100_000..100_000_i64).prop_map(Step::SetClock),
        3 => Just(Step::Restart),
        2 => Just(Step::Crash),
    ]
}

/// The disk of a test, which may lose its power.
pub(crate) trait TestDisk: Disk + Clone + 'static {
    fn crash(&self) {}
}

impl TestDisk for MemoryDisk {
    fn crash(&self) {
        MemoryDisk::crash(self);
    }
}

impl TestDisk for Directory {}

struct Run<D> {
    disk: D,
    clock: ManualClock,
    queues: Option<Queues>,
    model: Model,
    leases: Vec<Lease>,
    ids: Vec<JobId>,
    story: Story,
}

impl<D: TestDisk> Run<D> {
    fn new(disk: D) -> Self {
        rig::plant_secret(&disk);
        let clock = ManualClock::new();
        clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_millis(START));
        let mut run = Self {
            disk,
            clock,
            queues: None,
            model: Model { now: START, ..Model::default() },
            leases: Vec::new(),
            ids: Vec::new(),
            story: Story::default(),
        };
        run.open();
        for name in QUEUES {
            let retry = RetryPolicy::fixed(Duration::from_millis(RETRY));
            let max_attempts = FOLLOW_UP_ATTEMPTS;
            let settings = QueueSettings { retry, max_attempts, ..QueueSettings::default() };
            run.queues().configure(name, settings).wait().expect("settings");
        }
        run
    }

    fn open(&mut self) {
        // A small horizon and hardly any room: jobs keep crossing the edge of what is in memory.
        let builder =
            Queues::builder().horizon(Duration::from_secs(1)).near(0).clock(self.clock.clone());
        let queues = builder.open_disk(self.disk.clone()).expect("it opens");
        // What became due while it was closed happens first, and nobody is told.
        queues.stats().wait().expect("stats");
        self.queues = Some(queues);
        self.model.catch_up();
        self.find_follow_ups();
        let jobs = self.told();
        self.story.listen(self.queues().events(None), jobs);
    }

    fn close(&mut self) {
        self.queues = None;
        self.story.stop();
    }

    /// What somebody who listens to events has to know.
    fn told(&self) -> BTreeMap<JobId, (State, u64)> {
        self.model.jobs.iter().map(|job| (job.id, (job.state, job.due))).collect()
    }

    fn queues(&self) -> &Queues {
        self.queues.as_ref().expect("it is open")
    }

    fn id(&self, number: usize) -> Option<JobId> {
        (!self.ids.is_empty()).then(|| self.ids[number % self.ids.len()])
    }

    fn any_lease(&self, number: usize) -> Option<Lease> {
        (!self.leases.is_empty()).then(|| self.leases[number % self.leases.len()])
    }

    fn take(&mut self, step: &Step) {
        self.model.catch_up();
        self.ids.append(&mut self.model.fired);
        match step.clone() {
            Step::Put(put) => self.put(put),
            Step::PutMany { queue, group, count, delay, spread } => {
                for number in 0..count as u64 {
                    self.put(Put {
                        queue,
                        key: None,
                        group,
                        conflict: OnConflict::Keep,
                        priority: (number % 3) as i8,
                        delay: delay + number * spread,
                        max: 2,
                        max_total_delay: None,
                        has_follow_up: false,
                    });
                }
            }
            Step::Cancel(number) => {
                let Some(id) = self.id(number) else { return };
                assert_eq!(self.queues().cancel(id).wait().is_ok(), self.model.cancel(id));
            }
            Step::CancelKey(queue, key) => {
                let job = JobRef::from((QUEUES[queue], key.to_string()));
                let cancelled = self.queues().cancel(job).wait().is_ok();
                let holder = self.model.holder(queue, &key.to_string());
                assert_eq!(cancelled, holder.is_some_and(|id| self.model.cancel(id)));
            }
            Step::Reschedule(number, delay) => {
                let Some(id) = self.id(number) else { return };
                let moved = self.queues().reschedule(id, Duration::from_millis(delay)).wait();
                assert_eq!(moved.is_ok(), self.model.reschedule(id, delay));
            }
            Step::Reserve { queue, jobs, lease } => self.reserve(queue, jobs, lease),
            Step::Advance(by) => {
                self.clock.advance(Duration::from_millis(by));
                self.model.now += by;
                self.settle();
            }
            Step::SetClock(by) => {
                self.model.now = self.model.now.saturating_add_signed(by);
                let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(self.model.now);
                self.clock.set_wall(wall);
                self.settle();
            }
            Step::Restart => {
                self.close();
                self.open();
            }
            Step::Crash => {
                self.disk.crash();
                self.close();
                self.open();
            }
            other => self.treat(other),
        }
    }

    /// Steps that need a lease, a dead job or a whole queue.
    fn treat(&mut self, step: Step) {
        let after = Duration::from_millis;
        match step {
            Step::Ack(number) => {
                let Some(lease) = self.any_lease(number) else { return };
                let result = format!("result of {}", lease.id);
                let acked = self.queues().ack_with_result(lease, result.clone()).wait().is_ok();
                assert_eq!(acked, self.model.ack(lease.id, lease.token, result));
            }
            Step::Fail(number, retry) => {
                let Some(lease) = self.any_lease(number) else { return };
                let failed = self.queues().fail(lease, "no luck", retry).wait().is_ok();
                assert_eq!(failed, self.model.fail(lease.id, lease.token, "no luck", retry));
            }
            Step::Extend(number, length) => {
                let Some(lease) = self.any_lease(number) else { return };
                let extended = self.queues().extend(lease, after(length)).wait().is_ok();
                assert_eq!(extended, self.model.extend(lease.id, lease.token, length));
            }
            Step::Release(number, delay) => {
                let Some(lease) = self.any_lease(number) else { return };
                let released = self.queues().release(lease, after(delay)).wait().is_ok();
                assert_eq!(released, self.model.release(lease.id, lease.token, delay));
            }
            Step::Kick(number) => {
                let Some(id) = self.id(number) else { return };
                assert_eq!(self.queues().kick(id).wait().is_ok(), self.model.kick(id));
            }
            Step::KickAll(queue) => {
                let kicked = self.queues().kick_some(QUEUES[queue], u64::MAX).wait();
                // In the order in which they died, which matters for keys that several have: the
                // model cannot know it, so it asks who is alive now.
                let dead: Vec<JobId> = self
                    .model
                    .jobs
                    .iter()
                    .filter(|job| job.queue == queue && job.state == State::Dead)
                    .map(|job| job.id)
                    .collect();
                let alive = dead.into_iter().filter(|&id| {
                    let job = self.queues().get(id).wait().expect("it can be read");
                    job.is_some_and(|job| job.state.is_live())
                });
                let alive: Vec<JobId> = alive.collect();
                let count = alive.len() as u64;
                assert!(alive.into_iter().all(|id| self.model.kick(id)));
                assert_eq!(kicked.unwrap_or(0), count);
            }
            Step::Purge(queue) => {
                let purged = self.queues().purge(QUEUES[queue], State::Dead, Time::MAX).wait();
                assert_eq!(purged.unwrap_or(0), self.model.drop_all(queue, State::Dead));
                // A dead job that is dropped is no event.
                let left = self.told();
                let jobs = &mut self.story.jobs;
                jobs.retain(|id, (state, _)| *state != State::Dead || left.contains_key(id));
            }
            Step::Drain(queue) => {
                let drained = self.queues().drain(QUEUES[queue]).wait();
                assert_eq!(drained.unwrap_or(0), self.model.drop_all(queue, State::Scheduled));
            }
            Step::Pause(queue, paused) => {
                let name = QUEUES[queue];
                let queues = self.queues();
                let done = if paused { queues.pause(name) } else { queues.resume(name) };
                done.wait().expect("a queue can be paused");
                self.model.paused.insert(queue, paused);
            }
            Step::Order(queue, by_priority) => {
                let order = if by_priority { Order::Priority } else { Order::DueTime };
                let patch = SettingsPatch { order: Some(order), ..SettingsPatch::default() };
                let settings = self.queues().patch_settings(QUEUES[queue], patch).wait();
                let settings = settings.expect("the queue is there");
                assert_eq!((settings.order, settings.max_attempts), (order, FOLLOW_UP_ATTEMPTS));
                self.model.by_priority.insert(queue, by_priority);
            }
            Step::Fair(queue, is_fair) => {
                let patch = SettingsPatch { fair_groups: Some(is_fair), ..Default::default() };
                let settings = self.queues().patch_settings(QUEUES[queue], patch).wait();
                assert_eq!(settings.expect("the queue is there").fair_groups, is_fair);
                self.model.is_fair.insert(queue, is_fair);
            }
            Step::GroupConcurrency(queue, limit) => {
                let group_pacing = Some(Pacing { starts: None, concurrency: limit });
                let patch = SettingsPatch { group_pacing, ..Default::default() };
                self.queues().patch_settings(QUEUES[queue], patch).wait().expect("settings");
                self.model.concurrency.insert(queue, limit);
            }
            Step::Group { queue, group, paused, concurrency } => {
                let pacing = concurrency.map(|limit| Pacing::default().concurrency(limit));
                let patch = GroupPatch::default().paused(paused).pacing(pacing);
                let set = self.queues().patch_group(QUEUES[queue], group.to_string(), patch).wait();
                assert_eq!(set, Ok(GroupSettings { pacing, paused }));
                self.model.groups.insert((queue, group), (paused, concurrency));
            }
            Step::Schedule { number, queue, period } => self.schedule(number, queue, period),
            Step::Unschedule(number) => {
                let removed = self.queues().remove_schedule(number.to_string()).wait();
                assert_eq!(removed.is_ok(), self.model.remove_schedule(&number.to_string()));
            }
            other => unreachable!("{other:?} is taken elsewhere"),
        }
    }

    fn schedule(&mut self, number: i8, queue: usize, period: u64) {
        // No other job has such a priority, so the order of insertion does not matter.
        let (name, priority) = (number.to_string(), 10 + number);
        let job = NewJob::new(QUEUES[queue], "by a schedule")
            .priority(priority)
            .max_attempts(SCHEDULE_ATTEMPTS)
            .retry(RetryPolicy::fixed(Duration::from_millis(RETRY)));
        let schedule = NewSchedule::new(name.clone(), Duration::from_millis(period), job)
            .misfire(Misfire::All { limit: 1_000 });
        self.queues().put_schedule(schedule).wait().expect("a schedule");
        let (created, handled) = (self.model.now, self.model.now);
        self.model.put_schedule(ModelSchedule { name, queue, priority, period, created, handled });
    }

    /// Has the writer look at the clock.
    fn settle(&mut self) {
        self.queues().stats().wait().expect("there are stats");
        self.model.catch_up();
    }

    fn put(&mut self, put: Put) {
        let Put { queue, key, group, conflict, priority, delay, max, .. } = put;
        let Put { max_total_delay, has_follow_up, .. } = put;
        let id = JobId::new(Time::from_millis(self.model.now));
        let key = key.map(|key| key.to_string());
        let mut job = NewJob::new(QUEUES[queue], format!("payload of {id}"))
            .id(id)
            .priority(priority)
            .delay(Duration::from_millis(delay))
            .max_attempts(max)
            .on_conflict(conflict)
            .retry(RetryPolicy::fixed(Duration::from_millis(RETRY)));
        job.key.clone_from(&key);
        job.group = group.map(|group| group.to_string());
        job.max_total_delay = max_total_delay.map(Duration::from_millis);
        if has_follow_up {
            let follow_up = || FollowUp::to(QUEUES[1 - queue]);
            job = job.on_success(follow_up()).on_death(follow_up());
        }
        let put = self.queues().put(job).wait().map(|put| put.id);
        let max_attempts = max;
        let new = NewModelJob {
            id,
            queue,
            key,
            group,
            priority,
            delay,
            max_attempts,
            max_total_delay,
            has_follow_up,
        };
        assert_eq!(put.map_err(drop), self.model.put(new, conflict));
        self.ids.push(id);
    }

    fn reserve(&mut self, queue: usize, jobs: usize, lease: u64) {
        let mut expected = self.model.next_ready(queue, jobs);
        let length = Duration::from_millis(lease);
        // One call may give fewer than there are, never none while there are some.
        while !expected.is_empty() {
            let got = self.queues().reserve(QUEUES[queue], expected.len(), length).wait();
            let got = got.expect("reserving works");
            assert!(!got.is_empty(), "{} jobs are ready", expected.len());
            for delivery in got {
                if self.model.is_fair.get(&queue) == Some(&true) {
                    self.check_turn(queue, &delivery.job);
                    expected.pop();
                } else {
                    assert_eq!(delivery.job.id, expected.remove(0), "in order of delivery");
                }
                assert!(delivery.job.due.as_millis() <= self.model.now, "not early");
                let payload = &self.model.get(delivery.job.id).expect("known").payload;
                assert_eq!(delivery.job.payload, payload.as_bytes());
                self.model.lease(delivery.lease.id, delivery.lease.token, lease);
                let attempts = self.model.get(delivery.job.id).expect("known").attempts;
                assert_eq!(delivery.job.attempts, attempts);
                self.leases.push(delivery.lease);
            }
        }
        if self.model.next_ready(queue, 1).is_empty() {
            let got = self.queues().reserve(QUEUES[queue], 1, length).wait();
            assert_eq!(got.expect("reserving works"), []);
        }
    }

    /// A job that is delivered is the first of its group, and its group may start it.
    fn check_turn(&self, queue: usize, job: &Job) {
        let group = job.group.as_ref().map(|group| group.parse::<u8>().expect("a number"));
        let is_first = |id: &JobId| {
            let other = self.model.jobs.iter().find(|other| other.id == *id).expect("known");
            other.group == group
        };
        let first = self.model.next_ready(queue, usize::MAX).into_iter().find(is_first);
        assert_eq!(first, Some(job.id), "the first of group {group:?}");
    }

    /// Finds the jobs that follow others, whose ids only the queue knows.
    fn find_follow_ups(&mut self) {
        for (queue, name) in QUEUES.into_iter().enumerate() {
            if !self.model.expected.iter().any(|expected| expected.queue == queue) {
                continue;
            }
            let page = self.queues().list(List::of(name).limit(10_000)).wait().expect("a page");
            for job in page.jobs {
                let parent = job.headers.iter().find(|header| header.0 == FollowUp::PARENT_HEADER);
                if let Some((_, parent)) = parent
                    && self.model.get(job.id).is_none()
                {
                    self.model.add_follow_up(&job, queue, parent.parse().expect("an id"));
                    self.ids.push(job.id);
                }
            }
        }
        assert_eq!(self.model.expected, [], "every follow-up is there");
    }

    /// Reads everything back.
    fn compare(&mut self) {
        self.model.catch_up();
        self.find_follow_ups();
        for (number, name) in QUEUES.into_iter().enumerate() {
            let mut found = Vec::new();
            let mut list = List::of(name).limit(7);
            loop {
                let page = self.queues().list(list.clone()).wait().expect("a page");
                assert_eq!(page.damaged, []);
                found.extend(page.jobs);
                list.after = page.next;
                if list.after.is_none() {
                    break;
                }
            }
            self.compare_queue(number, name, &found);
        }
        self.compare_histories();
        let pending = self.model.jobs.iter().filter(|job| job.state.is_live()).count() as u64;
        assert_eq!(self.queues().stats().wait().expect("stats").pending, pending);
        self.story.catch_up();
        assert_eq!(self.story.jobs, self.told());
    }

    /// Compares the attempts of the jobs that were delivered.
    fn compare_histories(&self) {
        let delivered: Vec<_> = self.model.jobs.iter().filter(|job| job.since > 0).collect();
        let found = self.queues().get_all(delivered.iter().map(|job| job.id)).wait();
        for (job, found) in delivered.iter().zip(found.expect("an answer")) {
            let found = found.expect("it can be read").expect("it is there");
            let attempt = |attempt: Attempt| ModelAttempt {
                number: attempt.number,
                started: attempt.started.as_millis(),
                outcome: attempt.outcome,
                error: attempt.error,
            };
            let history: Vec<_> = found.history.into_iter().map(attempt).collect();
            assert_eq!(history, job.history, "{}", job.id);
        }
    }

    fn compare_queue(&self, number: usize, name: &str, found: &[Job]) {
        let of_queue: Vec<_> = self.model.jobs.iter().filter(|job| job.queue == number).collect();
        assert_eq!(found.len(), of_queue.len(), "jobs of {name}");
        let waiting: Vec<JobId> = self.model.waiting(number).iter().map(|job| job.id).collect();
        let is_waiting = |job: &&Job| matches!(job.state, State::Scheduled | State::Ready);
        let found_waiting: Vec<JobId> = found.iter().filter(is_waiting).map(|job| job.id).collect();
        assert_eq!(found_waiting, waiting, "in order of delivery");
        for job in of_queue {
            let found = found.iter().find(|found| found.id == job.id).expect("it is listed");
            let state = match job.state {
                State::Scheduled if job.due <= self.model.now => State::Ready,
                state => state,
            };
            assert_eq!((found.state, found.attempts), (state, job.attempts), "{}", job.id);
            assert_eq!((found.due.as_millis(), &found.key), (job.due, &job.key));
            let until = job.lease.map(|(_, until)| Time::from_millis(until));
            assert_eq!((found.leased_until, &found.last_error), (until, &job.last_error));
        }
        let Some(info) = self.queues().queue(name).wait().expect("an answer") else { return };
        let count = |state| found.iter().filter(|job| job.state == state).count() as u64;
        let waiting = count(State::Scheduled) + count(State::Ready);
        assert_eq!(info.scheduled + info.ready, waiting);
        if !info.more_ready {
            assert_eq!(info.ready, count(State::Ready));
        }
        assert_eq!((info.leased, info.dead), (count(State::Leased), count(State::Dead)));
        self.compare_groups(number, name);
    }

    fn compare_groups(&self, number: usize, name: &str) {
        let mut groups = Vec::new();
        let mut list = GroupList { limit: 2, ..GroupList::of(name) };
        loop {
            let page = self.queues().groups(list.clone()).wait().expect("a page");
            groups.extend(page.groups);
            list.after = page.next;
            if list.after.is_none() {
                break;
            }
        }
        let found: Vec<_> = groups
            .iter()
            .map(|group| (group.name.clone(), group.waiting, group.running, group.held))
            .collect();
        let expected = (0..GROUPS).filter_map(|group| {
            let mut jobs = self.model.waiting(number);
            jobs.retain(|job| job.group == Some(group));
            let due = jobs.iter().filter(|job| job.due <= self.model.now).count() as u64;
            let waiting = jobs.len() as u64;
            let running = u64::from(self.model.running(number, group));
            let is_blocked = self.model.room_of(number, group) == 0;
            let held = if is_blocked { due } else { 0 };
            let settings = self.model.groups.get(&(number, group));
            let has_settings = settings.is_some_and(|set| *set != (false, None));
            let is_listed = waiting + running > 0 || has_settings;
            is_listed.then(|| (group.to_string(), waiting, running, held))
        });
        assert_eq!(found, expected.collect::<Vec<_>>(), "groups of {name}");
    }
}

pub(crate) fn run(disk: impl TestDisk, steps: &[Step]) {
    let mut run = Run::new(disk);
    for step in steps {
        run.take(step);
        run.compare();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_in_memory_does_what_the_model_does(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        run(MemoryDisk::new(), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_on_disk_does_what_the_model_does(steps in prop::collection::vec(step(), 1..60)) {
        let folder = tempfile::tempdir().expect("a folder");
        run(Directory::new(folder.path()), &steps);
    }
}
