//! Random submissions, cancels, priorities, pauses, holds, permits and changes of rate on a manual
//! clock, against a plain model: every task starts at exactly the first time that the rules allow.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::plain::{Micros, Model, Rate, TICK, Who};
use proptest::prelude::*;
use tickwheel::pace::{Acquire, KeyedPacer, Pacer, Permit, Ticket};
use tickwheel::{ManualClock, Timer};

const KEYS: u8 = 3;

/// The longest window of these tests.
const LONGEST: Micros = 3_600_000_000;

/// A step of a test. Tickets, futures and permits are chosen by a number modulo their count.
#[derive(Clone, Debug)]
enum Op {
    Submit(u8, i8),
    Cancel(usize),
    Advance(Micros),
    Pause(u8, bool),
    PauseAll(bool),
    RetryAfter(u8, Micros),
    SetRate(usize, Micros),
    SetRateOf(u8, usize, Micros),
    ResetRateOf(u8),
    TryAcquire(u8),
    Acquire(u8, i8),
    Poll(usize),
    DropFuture(usize),
    DropPermit(usize),
}

fn window() -> impl Strategy<Value = Micros> {
    prop_oneof![Just(1), 1..20_000_u64, (1..20_u64).prop_map(|ms| ms * TICK), Just(LONGEST)]
}

/// All times are multiples of `step`.
fn op(step: Micros) -> impl Strategy<Value = Op> {
    let key = 0..KEYS;
    let number = any::<usize>();
    let advance = prop_oneof![0..3_000 / step, 0..40_000 / step];
    prop_oneof![
        12 => (key.clone(), -1..2_i8).prop_map(|(key, priority)| Op::Submit(key, priority)),
        3 => number.prop_map(Op::Cancel),
        8 => advance.prop_map(move |steps| Op::Advance(steps * step)),
        3 => (key.clone(), prop::bool::weighted(0.3)).prop_map(|(key, on)| Op::Pause(key, on)),
        3 => prop::bool::weighted(0.3).prop_map(Op::PauseAll),
        1 => (key.clone(), 0..10_000_u64).prop_map(|(key, delay)| Op::RetryAfter(key, delay)),
        1 => (1..5_usize, window()).prop_map(|(starts, window)| Op::SetRate(starts, window)),
        1 => (key.clone(), 1..5_usize, window())
            .prop_map(|(key, starts, window)| Op::SetRateOf(key, starts, window)),
        1 => key.clone().prop_map(Op::ResetRateOf),
        3 => key.clone().prop_map(Op::TryAcquire),
        3 => (key, -1..2_i8).prop_map(|(key, priority)| Op::Acquire(key, priority)),
        3 => number.prop_map(Op::Poll),
        2 => number.prop_map(Op::DropFuture),
        3 => number.prop_map(Op::DropPermit),
    ]
}

fn micros(duration: Duration) -> Micros {
    assert_eq!(duration.subsec_nanos() % 1_000, 0);
    duration.as_micros() as Micros
}

/// A real pacer, with its tickets, futures and permits.
struct Real {
    clock: ManualClock,
    start: Instant,
    pacer: KeyedPacer<u8>,
    tickets: Vec<Ticket>,
    futures: Vec<Option<Acquire<u8>>>,
    permits: Vec<Option<Permit>>,
    log: Arc<Mutex<Vec<(u8, usize, Micros)>>>,
}

impl Real {
    fn new(rate: Rate, smooth: bool, max_running: usize) -> Self {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(clock.clone()).build().unwrap();
        let builder = Pacer::builder(&timer, rate.starts, Duration::from_micros(rate.window));
        let builder = if smooth { builder.smooth() } else { builder };
        Self {
            start: clock.now(),
            clock,
            pacer: builder.max_running(max_running).build_keyed().unwrap(),
            tickets: Vec::new(),
            futures: Vec::new(),
            permits: Vec::new(),
            log: Arc::default(),
        }
    }

    /// Returns a task that records when it starts.
    fn submit(&mut self, key: u8, priority: i8) {
        let number = self.tickets.len();
        let (log, clock, start) = (self.log.clone(), self.clock.clone(), self.start);
        let task = move || log.lock().unwrap().push((key, number, micros(clock.now() - start)));
        self.tickets.push(self.pacer.key(key).submit_with(priority, task).unwrap());
    }

