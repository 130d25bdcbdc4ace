//! Models of the delay queue and of futures on a timer: loom runs each in every interleaving of its
//! threads, up to a number of preemptions. A lost wake-up shows as a deadlock.
//!
//! As in `timer_loom.rs`, time stands still at 0: an item with no delay is due at once. Where time
//! must pass, a thread of the model advances a manual clock.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use loom::thread;
use tickwheel::{DelayQueue, ManualClock, Sleep, Timer};

const NOW: Duration = Duration::ZERO;
const NEVER_HERE: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Runs a model in every interleaving with at most this number of preemptions.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A waker that loom can schedule.
struct Signal {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Signal {
    fn new() -> Arc<Self> {
        Arc::new(Self { woken: Mutex::new(false), changed: Condvar::new() })
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let signal = Signal::new();
    let waker = Waker::from(signal.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut woken = signal.woken.lock().unwrap();
        while !*woken {
            woken = signal.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

/// Polls once, and gives up if that was not enough.
fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Returns a timer that starts no thread; it is not needed where everything is due at once. The
/// thread that serves futures after a stop is loom's.
fn timer() -> Timer {
    let hook = |body: tickwheel::ThreadBody| {
        thread::spawn(body);
        Ok(())
    };
    Timer::builder().caller_driven().thread_hook(hook).build().unwrap()
}

#[test]
fn a_push_meets_a_consumer_that_begins_to_wait() {
    explore(5, || {
        let queue = DelayQueue::new(&timer());
        let consumer = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.pop())
        });
        queue.push(7, NOW).unwrap();
        assert_eq!(consumer.join().unwrap(), Some(7));
    });
}

#[test]
fn a_consumer_that_gives_up_passes_its_wake_up_on() {
    explore(4, || {
        let queue = DelayQueue::new(&timer());
        let stays = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.pop())
        });
        let gives_up = thread::spawn({
            let queue = queue.clone();
            move || poll_once(queue.pop()).flatten()
        });
        queue.push(1, NOW).unwrap();
        if gives_up.join().unwrap().is_some() {
            queue.push(2, NOW).unwrap();
        }
        assert!(stays.join().unwrap().is_some());
        assert!(queue.is_empty());
    });
}

#[test]
fn two_items_reach_two_consumers() {
    explore(3, || {
        let queue = DelayQueue::new(&timer());
        let consume = || {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.pop()))
        };
        let (one, other) = (consume(), consume());
        queue.push(1, NOW).unwrap();
        queue.push(2, NOW).unwrap();
        let mut items = [one.join().unwrap(), other.join().unwrap()];
        items.sort_unstable();
        assert_eq!(items, [Some(1), Some(2)]);
    });
}

#[test]
fn room_reaches_a_producer_also_past_one_that_gives_up() {
    explore(4, || {
        let queue = DelayQueue::bounded(&timer(), 1);
        queue.push(1, NOW).unwrap();
        let stays = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.push_wait(2, NOW)).unwrap()
        });
        let gives_up = thread::spawn({
            let queue = queue.clone();
            move || poll_once(queue.key("third").push_wait(3, NEVER_HERE)).is_some()
        });
        assert_eq!(queue.try_pop(), Some(1));
        if gives_up.join().unwrap() {
            // The push found room in time, so its item is in the queue.
            assert_eq!(queue.key("third").remove(), Some(3));
        }
        stays.join().unwrap();
        assert_eq!(queue.close(), [2]);
    });
}

#[test]
fn closing_meets_a_consumer_that_begins_to_wait() {
    explore(5, || {
        let queue = DelayQueue::new(&timer());
        let consumer = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.pop())
        });
        queue.push(7, NOW).unwrap();
        let rest = queue.close();
        assert_eq!(consumer.join().unwrap().into_iter().chain(rest).collect::<Vec<_>>(), [7]);
    });
}

#[test]
fn a_stop_meets_a_future_that_falls_asleep() {
    explore(4, || {
        let timer = timer();
        let signal = Signal::new();
        let sleeper = thread::spawn({
            let (timer, waker) = (timer.clone(), Waker::from(signal.clone()));
            move || {
                let mut sleep = timer.sleep(NEVER_HERE);
                let polled = pin!(&mut sleep).poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
                // The future waits on this timer and the stop wakes it, or it was created after the
                // stop, on another timer.
                (timer.pending(), sleep)
            }
        });
        assert!(timer.stop().is_empty());
        let (pending, sleep) = sleeper.join().unwrap();
        assert!(pending == 0 || *signal.woken.lock().unwrap(), "it sleeps on a stopped timer");
        assert_eq!(timer.pending(), 0);
        drop(sleep);
    });
}

/// Returns a timer, and a thread that advances its clock by two milliseconds, in two steps.
fn two_milliseconds() -> (ManualClock, Timer, impl FnOnce() -> thread::JoinHandle<()>) {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let mover = clock.clone();
    let pass = move || {
        thread::spawn(move || {
            mover.advance(MS);
            mover.advance(MS);
        })
    };
    (clock, timer, pass)
}

/// Waits for a sleep like an executor that polls more often than necessary: it discards a wake-up,
/// and polls twice before it waits.
fn wait_restlessly(sleep: &mut Sleep, signal: &Arc<Signal>) {
    let waker = Waker::from(signal.clone());
    loop {
        for _ in 0..2 {
            *signal.woken.lock().unwrap() = false;
            if pin!(&mut *sleep).poll(&mut Context::from_waker(&waker)).is_ready() {
                return;
            }
        }
        let mut woken = signal.woken.lock().unwrap();
        while !*woken {
            woken = signal.changed.wait(woken).unwrap();
        }
    }
}

#[test]
fn a_sleep_is_polled_while_it_is_woken() {
    explore(4, || {
        let (clock, timer, pass) = two_milliseconds();
        let mut sleep = timer.sleep(MS);
        let deadline = sleep.deadline().unwrap();
        let passing = pass();
        wait_restlessly(&mut sleep, &Signal::new());
        assert!(clock.now() >= deadline, "it is early");
        passing.join().unwrap();
        assert_eq!(timer.pending(), 0);
    });
}

#[test]
fn a_reset_meets_the_waking() {
    explore(3, || {
        let (clock, timer, pass) = two_milliseconds();
        let mut sleep = timer.sleep(MS);
        let later = clock.now() + 2 * MS;
        let signal = Signal::new();
        let waker = Waker::from(signal.clone());
        assert!(pin!(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
        let passing = pass();
        sleep.reset(later);
        wait_restlessly(&mut sleep, &signal);
        assert!(clock.now() >= later, "it is early");
        passing.join().unwrap();
        assert_eq!(timer.pending(), 0);
    });
}

/// The wheel entry that a sleep leaves behind is reused by the next sleep.
#[test]
fn a_sleep_in_the_place_of_another_meets_its_waking() {
    explore(3, || {
        let (clock, timer, pass) = two_milliseconds();
        let later = clock.now() + 2 * MS;
        let mut dropped = timer.sleep(MS);
        assert_eq!(poll_once(&mut dropped), None);
        let passing = pass();
        drop(dropped);
        let mut sleep = timer.sleep_until(later);
        wait_restlessly(&mut sleep, &Signal::new());
        assert!(clock.now() >= later, "it is early");
        passing.join().unwrap();
        assert_eq!(timer.pending(), 0);
    });
}
