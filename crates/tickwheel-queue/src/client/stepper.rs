//! A writer without a thread, for simulations in one thread.

use std::fmt;
use std::sync::Arc;

use crate::client::builder::close_core;
use crate::runtime::core::Core;
use crate::runtime::writer::Writer;

/// The writer of [`Queues`](crate::Queues) that were opened with
/// [`Builder::open_stepped`](crate::Builder::open_stepped).
///
/// Answers are given by [`Stepper::step`] only: poll an [`Answer`](crate::Answer) to send it, turn
/// the writer, and poll it again. Reads can be waited for, as they need no writer. When the stepper
/// is dropped, the queues are closed.
///
/// ```
/// use std::pin::pin;
/// use std::task::{Context, Waker};
/// use tickwheel_queue::{NewJob, Queues, store::MemoryDisk};
///
/// let (queues, mut stepper) = Queues::builder().open_stepped(MemoryDisk::new())?;
/// let mut put = pin!(queues.put(NewJob::new("mail", "hello")));
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(put.as_mut().poll(&mut context).is_pending());
/// stepper.step();
/// assert!(put.as_mut().poll(&mut context).is_ready());
/// # Ok::<(), tickwheel_queue::OpenError>(())
/// ```
pub struct Stepper {
    core: Arc<Core>,
    writer: Writer,
}

impl Stepper {
    pub(crate) fn new(core: Arc<Core>, writer: Writer) -> Self {
        Self { core, writer }
    }

    /// Does what the writer's thread does when it wakes up: takes what callers sent and what has
    /// become due, commits it as one batch, and answers.
    pub fn step(&mut self) {
        self.writer.step_now();
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        self.writer.close();
        close_core(&self.core);
    }
}

impl fmt::Debug for Stepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stepper").finish_non_exhaustive()
    }
}
