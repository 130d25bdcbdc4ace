//! Tasks that cancel and reset other tasks, and random operations against a plain model, on a
//! manual clock. Each test runs on both wheels.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::random::Random;
use crate::rig::*;
use tickwheel::{Timeout, Timer};

on_both_wheels! {
    tasks_schedule_tasks,
    tasks_cancel_and_reset_other_tasks,
    two_timers_share_a_clock,
    next_deadline_is_never_late,
    random_operations_agree_with_a_model,
    captured_values_of_every_size_survive,
}

fn tasks_schedule_tasks(rig: &Rig) {
    fn chain(timer: &Timer, note: impl Fn() + Send + Clone + 'static, left: u32) {
        note();
        if left > 0 {
            let next = timer.clone();
            timer.after(3 * MS, move || chain(&next, note, left - 1)).unwrap();
        }
    }
    let (timer, note) = (rig.timer.clone(), rig.note(1));
    rig.timer.after(3 * MS, move || chain(&timer, note, 999)).unwrap();
    rig.clock.advance(10 * S);
    let ran_at = rig.times();
    assert_eq!(ran_at.len(), 1_000);
    assert!((1..).zip(&ran_at).all(|(n, &time)| time == n * 3 * MS), "one jump, each at its time");

    let (timer, now) = (rig.timer.clone(), rig.note(2));
    rig.timer.after(S, move || drop(timer.after(Duration::ZERO, now))).unwrap();
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [2], "what is due at once runs in the same turn");
}

fn tasks_cancel_and_reset_other_tasks(rig: &Rig) {
    let victim = rig.timer.after(5 * S, rig.note(1)).unwrap();
    let moved = rig.timer.after(100 * S, rig.note(2)).unwrap();
    let (timer, note) = (rig.timer.clone(), rig.note(3));
    rig.timer.key("same").after(S, || panic!("replaced by a task")).unwrap();
    rig.timer
        .after(999 * MS, move || {
            assert!(victim.cancel() && moved.reset(S));
            timer.key("same").after(4 * S, note).unwrap();
        })
        .unwrap();
    rig.clock.advance(200 * S);
    assert_eq!(rig.noted(), [(2, 1_999 * MS), (3, 4_999 * MS)]);
    assert_eq!(rig.timer.stats().panicked, 0);
}

fn two_timers_share_a_clock(rig: &Rig) {
    let coarse = Timer::builder().tick(S).wheel(rig.kind).clock(rig.clock.clone()).build().unwrap();
    for n in 1..=5_u32 {
        rig.timer.after(n * 2 * S, rig.note(n * 2)).unwrap();
        coarse.after((n * 2_000 - 1_001) * MS, rig.note(n * 2 - 1)).unwrap();
    }
    rig.clock.advance(60 * S);
    let expected: Vec<_> = (1..=10).map(|n| (n, n * S)).collect();
    assert_eq!(rig.noted(), expected);
    drop(coarse);
    rig.timer.after(S, rig.note(11)).unwrap();
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [11]);
}

fn next_deadline_is_never_late(rig: &Rig) {
    assert_eq!(rig.timer.next_deadline(), None);
    let mut random = Random(3);
    for _ in 0..300 {
        let bits = 20 + random.below(16);
        let delay = Duration::from_nanos(random.below(1 << bits));
        rig.timer.after(delay, rig.note(0)).unwrap();
    }
    while let Some(next) = rig.timer.next_deadline() {
        let before = rig.clock.now();
        if let Some(gap) = next.checked_duration_since(before + Duration::from_nanos(1)) {
            rig.clock.advance(gap);
            assert_eq!(rig.noted(), [], "nothing is due before");
        }
        rig.clock.advance(Duration::from_nanos(1));
        rig.noted();
    }
    assert_eq!((rig.timer.pending(), rig.timer.stats().fired), (0, 300));
}

/// A pending task in the model.
struct Expected {
    deadline: u64,
    key: Option<u64>,
}

/// A timer, and a plain list of the tasks that must be pending.
struct Pair {
    rig: Rig,
    random: Random,
    pending: HashMap<u32, Expected>,
    handles: Vec<(u32, Timeout)>,
    /// Nanoseconds since the start.
    now: u64,
    /// The number of the next task.
    next: u32,
}

const LIMIT: usize = 40;

fn rounded_up(at: u64) -> u64 {
    at.next_multiple_of(1_000_000)
}

impl Pair {
    fn step(&mut self) {
        let bits = 16 + self.random.below(20);
        let delay = self.random.below(1 << bits);
        match self.random.below(10) {
            0..=3 => self.schedule(delay),
            4 | 5 => self.schedule_by_key(delay),
            6 if !self.handles.is_empty() => self.cancel(),
            7 if !self.handles.is_empty() => self.reset(delay),
            8 => self.cancel_by_key(),
            _ => self.advance(delay),
        }
        assert_eq!(self.rig.timer.pending(), self.pending.len());
        if let Some((number, timeout)) = self.handles.last() {
            assert_eq!(timeout.remaining().is_some(), self.pending.contains_key(number));
        }
    }

