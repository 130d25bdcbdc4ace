//! Futures of permits: polled by hand, and on threads that block on them.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::patience::in_time;
use crate::rig::{MS, Rig, S};
use crate::wakers::{self, Count, block_on};
use tickwheel::pace::{Acquire, KeyedPacer, PaceError, Pacer, Permit};
use tickwheel::{Timer, WheelKind};

fn rig() -> Rig {
    Rig::new(WheelKind::Hierarchical)
}

fn poll<F: Future + Unpin>(future: &mut F, count: &Arc<Count>) -> Poll<F::Output> {
    wakers::poll(future, &Waker::from(count.clone()))
}

fn permit(poll: Poll<Result<Permit, PaceError>>) -> Option<Permit> {
    match poll {
        Poll::Ready(permit) => Some(permit.unwrap()),
        Poll::Pending => None,
    }
}

#[test]
fn a_permit_is_there_at_once_if_a_start_is_allowed() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 2, S);
    let woken = Arc::default();
    for _ in 0..2 {
        assert!(permit(poll(&mut pacer.acquire(), &woken)).is_some());
    }
    assert!(permit(poll(&mut pacer.acquire(), &woken)).is_none());
    assert_eq!((woken.woken(), pacer.queued()), (0, 0), "the last one was dropped");
}

#[test]
fn nothing_happens_until_it_is_polled() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    let futures: Vec<Acquire> = (0..5).map(|_| pacer.acquire()).collect();
    assert_eq!(pacer.queued(), 0);
    drop(futures);
    assert!(pacer.try_acquire().is_ok());
}

#[test]
fn who_waits_is_woken_once_when_it_is_his_turn() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    drop(pacer.try_acquire().unwrap());
    let woken: [Arc<Count>; 3] = Default::default();
    let mut futures = [0, 1, 2].map(|_| pacer.acquire());
    for (future, woken) in futures.iter_mut().zip(&woken) {
        assert!(poll(future, woken).is_pending());
    }
    let counts = || [0, 1, 2].map(|which: usize| woken[which].woken());
    rig.clock.advance(999 * MS);
    assert_eq!(counts(), [0, 0, 0]);
    rig.clock.advance(MS);
    assert_eq!(counts(), [1, 0, 0]);
    // The window counts from when the permit is taken, half a second later.
    rig.clock.advance(S / 2);
    assert!(permit(poll(&mut futures[0], &woken[0])).is_some());
    rig.clock.advance(999 * MS);
    assert_eq!(counts(), [1, 0, 0]);
    rig.clock.advance(MS);
    assert_eq!(counts(), [1, 1, 0]);
    assert!(permit(poll(&mut futures[1], &woken[1])).is_some());
}

#[test]
fn only_the_last_waker_is_woken() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    drop(pacer.try_acquire().unwrap());
    let (first, last): (Arc<Count>, Arc<Count>) = Default::default();
    let mut future = pacer.acquire();
    assert!(poll(&mut future, &first).is_pending());
    assert!(poll(&mut future, &last).is_pending());
    assert_eq!(Arc::strong_count(&first), 1, "the first one was dropped");
    rig.clock.advance(S);
    assert_eq!((first.woken(), last.woken()), (0, 1));
    assert!(permit(poll(&mut future, &last)).is_some());
    assert_eq!(Arc::strong_count(&last), 1);
}

#[test]
fn a_future_that_is_dropped_gives_its_start_to_the_next() {
    let rig = rig();
    let pacer = Pacer::builder(&rig.timer, 1, S).max_running(1).build().unwrap();
    drop(pacer.try_acquire().unwrap());
    let woken: [Arc<Count>; 3] = Default::default();
    let mut futures = [0, 1, 2].map(|_| Some(pacer.acquire()));
    for (future, woken) in futures.iter_mut().zip(&woken) {
        assert!(poll(future.as_mut().unwrap(), woken).is_pending());
    }
    futures[1] = None; // before its turn
    rig.clock.advance(S);
    assert_eq!(woken[0].woken(), 1);
    pacer.submit(rig.note(7)).unwrap();
    futures[0] = None; // after its turn has come, and before it was taken
    rig.clock.advance(Duration::ZERO);
    assert_eq!(woken[2].woken(), 1, "the next has it at once");
    let held = permit(poll(futures[2].as_mut().unwrap(), &woken[2])).unwrap();
    rig.clock.advance(3 * S);
    assert!(rig.numbers().is_empty(), "the permit takes the only place");
    drop(held);
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.noted(), [(7, 4 * S)]);
    let stats = pacer.stats();
    assert_eq!((stats.submitted, stats.started, stats.cancelled), (5, 3, 2));
}

