//! The manual clock when several threads move it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tickwheel::{ManualClock, Timer};

const MS: Duration = Duration::from_millis(1);

/// Calls take turns: no step is lost, and the tasks that a call makes due have run when it returns.
#[test]
fn threads_that_advance_at_once_take_turns() {
    const THREADS: u32 = 4;
    const STEPS: u32 = 250;
    let clock = ManualClock::new();
    let start = clock.now();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let ran_at = Arc::new(Mutex::new(Vec::new()));
    let (seen, log) = (clock.clone(), ran_at.clone());
    timer.every(MS, move || log.lock().unwrap().push(seen.now() - start)).unwrap();
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..STEPS {
                    let ran = Arc::new(AtomicBool::new(false));
                    let flag = ran.clone();
                    timer.after(MS, move || flag.store(true, SeqCst)).unwrap();
                    clock.advance(MS);
                    assert!(ran.load(SeqCst), "due by then, so it has run");
                }
            });
        }
    });
    assert_eq!(clock.now() - start, THREADS * STEPS * MS);
    let expected: Vec<_> = (1..=THREADS * STEPS).map(|n| n * MS).collect();
    assert_eq!(*ran_at.lock().unwrap(), expected, "each run at its own time");
}

/// A call that sets the wall clock has run the tasks that became due, even while another thread
/// advances the time.
#[test]
fn setting_the_wall_clock_takes_its_turn_too() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let slow = move || {
        sender.send(()).unwrap();
        thread::sleep(20 * MS);
    };
    timer.after(MS, slow).unwrap();
    let noon = clock.wall() + Duration::from_secs(3_600);
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    timer.at(noon, move || flag.store(true, SeqCst)).unwrap();
    let moved = clock.clone();
    let other = thread::spawn(move || moved.advance(MS));
    receiver.recv().unwrap();
    clock.set_wall(noon);
    assert!(ran.load(SeqCst), "due by then, so it has run");
    other.join().unwrap();
}