    /// Polls a future, and keeps its permit if it is ready.
    fn poll(&mut self, number: usize) -> Option<bool> {
        let future = self.futures[number].as_mut()?;
        match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => {
                self.futures[number] = None;
                self.permits.push(Some(permit.unwrap()));
                Some(true)
            }
            Poll::Pending => Some(false),
        }
    }

    /// Performs an act, lets tasks start that may start at once, and returns the answer.
    fn apply(&mut self, op: &Op) -> Option<bool> {
        let pacer = &self.pacer;
        let duration = Duration::from_micros;
        let mut answer = None;
        match *op {
            Op::Submit(key, priority) => self.submit(key, priority),
            Op::Cancel(number) => {
                let ticket = pick(&self.tickets, number).map(|number| &self.tickets[number]);
                answer = ticket.map(Ticket::cancel);
                assert!(ticket.is_none_or(|ticket| ticket.is_cancelled() || ticket.is_started()));
            }
            Op::Advance(by) => self.clock.advance(duration(by)),
            Op::Pause(key, true) => pacer.key(key).pause(),
            Op::Pause(key, false) => pacer.key(key).resume(),
            Op::PauseAll(true) => pacer.pause(),
            Op::PauseAll(false) => pacer.resume(),
            Op::RetryAfter(key, delay) => pacer.key(key).retry_after(duration(delay)),
            Op::SetRate(starts, window) => pacer.set_rate(starts, duration(window)).unwrap(),
            Op::SetRateOf(key, starts, window) => {
                pacer.key(key).set_rate(starts, duration(window)).unwrap();
            }
            Op::ResetRateOf(key) => pacer.key(key).reset_rate(),
            Op::TryAcquire(key) => {
                let permit = pacer.key(key).try_acquire().ok();
                answer = Some(permit.is_some());
                self.permits.extend(permit.map(Some));
            }
            Op::Acquire(key, priority) => {
                self.futures.push(Some(pacer.key(key).acquire_with(priority)));
                answer = self.poll(self.futures.len() - 1);
            }
            Op::Poll(number) => {
                answer = pick(&self.futures, number).and_then(|number| self.poll(number));
            }
            Op::DropFuture(number) => {
                drop(pick(&self.futures, number).and_then(|number| self.futures[number].take()));
            }
            Op::DropPermit(number) => {
                drop(pick(&self.permits, number).and_then(|number| self.permits[number].take()));
            }
        }
        self.clock.advance(Duration::ZERO);
        answer
    }

    /// Returns the start times of each key.
    fn starts(&self) -> BTreeMap<u8, Vec<Micros>> {
        let mut starts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for &(key, _, time) in &*self.log.lock().unwrap() {
            starts.entry(key).or_default().push(time);
        }
        starts
    }
}

/// Returns the index of an element, by a number modulo the length.
fn pick<T>(list: &[T], number: usize) -> Option<usize> {
    number.checked_rem(list.len())
}

/// A pacer and its model, side by side.
struct Pair {
    real: Real,
    model: Model,
}

impl Pair {
    fn new(rate: Rate, smooth: bool, max_running: usize) -> Self {
        Self {
            real: Real::new(rate, smooth, max_running),
            model: Model::new(rate, smooth, max_running),
        }
    }

    fn apply(&mut self, op: &Op) {
        let said = self.real.apply(op);
        let expected = self.apply_to_model(op);
        assert_eq!(said, expected, "{op:?}");
        self.model.advance(self.model.now);
        self.check();
    }

    fn apply_to_model(&mut self, op: &Op) -> Option<bool> {
        let model = &mut self.model;
        match *op {
            Op::Submit(key, priority) => model.submit(key, priority),
            Op::Cancel(number) => {
                return pick(&model.tasks, number).map(|number| model.cancel(Who::Task(number)));
            }
            Op::Advance(by) => model.advance(model.now + by),
            Op::Pause(key, paused) => model.key(key).paused = paused,
            Op::PauseAll(paused) => model.paused = paused,
            Op::RetryAfter(key, delay) => model.retry_after(key, delay),
            Op::SetRate(starts, window) => model.set_rate(Rate { starts, window }),
            Op::SetRateOf(key, starts, window) => {
                model.set_rate_of(key, Some(Rate { starts, window }));
            }
            Op::ResetRateOf(key) => model.set_rate_of(key, None),
            Op::TryAcquire(key) => return Some(model.try_acquire(key)),
            Op::Acquire(key, priority) => return Some(model.acquire(key, priority)),
            Op::Poll(number) => {
                return pick(&model.futures, number).and_then(|number| model.poll(number));
            }
            Op::DropFuture(number) => {
                if let Some(number) = pick(&model.futures, number) {
                    model.drop_future(number);
                }
            }
            Op::DropPermit(number) => {
                if let Some(number) = pick(&model.permits, number) {
                    model.drop_permit(number);
                }
            }
        }
        None
    }

