//! Leave to do one thing that counts as a start.

use core::fmt;
use std::sync::Arc;

use super::shared::Desk;
#[cfg(feature = "async")]
use super::state::TaskRef;

/// Leave to do one thing, which has counted as a start when this was given.
///
/// If the pacer limits how many run at once, a permit takes one of those places until it is
/// dropped. So keep it while the work lasts.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::Pacer;
///
/// let timer = Timer::new();
/// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1)).max_running(1).build()?;
/// let permit = pacer.try_acquire()?;
/// assert!(pacer.try_acquire().is_err()); // one is at work
/// drop(permit);
/// assert!(pacer.try_acquire().is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a permit takes a place until it is dropped, which is at once here"]
pub struct Permit {
    held: Held,
}

/// Whom to tell of the end.
enum Held {
    Nobody,
    Lane(Arc<dyn Desk>, u32),
    #[cfg(feature = "async")]
    Task(Arc<dyn Desk>, TaskRef),
}

impl Permit {
    /// One whose end matters to nobody.
    pub(super) fn free() -> Self {
        Self { held: Held::Nobody }
    }

    /// One that takes a place in a lane.
    pub(super) fn counted(desk: Arc<dyn Desk>, lane: u32) -> Self {
        Self { held: Held::Lane(desk, lane) }
    }

    /// One that was waited for.
    #[cfg(feature = "async")]
    pub(super) fn awaited(desk: Arc<dyn Desk>, task: TaskRef) -> Self {
        Self { held: Held::Task(desk, task) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match core::mem::replace(&mut self.held, Held::Nobody) {
            Held::Nobody => {}
            Held::Lane(desk, lane) => desk.end_run(lane),
            #[cfg(feature = "async")]
            Held::Task(desk, task) => desk.end_task(task),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}