#[test]
fn futures_and_tasks_wait_in_one_line_by_priority() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    let woken = Arc::default();
    pacer.submit(rig.note(0)).unwrap();
    pacer.submit(rig.note(1)).unwrap();
    let mut future = pacer.acquire_with(5);
    assert!(poll(&mut future, &woken).is_pending(), "it does not overtake without waiting");
    rig.clock.advance(Duration::ZERO);
    assert!(permit(poll(&mut future, &woken)).is_some());
    rig.clock.advance(5 * S);
    assert_eq!(rig.noted(), [(0, S), (1, 2 * S)]);
}

#[test]
fn who_waits_is_told_that_the_pacer_was_stopped() {
    let rig = rig();
    for granted in [false, true] {
        let pacer = Pacer::new(&rig.timer, 1, S);
        let woken = Arc::default();
        drop(pacer.try_acquire().unwrap());
        let mut future = pacer.acquire();
        assert!(poll(&mut future, &woken).is_pending());
        if granted {
            rig.clock.advance(S);
        }
        let before = woken.woken();
        assert!(pacer.stop().is_empty());
        assert_eq!(woken.woken() - before, usize::from(!granted), "who was woken comes anyway");
        assert!(matches!(poll(&mut future, &woken), Poll::Ready(Err(PaceError::Stopped))));
        let refused = poll(&mut pacer.acquire(), &woken);
        assert!(matches!(refused, Poll::Ready(Err(PaceError::Stopped))));
        let stats = pacer.stats();
        assert_eq!((stats.started, stats.running, stats.queued), (1, 0, 0), "nothing runs");
    }
    let pacer = Pacer::new(&rig.timer, 1, S);
    rig.timer.stop();
    let refused = poll(&mut pacer.acquire(), &Arc::default());
    assert!(matches!(refused, Poll::Ready(Err(PaceError::Stopped))));
}

#[test]
fn a_waker_that_panics_keeps_nothing_from_the_others() {
    for stops in [true, false] {
        let rig = rig();
        let pacer = Pacer::new(&rig.timer, 1, S);
        pacer.pause();
        let count = Arc::default();
        let bomb = wakers::Call::waker(|| panic!("a waker that panics"));
        let (mut first, mut second) = (pacer.acquire(), pacer.acquire());
        assert!(wakers::poll(&mut first, &bomb).is_pending());
        assert!(poll(&mut second, &count).is_pending());
        (0..2).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
        if stops {
            let unstarted = pacer.stop();
            assert_eq!(unstarted.len(), 2, "tasks that were queued are handed back");
        } else {
            drop(pacer);
        }
        assert_eq!(count.woken(), 1, "the other waiter is woken");
        assert!(matches!(poll(&mut second, &count), Poll::Ready(Err(PaceError::Stopped))));
    }
}

#[test]
fn dropping_the_pacer_wakes_who_waits() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    let woken = Arc::default();
    pacer.pause();
    let mut future = pacer.acquire();
    assert!(poll(&mut future, &woken).is_pending());
    drop(pacer);
    assert_eq!(woken.woken(), 1);
    assert!(matches!(poll(&mut future, &woken), Poll::Ready(Err(PaceError::Stopped))));
}

