//! Sleeps against a plain list: random steps on a manual clock. After each step the timer must
//! count as many sleeps as the list, and must have woken the same wakers.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::wakers::*;
use proptest::prelude::*;
use tickwheel::{ManualClock, Sleep, Timer};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Creates a sleep and polls it.
    Begin(u64),
    Drop(usize),
    Reset(usize, u64),
    Poll(usize),
    /// Polls with another waker.
    PollAnew(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly the same few delays, like those of timeouts; and some beyond a level of the wheel.
    let delay = prop_oneof![4 => 1..6_u64, 2 => 20..40_u64, 1 => 200..600_u64];
    let which = 0..1_000_usize;
    prop_oneof![
        6 => delay.clone().prop_map(Step::Begin),
        5 => which.clone().prop_map(Step::Drop),
        3 => (which.clone(), delay.clone()).prop_map(|(at, delay)| Step::Reset(at, delay)),
        3 => which.clone().prop_map(Step::Poll),
        1 => which.prop_map(Step::PollAnew),
        2 => delay.prop_map(Step::Advance),
    ]
}

struct Known {
    sleep: Sleep,
    deadline: u64,
    /// Whether the timer holds its waker.
    waits: bool,
    count: Arc<Count>,
    waker: Waker,
    woken: usize,
}

impl Known {
    fn new(timer: &Timer, now: u64, delay: u64) -> Self {
        let (count, waker) = Count::new();
        let sleep = timer.sleep(Duration::from_millis(delay));
        Self { sleep, deadline: now + delay, waits: false, count, waker, woken: 0 }
    }

    fn poll(&mut self, now: u64) {
        let ready = poll(&mut self.sleep, &self.waker).is_ready();
        assert_eq!(ready, self.deadline <= now, "due at {}, polled at {now}", self.deadline);
        self.waits = !ready;
    }

    fn check(&mut self, now: u64) {
        if self.waits && self.deadline <= now {
            self.waits = false;
            self.woken += 1;
        }
        assert_eq!(self.count.woken(), self.woken, "due at {}, now {now}", self.deadline);
    }
}

fn run(steps: Vec<Step>) {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let mut now = 0;
    let mut all: Vec<Known> = Vec::new();
    for step in steps {
        let place = |at: usize| if all.is_empty() { None } else { Some(at % all.len()) };
        match step {
            Step::Begin(delay) => {
                let mut known = Known::new(&timer, now, delay);
                known.poll(now);
                all.push(known);
            }
            Step::Drop(at) => drop(place(at).map(|at| all.swap_remove(at))),
            Step::Reset(at, delay) => {
                if let Some(known) = place(at).map(|at| &mut all[at]) {
                    known.sleep.reset(Duration::from_millis(delay));
                    known.deadline = now + delay;
                }
            }
            Step::Poll(at) => {
                if let Some(known) = place(at).map(|at| &mut all[at]) {
                    known.poll(now);
                }
            }
            Step::PollAnew(at) => {
                if let Some(known) = place(at).map(|at| &mut all[at]) {
                    (known.count, known.waker) = Count::new();
                    known.woken = 0;
                    known.poll(now);
                }
            }
            Step::Advance(delay) => {
                clock.advance(Duration::from_millis(delay));
                now += delay;
            }
        }
        for known in &mut all {
            known.check(now);
        }
        let waiting = all.iter().filter(|known| known.waits).count();
        assert_eq!(timer.pending(), waiting, "after {step:?} at {now}");
        if waiting == 0 {
            assert_eq!(timer.next_deadline(), None, "after {step:?} at {now}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn sleeps_are_as_a_list_has_them(steps in prop::collection::vec(step(), 1..200)) {
        run(steps);
    }
}

/// More sleeps leave than the timer keeps free entries for, and are created again.
#[test]
fn places_are_used_again_in_any_order() {
    let begin = |delay: u64| (0..300_u64).map(move |n| Step::Begin(delay + n % 3));
    let steps = begin(500)
        .chain((0..280).map(Step::Drop))
        .chain(begin(5))
        .chain((0..100).map(Step::Drop))
        .chain([Step::Advance(6)])
        .chain(begin(20))
        .chain([Step::Advance(21), Step::Advance(600)]);
    run(steps.collect());
}
