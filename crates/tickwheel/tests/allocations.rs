//! Once warm, scheduling a small task allocates nothing, and neither does a wheel.
#![allow(unsafe_code, reason = "a global allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Wheel};
use tickwheel::{ManualClock, Timer};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is handed on unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
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

    // And the count does see what is boxed.
    let words = [0_usize; 3];
    let boxed = allocations(|| {
        let task = move || _ = std::hint::black_box(words);
        timer.after(Duration::from_millis(5), task).unwrap();
    });
    assert_eq!(boxed, 1);
}