    fn accept(&mut self, timeout: Timeout, delay: u64, key: Option<u64>) {
        self.pending.insert(self.next, Expected { deadline: self.now + delay, key });
        self.handles.push((self.next, timeout));
    }

    fn schedule(&mut self, delay: u64) {
        let task = self.rig.note(self.next);
        let result = self.rig.timer.after(Duration::from_nanos(delay), task);
        assert_eq!(result.is_ok(), self.pending.len() < LIMIT);
        if let Ok(timeout) = result {
            self.accept(timeout, delay, None);
        }
        self.next += 1;
    }

    fn schedule_by_key(&mut self, delay: u64) {
        let key = self.random.below(12);
        let old = self.pending.iter().find(|(_, task)| task.key == Some(key));
        let old = old.map(|(&number, _)| number);
        let task = self.rig.note(self.next);
        let result = self.rig.timer.key(key).after(Duration::from_nanos(delay), task);
        assert_eq!(result.is_ok(), old.is_some() || self.pending.len() < LIMIT);
        if let Ok(timeout) = result {
            old.map(|number| self.pending.remove(&number));
            self.accept(timeout, delay, Some(key));
        }
        self.next += 1;
    }

    fn cancel(&mut self) {
        let index = self.random.below(self.handles.len() as u64) as usize;
        let (number, timeout) = &self.handles[index];
        assert_eq!(timeout.cancel(), self.pending.remove(number).is_some());
    }

    fn cancel_by_key(&mut self) {
        let key = self.random.below(12);
        let before = self.pending.len();
        self.pending.retain(|_, task| task.key != Some(key));
        assert_eq!(self.rig.timer.cancel(key), self.pending.len() < before);
    }

    fn reset(&mut self, delay: u64) {
        let index = self.random.below(self.handles.len() as u64) as usize;
        let (number, timeout) = &self.handles[index];
        let task = self.pending.get_mut(number);
        assert_eq!(timeout.reset(Duration::from_nanos(delay)), task.is_some());
        if let Some(task) = task {
            task.deadline = self.now + delay;
        }
    }

    fn advance(&mut self, by: u64) {
        self.rig.clock.advance(Duration::from_nanos(by));
        self.now += by;
        let mut ran = self.rig.noted();
        assert!(ran.is_sorted_by_key(|&(_, time)| time), "in order of deadline");
        for (number, time) in &ran {
            let expected = rounded_up(self.pending[number].deadline);
            assert!(time.as_nanos() as u64 >= expected, "{number} is early");
        }
        let is_due = |task: &Expected| rounded_up(task.deadline) <= self.now;
        let due = self.pending.iter().filter(|(_, task)| is_due(task));
        let mut due: Vec<_> = due.map(|(&number, _)| number).collect();
        due.sort_unstable();
        ran.sort_unstable();
        assert_eq!(ran.iter().map(|&(number, _)| number).collect::<Vec<_>>(), due);
        self.pending.retain(|number, _| due.binary_search(number).is_err());
    }

    fn stop(self) {
        let unfired = self.rig.timer.stop();
        assert_eq!(unfired.len(), self.pending.len());
        assert!(unfired.is_sorted_by_key(tickwheel::Unfired::deadline));
        for task in unfired {
            assert!(task.run());
        }
        let mut left = self.rig.numbers();
        left.sort_unstable();
        let mut expected: Vec<_> = self.pending.into_keys().collect();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }
}

fn random_operations_agree_with_a_model(rig: &Rig) {
    for seed in 0..20 {
        let mut pair = Pair {
            rig: rig.again(|builder| builder.max_pending(LIMIT)),
            random: Random(seed),
            pending: HashMap::new(),
            handles: Vec::new(),
            now: 0,
            next: 0,
        };
        for _ in 0..600 {
            pair.step();
        }
        pair.stop();
    }
}

fn captured_values_of_every_size_survive(rig: &Rig) {
    #[repr(align(64))]
    struct Aligned(u64);
    let sum = Arc::new(AtomicUsize::new(0));
    let add = |amount: usize| {
        let sum = sum.clone();
        move || {
            sum.fetch_add(amount, Ordering::SeqCst);
        }
    };
    rig.timer.after(S, || {}).unwrap();
    rig.timer.after(S, add(1)).unwrap();
    let (task, text) = (add(10), String::from("ten"));
    rig.timer.after(S, move || (text.len() == 3).then(task).unwrap()).unwrap();
    let (task, words) = (add(100), [3_u64; 40]);
    rig.timer.after(S, move || (words == [3; 40]).then(task).unwrap()).unwrap();
    let (task, aligned) = (add(1_000), Aligned(9));
    let check = move || {
        let aligned = &aligned;
        assert_eq!(std::ptr::from_ref(aligned).addr() % 64, 0);
        (aligned.0 == 9).then_some(()).unwrap();
        task();
    };
    rig.timer.after(S, check).unwrap();
    rig.clock.advance(S);
    assert_eq!((sum.load(Ordering::SeqCst), rig.timer.stats().panicked), (1_111, 0));
}
