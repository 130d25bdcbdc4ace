//! What a target has under way and what it may get next: the state of one target under its lock.
//!
//! Ground rules:
//! * A job has a *permit* from its reservation in the window until its request ends. It first
//!   *waits* here. A *lane*, a task that sends jobs one after the other, takes it when a request
//!   may be sent.
//! * Jobs are reserved ahead of the lanes in two cases only: if the target has a rate, so that no
//!   place of the window stays empty, and if it answers fast, so that the queue is asked for many
//!   jobs at once. A job that waits longer than the lead of the window plus [`MAX_WAITING_MS`] goes
//!   back to its queue.
//! * Nothing here reads a clock or waits.

use std::collections::VecDeque;
use std::time::Duration;

use super::charge::Reserved;
use super::health::{Grant, Health};
use super::settlement::Settled;
use super::window::Window;
use crate::api::TargetState;

/// The maximum number of jobs of one reservation.
const MAX_RESERVE: u32 = 256;
/// As many jobs are reserved ahead as the target answers in this time, in microseconds.
const AHEAD_US: u64 = 10_000;
/// How long a job waits for a lane, in milliseconds; less if its lease is short.
const MAX_WAITING_MS: u64 = 250;
/// How long the lanes of a paced target may take for the jobs that wait before another lane is
/// started, in microseconds. So a target that answers fast needs few connections.
const LANE_PATIENCE_US: u64 = 20_000;
/// Outcomes that are reported to the queue together, and how long the first of them waits, in
/// milliseconds.
const SETTLE_BATCH: usize = 128;
const SETTLE_WAIT_MS: u64 = 3;

/// A reserved job that waits for a lane.
pub(super) struct Waiting {
    pub(super) reserved: Reserved,
    pub(super) lease: Duration,
    /// The durable state counts the request as written up to this time, in milliseconds.
    pub(super) covered_until: u64,
    /// The epoch and the state of the target's health when the job was reserved.
    pub(super) epoch: u64,
    pub(super) state: TargetState,
    /// When the job began to wait, and when it goes back to its queue, in milliseconds.
    pub(super) since: u64,
    pub(super) expires: u64,
}

/// The settings that decide what a target may get.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) concurrency: u32,
    pub(super) is_paused: bool,
    /// The shortest lease of the queues, in milliseconds.
    pub(super) lease_ms: u64,
    /// Almost all connections that the server may have are in use.
    pub(super) is_crowded: bool,
}

/// What the task of the target does next.
#[derive(Default)]
pub(super) struct Plan {
    /// Lanes to start.
    pub(super) lanes: u32,
    /// Jobs that go back to their queue.
    pub(super) stale: Vec<Waiting>,
    /// Jobs to reserve.
    pub(super) reserve: u32,
    /// Outcomes to report.
    pub(super) settled: Vec<Settled>,
    /// When to plan again if nothing happens before, in milliseconds.
    pub(super) wake_at: Option<u64>,
}

/// The state of one target.
pub(super) struct Control {
    pub(super) window: Window,
    pub(super) health: Health,
    /// Permits of jobs that wait and of requests in flight.
    permits: u32,
    waiting: VecDeque<Waiting>,
    lanes: u32,
    /// Jobs that lanes have taken, without a grant of the window so far.
    starting: u32,
    /// How long the target takes to answer, averaged, in microseconds; `None` until it has answered.
    answer_us: Option<u64>,
    settled: Vec<Settled>,
    /// When the first of these outcomes was added, in milliseconds.
    settled_since: u64,
    /// No more jobs are sent.
    is_stopping: bool,
    /// When the task of the target plans again if nothing happens before, in milliseconds.
    wakes_at: u64,
    /// The task plans again when at most this many permits are left.
    wakes_below: Option<u32>,
    /// The queue that is asked first next time.
    turn: usize,
}

impl Control {
    pub(super) fn new(window: Window, health: Health) -> Self {
        Self {
            window,
            health,
            permits: 0,
            waiting: VecDeque::new(),
            lanes: 0,
            starting: 0,
            answer_us: None,
            settled: Vec::new(),
            settled_since: 0,
            is_stopping: false,
            wakes_at: 0,
            wakes_below: None,
            turn: 0,
        }
    }

