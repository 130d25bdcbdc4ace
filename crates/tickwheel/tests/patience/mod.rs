//! Waits for other threads with a time limit, so that a broken test does not hang.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const S: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const US: Duration = Duration::from_micros(1);

/// The time limit: longer than any test needs on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a condition holds.
pub(crate) fn until(what: &str, come_about: impl Fn() -> bool) {
    let start = Instant::now();
    while !come_about() {
        assert!(start.elapsed() < PATIENCE, "waited for ever: {what}");
        thread::sleep(MS);
    }
}

/// Runs `work` on a thread, and fails if it does not end in time.
pub(crate) fn in_time<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || drop(sender.send(work())));
    match receiver.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs: {what}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().unwrap_err())
        }
    }
}

/// Counts its drops.
pub(crate) struct Tell(pub(crate) Arc<AtomicUsize>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