    /// Checks that both have started the same tasks at the same times, and have the same queue.
    fn check(&self) {
        let mut log = self.real.log.lock().unwrap().clone();
        let mut expected = self.model.log.clone();
        // Keys take turns, so each key is compared by itself.
        log.sort_by_key(|&(key, _, time)| (key, time));
        expected.sort_by_key(|&(key, _, time)| (key, time));
        assert_eq!(log, expected);
        for (&name, key) in &self.model.keys {
            assert_eq!(self.real.pacer.key(name).queued(), key.queue.len());
            for (position, who) in key.in_order().into_iter().enumerate() {
                if let Who::Task(task) = who {
                    let ticket = &self.real.tickets[task];
                    assert_eq!(ticket.position(), Some(position));
                    assert!(ticket.is_queued() && !ticket.is_started());
                }
            }
        }
        let queued: usize = self.model.keys.values().map(|key| key.queue.len()).sum();
        assert_eq!(self.real.pacer.stats().queued, queued);
    }

    /// Checks that each task starts when it is expected to, if nothing else happens. It is exact
    /// for the next task; a later one may start a little after it, because every tick on the way
    /// rounds up.
    fn check_expectations(&self) {
        let mut future = self.model.clone();
        future.log.clear();
        future.advance(self.model.now + 100 * TICK);
        for (name, task, time) in future.log {
            let key = &self.model.keys[&name];
            if !key.open.is_empty() {
                continue;
            }
            let time = self.real.start + Duration::from_micros(time);
            let expected = self.real.tickets[task].expected_start().expect("it will start");
            let is_next = key.in_order()[0] == Who::Task(task);
            assert!(expected == time || (expected < time && !is_next), "{:?}", time - expected);
        }
    }

    /// Releases everything, and checks that all tasks end without further calls, so that no other
    /// key is touched.
    fn finish(mut self) {
        self.apply(&Op::PauseAll(false));
        for key in 0..KEYS {
            let (paused, own_rate) = self.model.settings(key);
            if paused {
                self.apply(&Op::Pause(key, false));
            }
            if own_rate {
                self.apply(&Op::ResetRateOf(key));
            }
        }
        (0..self.real.futures.len()).for_each(|number| self.apply(&Op::DropFuture(number)));
        (0..self.real.permits.len()).for_each(|number| self.apply(&Op::DropPermit(number)));
        // The longest window for every task, and two more.
        let windows = self.real.tickets.len() as u64 + 2;
        self.apply(&Op::Advance(windows * LONGEST));
        let Real { pacer, tickets, log, .. } = &self.real;
        let stats = pacer.stats();
        assert_eq!((stats.queued, stats.running, stats.keys), (0, 0, 0), "all is forgotten");
        for ticket in tickets {
            assert!(ticket.is_started() != ticket.is_cancelled());
            assert!(!ticket.cancel() && ticket.position().is_none());
        }
        let cancelled = tickets.iter().filter(|ticket| ticket.is_cancelled()).count();
        assert_eq!(log.lock().unwrap().len(), tickets.len() - cancelled);
        assert_eq!(stats.submitted, stats.cancelled + stats.started);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_task_starts_when_the_rules_allow_and_not_before(
        starts in 1..5_usize,
        window in window(),
        smooth: bool,
        max_running in 0..4_usize,
        ops in prop::collection::vec(op(TICK), 1..120),
    ) {
        let mut pair = Pair::new(Rate { starts, window }, smooth, max_running);
        for op in &ops {
            pair.apply(op);
        }
        pair.check_expectations();
        pair.finish();
    }

    /// The promise in its plainest form, for one rate and any times: of N + 1 consecutive starts,
    /// the last is at least a window after the first.
    #[test]
    fn no_window_has_too_many_starts(
        starts in 1..5_usize,
        window in 1..20_000_u64,
        smooth: bool,
        max_running in 0..4_usize,
        ops in prop::collection::vec(op(1), 1..200),
    ) {
        let mut real = Real::new(Rate { starts, window }, smooth, max_running);
        let keeps_the_rate = |op: &&Op| !matches!(op, Op::SetRate(..) | Op::SetRateOf(..));
        for op in ops.iter().filter(keeps_the_rate) {
            real.apply(op);
        }
        for times in real.starts().values() {
            for times in times.windows(starts + 1) {
                prop_assert!(times[starts] - times[0] >= window);
            }
            for times in times.windows(2).filter(|_| smooth) {
                prop_assert!((times[1] - times[0]) * starts as u64 >= window);
            }
        }
    }
}