    /// Returns the number of requests that are being sent.
    pub(super) fn in_flight(&self) -> u32 {
        self.permits.saturating_sub(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX))
    }

    /// Returns which queue is asked first this time.
    pub(super) fn next_turn(&mut self) -> usize {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// Decides what the task of the target does next.
    pub(super) fn plan(
        &mut self,
        now: u64,
        bounds: Bounds,
        may_reserve: bool,
        may_settle: bool,
    ) -> Plan {
        let mut plan = Plan { stale: self.take_stale(now, bounds), ..Plan::default() };
        let mut wake = u64::MAX;
        self.wakes_below = None;
        plan.lanes = self.new_lanes(now, bounds, &mut wake);
        self.lanes += plan.lanes;
        if may_reserve {
            match self.room(now, bounds) {
                Grant::Now(jobs) => plan.reserve = jobs,
                Grant::At(time) => wake = wake.min(time),
                Grant::Never => {}
            }
        }
        if may_settle && !self.settled.is_empty() {
            let settle_at = self.settled_since + SETTLE_WAIT_MS;
            // A reservation needs a commit in any case, which the outcomes share.
            let is_time = now >= settle_at || self.settled.len() >= SETTLE_BATCH;
            // Stale jobs are given back first. The task may be aborted meanwhile, and would take the
            // outcomes with it.
            if plan.stale.is_empty() && (is_time || self.permits == 0 || plan.reserve > 0) {
                plan.settled = std::mem::take(&mut self.settled);
            } else {
                wake = wake.min(settle_at);
            }
        }
        if let Some(first) = self.waiting.front() {
            wake = wake.min(first.expires + 1);
        }
        self.wakes_at = wake;
        plan.wake_at = Some(wake).filter(|wake| *wake < u64::MAX);
        plan
    }

    /// Takes out the jobs that must not be sent, because the target was paused, its state changed,
    /// or they have waited too long. Their permits end here, so that the same plan can reserve other
    /// jobs.
    fn take_stale(&mut self, now: u64, bounds: Bounds) -> Vec<Waiting> {
        let mut stale = Vec::new();
        while let Some(job) = self.waiting.front() {
            let is_late = now > job.expires;
            if !is_late && !bounds.is_paused && self.is_current(job) {
                break;
            }
            if is_late {
                // The target does not answer as fast as it did.
                self.answer_us = self.answer_us.map(|average| average.max(MAX_WAITING_MS * 1_000));
            }
            stale.extend(self.waiting.pop_front());
        }
        self.forgo(stale.len());
        stale
    }

    fn is_current(&self, job: &Waiting) -> bool {
        job.epoch == self.health.epoch() && job.state == self.health.state()
    }

    /// Returns how many lanes to start now. Lowers `wake` to the time at which more may be needed.
    fn new_lanes(&self, now: u64, bounds: Bounds, wake: &mut u64) -> u32 {
        let Some(first) = self.waiting.front() else { return 0 };
        let free_since = match self.window.place_at(self.starting) {
            Some(time) if time <= now => time.max(first.since),
            Some(later) => {
                *wake = later.min(*wake);
                return 0;
            }
            None => return 0,
        };
        let jobs = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let jobs = jobs.min(self.window.places(self.starting, now));
        // Each target gets one lane, even if the others have all connections.
        let most = if bounds.is_crowded { 1 } else { bounds.concurrency };
        let most = most.saturating_sub(self.lanes);
        let patience = LANE_PATIENCE_US / 1_000;
        // Without a rate, or if the running lanes take long, all lanes are started at once.
        if !self.window.is_limited() || now >= free_since + patience {
            return jobs.min(most);
        }
        let answer_us = self.answer_us.unwrap_or(0);
        let enough = (u64::from(jobs) * answer_us).div_ceil(LANE_PATIENCE_US).max(1);
        let enough = u32::try_from(enough).unwrap_or(u32::MAX).min(jobs);
        let more = enough.saturating_sub(self.lanes).min(most);
        if more < jobs.min(most) {
            *wake = (free_since + patience).min(*wake);
        }
        more
    }

    /// Returns how many jobs to reserve, or when that may change.
    fn room(&mut self, now: u64, bounds: Bounds) -> Grant {
        let ahead = self.ahead(bounds);
        let slots = (bounds.concurrency + ahead).saturating_sub(self.permits);
        if bounds.is_paused || self.is_stopping {
            return Grant::Never;
        }
        let enough = (ahead / 2).max(1);
        if slots < enough {
            self.wakes_below = Some(bounds.concurrency + ahead - enough);
            return Grant::Never;
        }
        let healthy = match self.health.grant(now, self.permits) {
            Grant::Now(requests) => requests,
            later => return later,
        };
        // What can wait is reserved later, together with more.
        let lead = self.window.lead().min(bounds.lease_ms / 8);
        let urgent = lead / 4;
        if self.window.allowance(now, now + urgent) == 0 {
            let next = self.window.next();
            return next.map_or(Grant::Never, |next| Grant::At(next.saturating_sub(urgent)));
        }
        let allowed = self.window.allowance(now, now + lead);
        Grant::Now(allowed.min(slots).min(healthy).min(MAX_RESERVE))
    }

    /// Returns how many jobs may be reserved beyond the concurrency.
    fn ahead(&self, bounds: Bounds) -> u32 {
        let Some(answer_us) = self.answer_us else { return 0 };
        if self.window.is_limited() || self.health.state() != TargetState::Active {
            return 0;
        }
        let soon = u64::from(bounds.concurrency) * AHEAD_US / answer_us.max(1);
        u32::try_from(soon).unwrap_or(u32::MAX).min(4 * bounds.concurrency)
    }

    /// Gives permits to jobs that were reserved. They wait once [`wait`](Self::wait) has added
    /// them.
    pub(super) fn permit(
        &mut self,
        now: u64,
        jobs: Vec<Reserved>,
        lease: Duration,
    ) -> Vec<Waiting> {
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        self.health.granted(now, count);
        self.permits += count;
        (0..count).for_each(|_| self.window.reserve());
        let (epoch, state) = (self.health.epoch(), self.health.state());
        // The lease has begun: at least half of it is left for the request.
        let expires = now.saturating_add(part_ms(lease, 2));
        let waiting = |reserved| Waiting {
            reserved,
            lease,
            covered_until: 0,
            epoch,
            state,
            since: now,
            expires,
        };
        jobs.into_iter().map(waiting).collect()
    }

    /// Takes back the permits of jobs that are not sent.
    pub(super) fn forgo(&mut self, jobs: usize) {
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
        self.permits = self.permits.saturating_sub(jobs);
        (0..jobs).for_each(|_| self.window.forgo());
    }

    /// Adds jobs with permits, for lanes to take. They wait from now on, however long the commit of
    /// their permits took.
    pub(super) fn wait(&mut self, now: u64, jobs: impl IntoIterator<Item = Waiting>) {
        let most = self.window.lead() + MAX_WAITING_MS;
        self.waiting.extend(jobs.into_iter().map(|job| {
            let expires = job.expires.min(now + most.min(part_ms(job.lease, 4)));
            Waiting { since: now, expires, ..job }
        }));
    }

    /// Takes the next job for a lane. `None` ends the lane.
    pub(super) fn take(&mut self, now: u64, bounds: Bounds) -> Option<Waiting> {
        let may_send = !bounds.is_paused && !self.is_stopping && self.lanes <= bounds.concurrency;
        let is_free = may_send
            && self.waiting.front().is_some_and(|job| self.is_current(job) && now <= job.expires)
            && self.window.place_at(self.starting).is_some_and(|time| time <= now);
        if !is_free {
            self.lanes = self.lanes.saturating_sub(1);
            return None;
        }
        self.starting += 1;
        self.waiting.pop_front()
    }

    /// Notes that a lane panicked or was aborted.
    pub(super) fn lane_lost(&mut self) {
        self.lanes = self.lanes.saturating_sub(1);
    }

    /// Gives a permit for a test request. Otherwise returns the time until the rate allows one, in
    /// milliseconds.
    pub(super) fn permit_for_test(&mut self, now: u64) -> Result<(), u64> {
        if self.window.allowance(now, now) == 0 {
            return Err(self.window.next().unwrap_or(now + 1).saturating_sub(now));
        }
        self.permits += 1;
        self.starting += 1;
        self.window.reserve();
        Ok(())
    }

    /// Grants the request of a job that was taken. Otherwise returns when to try again; `None` if a
    /// request that is being written must be written first.
    pub(super) fn grant(&mut self, now: u64) -> Result<(), Option<u64>> {
        self.window.grant(now)?;
        self.starting = self.starting.saturating_sub(1);
        Ok(())
    }

    /// Takes back the grant of a request that was not written and is tried again.
    pub(super) fn undo_grant(&mut self) {
        self.window.undo();
        self.starting += 1;
    }

    /// Notes that a granted request was written. Returns the time by which it arrives, and whether
    /// the task of the target must plan again.
    pub(super) fn written(&mut self, now: u64) -> (u64, bool) {
        let arrives = self.window.written(now);
        (arrives, self.leaves_early(arrives))
    }

    /// Notes the answer to a written request. Returns whether the task must plan again.
    pub(super) fn answered(&mut self, arrives: u64, now: u64, took: Duration) -> bool {
        self.note_answer_time(took);
        self.window.answered(arrives, now);
        self.leaves_early(arrives.min(now))
    }

    /// Returns whether the place of a request that arrived by a time is free before the task plans
    /// again.
    fn leaves_early(&self, arrives: u64) -> bool {
        let urgent = self.window.lead() / 4;
        self.window.leaves(arrives).is_some_and(|leaves| leaves - urgent < self.wakes_at)
    }

    /// Takes back a permit. Returns whether the task must plan again.
    pub(super) fn permit_ended(&mut self, is_unused: bool) -> bool {
        self.permits = self.permits.saturating_sub(1);
        if is_unused {
            self.starting = self.starting.saturating_sub(1);
            self.window.forgo();
        }
        let is_short = self.wakes_below.is_some_and(|below| self.permits <= below);
        if is_short {
            self.wakes_below = None;
        }
        is_short || self.permits == 0
    }

    /// Notes how long an answer took.
    fn note_answer_time(&mut self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min(1 << 40);
        self.answer_us = Some(self.answer_us.map_or(took, |average| (7 * average + took) / 8));
    }

    /// Adds an outcome to be reported. Returns whether the task must plan again.
    pub(super) fn settle(&mut self, now: u64, settled: Settled) -> bool {
        self.settled.push(settled);
        if self.settled.len() == 1 {
            self.settled_since = now;
            return now + SETTLE_WAIT_MS < self.wakes_at;
        }
        self.settled.len() == SETTLE_BATCH
    }

    pub(super) fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    /// Stops giving jobs to lanes. Returns those that wait, whose permits end.
    pub(super) fn stop(&mut self) -> Vec<Waiting> {
        self.is_stopping = true;
        self.forgo(self.waiting.len());
        self.waiting.drain(..).collect()
    }
}

