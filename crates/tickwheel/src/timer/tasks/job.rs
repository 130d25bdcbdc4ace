//! The wheel's value for a task: a closure, or a shared record. It is three words long.
//!
//! A closure that captures up to two words is stored in place, so scheduling it allocates nothing. A
//! larger one is boxed. The closure of a task with a key is marked (see `keys/table.rs`). Tasks with a
//! period or a wall-clock deadline have a [`Record`] instead.
//!
//! Ground rules of the `unsafe` code here:
//! * `data` holds the type that `vtable` was made for: an `F`, a `Box<F>` or an `Arc<Record>`. The
//!   constructor writes it, and it is moved out exactly once, by `call` or `drop`.
//! * All stored values are `Send`.
#![allow(unsafe_code)]

use alloc::boxed::Box;
use core::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

use crate::timer::tasks::record::Record;

/// The number of words that a closure may capture and still be stored in place.
const WORDS: usize = 2;

type Data = [MaybeUninit<usize>; WORDS];

struct Vtable {
    call: unsafe fn(*mut Data),
    drop: unsafe fn(*mut Data),
    /// Whether this is the closure of a task with a key. A record holds its key itself.
    keyed: bool,
}

pub(crate) struct Job {
    data: Data,
    vtable: &'static Vtable,
}

// SAFETY: the constructors accept only values that are `Send`.
unsafe impl Send for Job {}

impl Job {
    /// Creates a job from the closure of a task without a key.
    #[inline]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(f: F) -> Self {
        Self::closure::<F, false>(f)
    }

    /// Creates a job from the closure of a task with a key.
    #[inline]
    pub(crate) fn keyed<F: FnOnce() + Send + 'static>(f: F) -> Self {
        Self::closure::<F, true>(f)
    }

    #[inline]
    fn closure<F: FnOnce() + Send + 'static, const KEYED: bool>(f: F) -> Self {
        if size_of::<F>() <= size_of::<Data>() && align_of::<F>() <= align_of::<Data>() {
            Self::store(
                f,
                const { &Vtable { call: call::<F>, drop: drop_in_place::<F>, keyed: KEYED } },
            )
        } else {
            Self::store(
                Box::new(f),
                const {
                    let drop = drop_in_place::<Box<F>>;
                    &Vtable { call: call_boxed::<F>, drop, keyed: KEYED }
                },
            )
        }
    }

    /// Creates a job from a record.
    pub(crate) fn of(record: Arc<Record>) -> Self {
        Self::store(record, &RECORD)
    }

    #[inline]
    fn store<V>(value: V, vtable: &'static Vtable) -> Self {
        assert!(size_of::<V>() <= size_of::<Data>() && align_of::<V>() <= align_of::<Data>());
        let mut data = [MaybeUninit::uninit(); WORDS];
        // SAFETY: the value fits, and words are aligned enough for it.
        unsafe { data.as_mut_ptr().cast::<V>().write(value) };
        Self { data, vtable }
    }

    /// Returns the record, if the job holds one.
    #[inline]
    pub(crate) fn record(&self) -> Option<&Arc<Record>> {
        if !core::ptr::eq(self.vtable, &raw const RECORD) {
            return None;
        }
        // SAFETY: with this vtable the data is an `Arc<Record>`.
        Some(unsafe { &*self.data.as_ptr().cast::<Arc<Record>>() })
    }

    /// Returns `true` if this is the closure of a task with a key.
    #[inline]
    pub(crate) fn has_key(&self) -> bool {
        self.vtable.keyed
    }

    /// Calls the closure. A job that holds a record does nothing.
    #[inline]
    pub(crate) fn call(self) {
        let mut job = ManuallyDrop::new(self);
        // SAFETY: the data has the vtable's type, and is not used again.
        unsafe { (job.vtable.call)(&raw mut job.data) };
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: the data has the vtable's type, and is not used again.
        unsafe { (self.vtable.drop)(&raw mut self.data) };
    }
}

/// Identifies jobs that hold a record, by its address.
static RECORD: Vtable =
    Vtable { call: drop_in_place::<Arc<Record>>, drop: drop_in_place::<Arc<Record>>, keyed: false };

// SAFETY (for callers): `data` holds an `F`, which is moved out.
unsafe fn call<F: FnOnce()>(data: *mut Data) {
    // SAFETY: as the caller promises.
    let f = unsafe { data.cast::<F>().read() };
    f();
}

// SAFETY (for callers): `data` holds a `Box<F>`, which is moved out.
unsafe fn call_boxed<F: FnOnce()>(data: *mut Data) {
    // SAFETY: as the caller promises.
    let f = unsafe { data.cast::<Box<F>>().read() };
    f();
}

// SAFETY (for callers): `data` holds a `V`, which is moved out.
unsafe fn drop_in_place<V>(data: *mut Data) {
    // SAFETY: as the caller promises.
    unsafe { data.cast::<V>().drop_in_place() };
}
