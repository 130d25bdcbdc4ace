//! Catches and logs panics of user code, and tracks which timers a thread is *inside*: those for which
//! it is running a task or other user code.

use core::cell::{Cell, RefCell};
use std::any::Any;
use std::boxed::Box;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use crate::timer::builder::Config;
use crate::timer::core::driver::Driver;
use crate::timer::sync::thread_local;

/// A callback that receives the payload of a task's panic.
pub(crate) type PanicHook = Arc<dyn Fn(&(dyn Any + Send)) + Send + Sync>;

/// Calls user code. Returns `true` if it panicked.
#[inline]
pub(crate) fn catch(config: &Config, call: impl FnOnce()) -> bool {
    catch_with(config.panic_hook.as_ref(), call)
}

#[inline]
pub(crate) fn catch_with(hook: Option<&PanicHook>, call: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(()) => false,
        Err(payload) => {
            report(hook, payload);
            true
        }
    }
}

#[cold]
fn report(hook: Option<&PanicHook>, payload: Box<dyn Any + Send>) {
    log(|| tracing::error!(panic = message(&*payload), "a task panicked"));
    let reported = catch_unwind(AssertUnwindSafe(|| {
        if let Some(hook) = hook {
            hook(&*payload);
        }
    }));
    if let Err(second) = reported {
        log(|| tracing::error!(panic = message(&*second), "the panic hook of a timer panicked"));
        discard(second);
    }
    discard(payload);
}

/// Writes to the log. A panic of the `tracing` subscriber is caught. If the subscriber uses a timer
/// that logs in turn, the inner message is dropped, to avoid endless recursion. No lock may be held.
pub(crate) fn log(write: impl FnOnce()) {
    // Without its thread-locals, the thread is ending.
    let is_first = LOGGING.try_with(|logging| !logging.replace(true)).unwrap_or(false);
    if !is_first {
        return;
    }
    if let Err(payload) = catch_unwind(AssertUnwindSafe(write)) {
        discard(payload);
    }
    let _ = LOGGING.try_with(|logging| logging.set(false));
}

/// Calls user code that returns a result. A panic becomes an error.
pub(crate) fn result(call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let error = io::Error::other(String::from(message(&*payload)));
        discard(payload);
        Err(error)
    })
}

/// Calls a hook of the timer. A panic is logged and not propagated.
pub(crate) fn call_hook(name: &str, hook: &dyn Fn()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(hook)) {
        log(|| tracing::error!(panic = message(&*payload), "the {name} of a timer panicked"));
        discard(payload);
    }
}

/// Drops the payload of a panic. If that panics again, the second payload is leaked.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        core::mem::forget(again);
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

thread_local! {
    /// The timers that this thread is inside: usually one, more if a task turns another timer.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro has no such form")]
    static INSIDE: RefCell<Vec<*const Driver>> = RefCell::new(Vec::new());
    /// Whether this thread is writing to the log.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro has no such form")]
    static LOGGING: Cell<bool> = Cell::new(false);
}

/// Keeps the thread inside a timer until it is dropped.
pub(crate) struct Inside;

pub(crate) fn enter(driver: &Driver) -> Inside {
    // Without its thread-locals, the thread is ending and will not wait.
    let _ = INSIDE.try_with(|inside| inside.borrow_mut().push(core::ptr::from_ref(driver)));
    Inside
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
    }
}

/// Returns `true` if the calling thread is inside a timer.
pub(crate) fn is_inside(driver: &Driver) -> bool {
    let this = core::ptr::from_ref(driver);
    INSIDE.try_with(|inside| inside.borrow().contains(&this)).unwrap_or(true)
}
