//! Timeouts and intervals on a manual clock.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn, ready};
use std::panic::catch_unwind;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::rig::*;
use crate::wakers::*;
use tickwheel::{Interval, MissedTicks, WheelKind};

fn new_rig() -> Rig {
    Rig::new(WheelKind::default())
}

#[test]
fn a_ready_future_never_touches_the_wheel() {
    let rig = &new_rig();
    let mut limited = rig.timer.timeout(S, ready(7));
    assert_eq!(poll(&mut limited, Waker::noop()), Poll::Ready(Ok(7)));
    let mut limited = rig.timer.timeout_at(rig.start, ready(7));
    assert_eq!(poll(&mut limited, Waker::noop()), Poll::Ready(Ok(7)));
    assert_eq!(rig.timer.stats().scheduled, 0);
}

#[test]
fn a_future_that_waits_has_until_the_deadline() {
    let rig = &new_rig();
    let (count, waker) = Count::new();
    let mut limited = rig.timer.timeout(5 * S, pending::<()>());
    assert!(poll(&mut limited, &waker).is_pending());
    assert_eq!((limited.deadline(), rig.timer.pending()), (Some(rig.start + 5 * S), 1));
    rig.clock.advance(4_999 * MS);
    assert!(poll(&mut limited, &waker).is_pending());
    rig.clock.advance(MS);
    assert_eq!(count.woken(), 1);
    let Poll::Ready(Err(elapsed)) = poll(&mut limited, &waker) else { panic!("not elapsed") };
    assert_eq!(elapsed.to_string(), "the deadline passed before the future was ready");
    assert_eq!(std::io::Error::from(elapsed).kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn the_time_runs_from_the_first_wait() {
    let rig = &new_rig();
    let mut limited = rig.timer.timeout(5 * S, pending::<()>());
    rig.clock.advance(60 * S);
    assert_eq!(limited.deadline(), None);
    assert!(poll(&mut limited, Waker::noop()).is_pending());
    rig.clock.advance(4 * S);
    assert!(poll(&mut limited, Waker::noop()).is_pending(), "polling again changes nothing");
    rig.clock.advance(S);
    assert!(poll(&mut limited, Waker::noop()).is_ready());
}

#[test]
fn a_fixed_deadline_does_not_wait_for_a_poll() {
    let rig = &new_rig();
    let mut limited = rig.timer.timeout_at(rig.start + 5 * S, pending::<()>());
    rig.clock.advance(5 * S);
    assert!(poll(&mut limited, Waker::noop()).is_ready());
    assert_eq!(rig.timer.stats().scheduled, 0);
}

#[test]
fn a_future_that_is_ready_at_the_deadline_wins() {
    let rig = &new_rig();
    let door = Cell::new(false);
    let inner = poll_fn(|_| if door.get() { Poll::Ready(7) } else { Poll::Pending });
    let mut limited = rig.timer.timeout(5 * S, inner);
    assert!(poll(&mut limited, Waker::noop()).is_pending());
    rig.clock.advance(9 * S);
    door.set(true);
    assert_eq!(poll(&mut limited, Waker::noop()), Poll::Ready(Ok(7)));
}

#[test]
fn no_time_at_all_is_one_poll() {
    let rig = &new_rig();
    let mut limited = rig.timer.timeout(Duration::ZERO, ready(7));
    assert_eq!(poll(&mut limited, Waker::noop()), Poll::Ready(Ok(7)));
    rig.clock.advance(300 * US);
    let mut limited = rig.timer.timeout(Duration::ZERO, pending::<()>());
    assert!(matches!(poll(&mut limited, Waker::noop()), Poll::Ready(Err(_))));
    assert_eq!(rig.timer.stats().scheduled, 0);
}

#[test]
fn for_ever_is_for_ever() {
    let rig = &new_rig();
    let mut limited = rig.timer.timeout(Duration::MAX, pending::<()>());
    assert!(poll(&mut limited, Waker::noop()).is_pending());
    rig.clock.advance(100 * 365 * 86_400 * S);
    assert!(poll(&mut limited, Waker::noop()).is_pending());
    assert_eq!((limited.deadline(), rig.timer.next_deadline()), (None, None));
}

#[test]
fn dropping_a_timeout_drops_all_of_it() {
    let rig = &new_rig();
    let (part, drops) = counted();
    let (count, waker) = Count::new();
    let mut limited = rig.timer.timeout(
        S,
        poll_fn(move |_| {
            let _part = &part;
            Poll::<()>::Pending
        }),
    );
    assert!(poll(&mut limited, &waker).is_pending());
    drop(limited);
    assert_eq!((dropped(&drops), rig.timer.pending(), held(&count)), (1, 0, 0));
}

#[test]
fn a_timeout_of_a_future_that_must_be_pinned() {
    let rig = &new_rig();
    let timer = rig.timer.clone();
    let work = async move {
        let numbers = [1, 2, 3];
        let sum = &numbers; // what makes it immovable
        timer.sleep(S).await;
        sum.iter().sum::<i32>()
    };
    let mut limited = pin!(rig.timer.timeout(5 * S, work));
    let mut cx = std::task::Context::from_waker(Waker::noop());
    assert!(limited.as_mut().poll(&mut cx).is_pending());
    rig.clock.advance(S);
    assert_eq!(limited.as_mut().poll(&mut cx), Poll::Ready(Ok(6)));
}

#[test]
fn timeouts_nest() {
    let rig = &new_rig();
    let inner = rig.timer.timeout(2 * S, pending::<()>());
    let mut outer = rig.timer.timeout(3 * S, inner);
    assert!(poll(&mut outer, Waker::noop()).is_pending());
    assert_eq!(rig.timer.pending(), 2);
    rig.clock.advance(2 * S);
    let Poll::Ready(Ok(Err(_))) = poll(&mut outer, Waker::noop()) else {
        panic!("the inner one was not first")
    };
    assert!(outer.into_inner().deadline().is_some());
}

/// Returns the ticks that are ready now, as times since the start.
fn ticks(rig: &Rig, interval: &mut Interval) -> Vec<Duration> {
    let tick = |interval: &mut Interval| match poll(&mut pin!(interval.tick()), Waker::noop()) {
        Poll::Ready(tick) => Some(tick - rig.start),
        Poll::Pending => None,
    };
    std::iter::from_fn(|| tick(interval)).collect()
}

#[test]
fn the_first_tick_is_at_once_and_the_others_do_not_drift() {
    let rig = &new_rig();
    let mut interval = rig.timer.interval(5 * S);
    assert_eq!(interval.period(), 5 * S);
    assert_eq!(ticks(rig, &mut interval), [Duration::ZERO]);
    for number in 1..5 {
        rig.clock.advance(5 * S);
        assert_eq!(ticks(rig, &mut interval), [number * 5 * S]);
    }
    rig.clock.advance(7 * S);
    assert_eq!(ticks(rig, &mut interval), [25 * S], "asked for late");
    rig.clock.advance(3 * S);
    assert_eq!(ticks(rig, &mut interval), [30 * S], "and the next is in time");
}

#[test]
fn an_interval_begins_at_its_start() {
    let rig = &new_rig();
    let mut interval = rig.timer.interval_at(rig.start + 3 * S, 5 * S);
    assert_eq!(ticks(rig, &mut interval), []);
    rig.clock.advance(3 * S);
    assert_eq!(ticks(rig, &mut interval), [3 * S]);
    rig.clock.advance(5 * S);
    assert_eq!(ticks(rig, &mut interval), [8 * S]);
}

#[test]
fn missed_ticks_follow_the_policy() {
    let rig = &new_rig();
    let all: [(MissedTicks, &[u32], u32); 3] = [
        (MissedTicks::Burst, &[0, 10, 20, 30], 40),
        (MissedTicks::Delay, &[0], 45),
        (MissedTicks::Skip, &[0], 40),
    ];
    for (missed, at_once, next) in all {
        let rig = rig.again(|builder| builder);
        let mut interval = rig.timer.interval(10 * S).missed(missed);
        rig.clock.advance(35 * S);
        let expected: Vec<_> = at_once.iter().map(|&tick| tick * S).collect();
        assert_eq!(ticks(&rig, &mut interval), expected, "{missed:?}");
        rig.clock.advance(((next - 35) * 1_000 - 1) * MS);
        assert_eq!(ticks(&rig, &mut interval), [], "{missed:?}");
        rig.clock.advance(MS);
        assert_eq!(ticks(&rig, &mut interval), [next * S], "{missed:?}");
    }
}

#[test]
fn a_tick_that_was_given_up_is_not_lost() {
    let rig = &new_rig();
    let mut interval = rig.timer.interval_at(rig.start + S, S);
    {
        let mut tick = pin!(interval.tick());
        assert!(poll(&mut tick, Waker::noop()).is_pending());
        rig.clock.advance(S);
    }
    assert_eq!(ticks(rig, &mut interval), [S]);
}

#[test]
fn a_reset_moves_all_ticks() {
    let rig = &new_rig();
    let mut interval = rig.timer.interval(10 * S);
    assert_eq!(ticks(rig, &mut interval), [Duration::ZERO]);
    interval.reset(3 * S);
    for tick in [3 * S, 13 * S] {
        rig.clock.advance(rig.start + tick - rig.clock.now());
        assert_eq!(ticks(rig, &mut interval), [tick]);
    }
    interval.reset(rig.start);
    assert_eq!(ticks(rig, &mut interval), [Duration::ZERO], "a tick in the past is there at once");
    rig.clock.advance(7 * S);
    assert_eq!(ticks(rig, &mut interval), [20 * S]);
}

#[test]
fn an_interval_outlives_a_stop() {
    let rig = &new_rig();
    let mut interval = rig.timer.interval(S);
    assert_eq!(ticks(rig, &mut interval), [Duration::ZERO]);
    rig.timer.stop();
    for number in 1..4 {
        rig.clock.advance(S);
        assert_eq!(ticks(rig, &mut interval), [number * S]);
    }
}

#[test]
fn the_longest_period_is_never() {
    let rig = &new_rig();
    let mut interval = rig.timer.interval(Duration::MAX);
    assert_eq!(interval.period(), Duration::MAX);
    assert_eq!(ticks(rig, &mut interval), [Duration::ZERO]);
    rig.clock.advance(100 * 365 * 86_400 * S);
    assert_eq!(ticks(rig, &mut interval), []);
    rig.clock.advance(Duration::MAX);
    assert_eq!(ticks(rig, &mut interval), [], "never does not come");
    assert_eq!(ticks(rig, &mut rig.timer.interval(Duration::MAX)).len(), 1);
}

#[test]
fn a_period_of_zero_is_refused() {
    let refused = catch_unwind(|| tickwheel::interval(Duration::ZERO)).unwrap_err();
    let message = refused.downcast_ref::<&str>().unwrap();
    assert!(message.contains("period must be greater than zero"), "{message}");
}

#[test]
fn futures_of_one_thread_can_have_a_timeout() {
    let shared = Rc::new(Cell::new(0));
    let inner = shared.clone();
    block_on(tickwheel::timeout(S, async move { inner.set(7) })).unwrap();
    assert_eq!(shared.get(), 7);
}

#[test]
fn a_timeout_takes_little_more_than_its_future() {
    let inner = async {
        let array = [0_u8; 1024];
        pending::<()>().await;
        assert_eq!(array[0], 0);
    };
    let size = size_of_val(&inner);
    let whole = size_of_val(&tickwheel::timeout(S, inner));
    assert!(whole <= size + 72, "{size} became {whole}");
}
