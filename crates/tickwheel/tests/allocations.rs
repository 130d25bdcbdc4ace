//! After a warm-up, neither scheduling a small task nor a wheel allocates.
#![allow(unsafe_code, reason = "a global allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Wheel};
use tickwheel::{ManualClock, Timer};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// The size of the largest block since this was last set to 0.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LARGEST.set(LARGEST.get().max(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// The size of two huge pages of the system. Segments are between one and two of them.
const SMALL_BLOCK: usize = 4 << 20;

/// Returns the bytes of the largest block that the work allocates.
fn largest_block(work: impl FnOnce()) -> usize {
    LARGEST.set(0);
    work();
    LARGEST.get()
}

fn turn(wheel: &mut impl Wheel<u64>, start: u64) {
    let keys: [_; 64] = std::array::from_fn(|n| wheel.insert(start + 10 * n as u64, n as u64));
    for (n, &key) in keys.iter().enumerate() {
        match n % 3 {
            0 => drop(wheel.remove(key)),
            1 => assert!(wheel.reset(key, start + 3)),
            _ => assert!(wheel.reset(key, start + 900)),
        }
    }
    while wheel.pop_due(start + 1_000).is_some() {}
}

fn a_warm_wheel_allocates_nothing(mut wheel: impl Wheel<u64>) {
    let mut start = 0;
    for _ in 0..200 {
        turn(&mut wheel, start);
        start += 1_000;
    }
    let count = allocations(|| {
        for round in 0..100 {
            turn(&mut wheel, start + 1_000 * round);
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn a_warm_hierarchical_wheel_allocates_nothing() {
    a_warm_wheel_allocates_nothing(HierarchicalWheel::new());
}

#[test]
fn a_warm_hashed_wheel_allocates_nothing() {
    a_warm_wheel_allocates_nothing(HashedWheel::new(512));
}

#[test]
fn a_small_task_is_not_boxed() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let schedule = |words: [usize; 2]| {
        let task = move || _ = std::hint::black_box(words);
        timer.after(Duration::from_millis(5), task).unwrap()
    };
    for number in 0..1_000 {
        schedule([number; 2]);
    }
    clock.advance(Duration::from_millis(5));
    let count = allocations(|| {
        for number in 0..100 {
            let timeout = schedule([number; 2]);
            timeout.reset(Duration::from_millis(1));
            assert!(number % 2 == 0 || timeout.cancel());
        }
    });
    assert_eq!(count, 0);

    // A boxed task is counted.
    let words = [0_usize; 3];
    let boxed = allocations(|| {
        let task = move || _ = std::hint::black_box(words);
        timer.after(Duration::from_millis(5), task).unwrap();
    });
    assert_eq!(boxed, 1);
}

#[test]
fn a_key_is_not_boxed() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let schedule = |number: usize| {
        let task = move || _ = std::hint::black_box([number; 2]);
        timer.key(number).after(Duration::from_millis(5), task).unwrap();
        timer.key("a text of 22 bytes, ok").after(Duration::from_millis(5), task).unwrap();
    };
    (0..1_000).for_each(schedule);
    clock.advance(Duration::from_millis(5));
    let count = allocations(|| {
        for number in 0..100 {
            schedule(number % 70);
            assert!(number % 2 == 0 || timer.cancel(number % 70));
        }
    });
    assert_eq!(count, 0);
}

/// A table that grew in one step would move all its keys under the lock.
#[test]
fn keys_of_a_timer_grow_in_steps() {
    let timer = Timer::builder().clock(ManualClock::new()).build().unwrap();
    let largest = largest_block(|| {
        for number in 0..500_000_u64 {
            timer.key(number).after(Duration::from_secs(60), || {}).unwrap();
        }
    });
    assert!(largest <= SMALL_BLOCK, "a block of {largest} bytes");
}

#[cfg(feature = "async")]
#[test]
fn keys_of_a_delay_queue_grow_in_steps() {
    let timer = Timer::builder().clock(ManualClock::new()).build().unwrap();
    let queue = tickwheel::DelayQueue::new(&timer);
    let largest = largest_block(|| {
        for number in 0..500_000_u64 {
            queue.key(number).push(number, Duration::from_secs(60)).unwrap();
        }
        for number in 0..500_000_u64 {
            assert_eq!(queue.key(number).remove(), Some(number));
        }
    });
    assert!(largest <= SMALL_BLOCK, "a block of {largest} bytes");
}

#[cfg(feature = "async")]
#[test]
fn a_warm_sleep_allocates_nothing() {
    use std::future::{Future, pending};
    use std::pin::Pin;
    use std::task::{Context, Waker};

    fn is_ready<F: Future + Unpin>(future: &mut F, waker: &Waker) -> bool {
        Pin::new(future).poll(&mut Context::from_waker(waker)).is_ready()
    }

    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    // Two different wakers, so that one replaces the other.
    let wakers = [Waker::noop().clone(), futures::task::noop_waker()];
    let second = Duration::from_secs(1);
    // Counts the allocations of this number of futures, and those of moving the clock, which makes a
    // list of its timers in any case.
    let round = |futures: usize| {
        let mut moving = 0;
        let count = allocations(|| {
            for _ in 0..futures {
                let mut dropped = timer.sleep(second);
                assert!(!is_ready(&mut dropped, &wakers[0]));
            }
            let mut sleeps: [_; 300] = std::array::from_fn(|_| timer.sleep(2 * second));
            for sleep in &mut sleeps[..futures] {
                assert!(!is_ready(sleep, &wakers[0]) && !is_ready(sleep, &wakers[1]));
                sleep.reset(second);
            }
            let mut limited = timer.timeout(second, pending::<()>());
            assert!(!is_ready(&mut limited, &wakers[0]));
            moving = allocations(|| clock.advance(second));
            assert!(is_ready(&mut limited, &wakers[0]));
            assert!(sleeps[..futures].iter_mut().all(|sleep| is_ready(sleep, &wakers[0])));
        });
        (count - moving, moving)
    };
    for _ in 0..100 {
        round(300);
    }
    let (count, moving) = round(300);
    assert_eq!(count, 0, "to begin, to change and to end");
    assert_eq!(moving, round(1).1, "to be woken");

    let mut ticks = timer.interval(second);
    let mut cx = Context::from_waker(&wakers[0]);
    let count = allocations(|| while ticks.poll_tick(&mut cx).is_ready() {});
    assert_eq!(count, 0);
}