#[test]
fn a_full_queue_refuses_a_future() {
    let rig = rig();
    let pacer = Pacer::builder(&rig.timer, 1, S).max_queued(1).build().unwrap();
    let woken = Arc::default();
    pacer.submit(rig.note(0)).unwrap();
    let Poll::Ready(Err(error)) = poll(&mut pacer.acquire(), &woken) else {
        panic!("there is no place");
    };
    assert_eq!(error, PaceError::Full { limit: 1, queued: 1 });
}

#[test]
fn a_key_that_has_no_place_costs_nothing() {
    let rig = rig();
    let builder = Pacer::builder(&rig.timer, 1, S).max_queued_total(1);
    let pacer: KeyedPacer<u32> = builder.build_keyed().unwrap();
    pacer.pause();
    pacer.key(0).submit(rig.note(0)).unwrap();
    for key in 1..1_000 {
        let refused = poll(&mut pacer.key(key).acquire(), &Arc::default());
        let Poll::Ready(Err(error)) = refused else { panic!("there is no place") };
        assert_eq!(error, PaceError::TotalFull { limit: 1, queued: 1 });
    }
    assert_eq!(pacer.stats().keys, 1);
}

/// Calls the pacer when it is woken and when it is dropped.
struct Busybody(Arc<OnceLock<Pacer>>);

impl Wake for Busybody {
    fn wake(self: Arc<Self>) {
        self.0.get().unwrap().submit(|| {}).unwrap();
    }
}

impl Drop for Busybody {
    fn drop(&mut self) {
        let _ = self.0.get().unwrap().stats();
    }
}

#[test]
fn wakers_are_woken_and_dropped_without_the_lock() {
    in_time("wakers that call the pacer", || {
        let rig = rig();
        let pacer = Pacer::new(&rig.timer, 1, S);
        let cell = Arc::new(OnceLock::new());
        cell.set(pacer.clone()).unwrap();
        drop(pacer.try_acquire().unwrap());
        let mut futures = [0, 1, 2].map(|_| pacer.acquire());
        for future in &mut futures {
            for _ in 0..2 {
                let waker = Waker::from(Arc::new(Busybody(cell.clone())));
                assert!(Pin::new(&mut *future).poll(&mut Context::from_waker(&waker)).is_pending());
            }
        }
        let [first, mut second, third] = futures;
        drop(first);
        rig.clock.advance(S);
        assert_eq!(pacer.stats().submitted, 5, "the second was woken, and has submitted a task");
        let waker = Waker::from(Arc::new(Busybody(cell.clone())));
        assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&waker)).is_ready());
        pacer.pause();
        drop(third);
    });
}

#[test]
fn threads_that_await_keep_the_window_and_the_places() {
    const STARTS: usize = 5;
    const WINDOW: Duration = Duration::from_millis(10);
    in_time("threads that await", || {
        let timer = Timer::new();
        let builder = Pacer::builder(&timer, STARTS, WINDOW).max_running(2);
        let pacer: KeyedPacer<u8> = builder.build_keyed().unwrap();
        let log = [const { Mutex::new(Vec::new()) }; 2];
        let running = [const { AtomicUsize::new(0) }; 2];
        thread::scope(|scope| {
            for number in 0..8_usize {
                let (pacer, log, running) = (&pacer, &log, &running);
                let key = number % 2;
                scope.spawn(move || {
                    for _ in 0..15 {
                        let permit = block_on(pacer.key(key as u8).acquire()).unwrap();
                        let time = Instant::now();
                        assert!(running[key].fetch_add(1, Ordering::SeqCst) < 2);
                        log[key].lock().unwrap().push(time);
                        running[key].fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        for starts in &log {
            let mut starts = starts.lock().unwrap().clone();
            starts.sort_unstable();
            assert_eq!(starts.len(), 60);
            let lengths = starts.windows(STARTS + 1).map(|row| row[STARTS] - row[0]);
            // The thread may be preempted between getting the permit and recording the time.
            let short = lengths.filter(|&length| length < WINDOW).count();
            assert!(short <= 2, "{short} windows have too many starts");
        }
        assert_eq!(pacer.stats().queued, 0);
    });
}