/// Returns a fraction of a lease, in milliseconds.
fn part_ms(lease: Duration, divisor: u32) -> u64 {
    u64::try_from((lease / divisor).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tickwheel_queue::{NewJob, Queues};

    use super::super::health::Mode;
    use super::super::why::Why;
    use super::*;

    const BOUNDS: Bounds =
        Bounds { concurrency: 4, is_paused: false, lease_ms: 30_000, is_crowded: false };
    const LEASE: Duration = Duration::from_secs(30);

    fn control(limit: Option<(u32, u64)>) -> Control {
        Control::new(Window::new(limit), Health::new(Mode::Active, 0))
    }

    fn jobs(count: u32) -> Vec<Reserved> {
        let queues = Queues::in_memory();
        queues.put_all((0..count).map(|_| NewJob::new("orders", ""))).wait().unwrap();
        let jobs = queues.reserve("orders", count as usize, None).wait().unwrap();
        jobs.into_iter().map(|delivery| Reserved { delivery, share: None }).collect()
    }

    /// Reserves what the plan says.
    fn reserve(control: &mut Control, now: u64) -> u32 {
        let plan = control.plan(now, BOUNDS, true, true);
        let waiting = control.permit(now, jobs(plan.reserve), LEASE);
        control.wait(now, waiting);
        plan.reserve
    }

    /// A lane takes a job, and it is answered after a time.
    fn answer(control: &mut Control, now: u64, took_ms: u64) {
        control.take(now, BOUNDS).unwrap();
        control.grant(now).unwrap();
        let (arrives, _) = control.written(now);
        control.answered(arrives, now + took_ms, Duration::from_millis(took_ms));
        control.permit_ended(false);
    }

    #[test]
    fn jobs_are_reserved_ahead_of_a_fast_target_only() {
        let mut control = control(None);
        assert_eq!(reserve(&mut control, 0), 4);
        let plan = control.plan(0, BOUNDS, true, true);
        assert_eq!((plan.lanes, plan.reserve), (4, 0));
        answer(&mut control, 0, 1);
        // Four times the concurrency is reserved ahead.
        assert_eq!(reserve(&mut control, 1), 17);
        // Less than half of that is not worth a commit.
        answer(&mut control, 1, 1);
        assert_eq!(control.plan(1, BOUNDS, true, true).reserve, 0);
        assert!((0..6).all(|_| !control.permit_ended(false)));
        assert!(control.permit_ended(false), "now it is");
        assert_eq!(control.plan(1, BOUNDS, true, true).reserve, 8);
        (0..100).for_each(|_| control.note_answer_time(Duration::from_secs(1)));
        assert_eq!(control.plan(1, BOUNDS, true, true).reserve, 0, "it has become slow");
    }

    #[test]
    fn a_job_that_waits_too_long_goes_back() {
        let mut control = control(None);
        control.note_answer_time(Duration::from_millis(1));
        assert_eq!(reserve(&mut control, 0), 20);
        assert_eq!(control.plan(0, BOUNDS, true, true).lanes, 4);
        (0..4).for_each(|_| drop(control.take(0, BOUNDS)));
        let plan = control.plan(1, BOUNDS, true, true);
        assert_eq!((plan.stale.len(), plan.wake_at), (0, Some(MAX_WAITING_MS + 1)));
        let plan = control.plan(MAX_WAITING_MS + 1, BOUNDS, true, true);
        assert_eq!(plan.stale.len(), 16);
        // Only what is in flight is reserved from now on.
        assert_eq!((control.in_flight(), control.plan(300, BOUNDS, true, true).reserve), (4, 0));
    }

    #[test]
    fn the_places_of_jobs_that_go_back_are_free_at_once() {
        // The jobs of a paced target, and the probe of a held one.
        let why = Why::other("503");
        let held = Mode::Held { until_ms: 0, pause_ms: 1_000, why };
        for (mode, jobs) in [(Mode::Active, 2), (held, 1)] {
            let window = Window::new(Some((2, 1_000)));
            let mut control = Control::new(window, Health::new(mode, 0));
            assert_eq!(reserve(&mut control, 0), jobs);
            let plan = control.plan(10_000, BOUNDS, true, true);
            assert_eq!((plan.stale.len(), plan.reserve), (jobs as usize, jobs));
            assert_eq!(control.in_flight(), 0);
        }
    }

    #[test]
    fn a_slow_commit_of_the_rate_does_not_count_as_waiting() {
        let mut control = control(Some((4, 1_000)));
        let waiting = control.permit(0, jobs(2), LEASE);
        control.wait(5_000, waiting);
        let plan = control.plan(5_000, BOUNDS, true, true);
        assert_eq!((plan.stale.len(), plan.lanes), (0, 1));
        assert!(control.take(5_000, BOUNDS).is_some());
        // The lease began with the reservation: half of it is left for the request.
        let mut control = self::control(Some((4, 1_000)));
        let waiting = control.permit(0, jobs(2), Duration::from_secs(9));
        control.wait(4_501, waiting);
        assert_eq!(control.plan(4_501, BOUNDS, true, true).stale.len(), 2);
    }

    #[test]
    fn waiting_jobs_go_back_when_the_target_is_held_or_paused() {
        let mut control = control(None);
        assert_eq!(reserve(&mut control, 0), 4);
        control.lanes = 1;
        control.health.stop(&Why::other("410"));
        assert!(control.take(0, BOUNDS).is_none());
        assert_eq!(control.plan(0, BOUNDS, true, true).stale.len(), 4);
        control.health.resume(0);
        assert_eq!(reserve(&mut control, 0), 1);
        let paused = Bounds { is_paused: true, ..BOUNDS };
        assert_eq!(control.plan(0, paused, true, true).stale.len(), 1);
    }

    #[test]
    fn few_lanes_serve_a_paced_target_that_answers_fast() {
        let mut control = control(Some((8, 1_000)));
        control.note_answer_time(Duration::from_millis(1));
        assert_eq!(reserve(&mut control, 0), 4);
        let plan = control.plan(0, BOUNDS, true, true);
        assert_eq!((plan.lanes, plan.wake_at), (1, Some(LANE_PATIENCE_US / 1_000)));
        // The first answer takes longer than usual: the other lanes help.
        assert!(control.take(0, BOUNDS).is_some());
        let patience = LANE_PATIENCE_US / 1_000;
        assert_eq!(control.plan(patience - 1, BOUNDS, true, true).lanes, 0);
        let crowded = Bounds { is_crowded: true, ..BOUNDS };
        assert_eq!(control.plan(patience, crowded, true, true).lanes, 0);
        assert_eq!(control.plan(patience, BOUNDS, true, true).lanes, 3);
    }

    #[test]
    fn the_task_wakes_up_when_a_place_is_free_earlier_than_it_was_expected() {
        let mut control = control(Some((1, 1_000)));
        assert_eq!(reserve(&mut control, 0), 1);
        assert_eq!(control.plan(0, BOUNDS, true, true).lanes, 1);
        control.take(0, BOUNDS).unwrap();
        control.grant(0).unwrap();
        assert_eq!(control.plan(0, BOUNDS, true, true).wake_at, None);
        let (arrives, has_news) = control.written(0);
        assert!(has_news, "a time is known now");
        assert_eq!(control.plan(0, BOUNDS, true, true).wake_at, Some(2_001 - 50));
        assert!(control.answered(arrives, 20, Duration::from_millis(20)), "a better one");
        assert_eq!(control.plan(20, BOUNDS, true, true).wake_at, Some(1_021 - 50));
    }
}
