//! What a timer holds for each task, in three words: a closure, or a record that several parties
//! share.
//!
//! A closure that captures up to two words is stored in place, so scheduling it allocates
//! nothing; a larger one is boxed. One whose task has a key is marked (`keys/table.rs`). Tasks
//! that need more than to be called once (a period, a wall-clock deadline) have a [`Record`].
//!
//! Ground rules of the `unsafe` code here:
//! * `data` holds what `vtable` was made for: an `F`, a `Box<F>` or an `Arc<Record>`, written by
//!   the constructor and moved out exactly once: by `call`, `into_record` or `drop`.
//! * Everything that goes in is `Send`.
#![allow(unsafe_code)]

use alloc::boxed::Box;
use core::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

use crate::timer::tasks::record::Record;

/// How much a closure may capture and still be stored in place.
const WORDS: usize = 2;

type Data = [MaybeUninit<usize>; WORDS];

struct Vtable {
    call: unsafe fn(*mut Data),
    drop: unsafe fn(*mut Data),
    /// Whether this is a closure whose task has a key. The key of a record is in the record.
    keyed: bool,
}

pub(crate) struct Job {
    data: Data,
    vtable: &'static Vtable,
}

// SAFETY: the constructors take nothing that is not `Send`.
unsafe impl Send for Job {}

impl Job {
    /// A job that calls a closure.
    #[inline]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(f: F) -> Self {
        Self::closure::<F, false>(f)
    }

    /// As [`new`](Self::new), for a task with a key.
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

    /// A job that stands for a record.
    pub(crate) fn of(record: Arc<Record>) -> Self {
        Self::store(record, &RECORD)
    }

    #[inline]
    fn store<V>(value: V, vtable: &'static Vtable) -> Self {
        assert!(size_of::<V>() <= size_of::<Data>() && align_of::<V>() <= align_of::<Data>());
        let mut data = [MaybeUninit::uninit(); WORDS];
        // SAFETY: the value fits, and is aligned as words are.
        unsafe { data.as_mut_ptr().cast::<V>().write(value) };
        Self { data, vtable }
    }

    /// The record that the job stands for, if it does.
    #[inline]
    pub(crate) fn record(&self) -> Option<&Arc<Record>> {
        if !core::ptr::eq(self.vtable, &raw const RECORD) {
            return None;
        }
        // SAFETY: with this vtable the data is an `Arc<Record>`.
        Some(unsafe { &*self.data.as_ptr().cast::<Arc<Record>>() })
    }

    /// Whether this is a closure whose task has a key.
    #[inline]
    pub(crate) fn has_key(&self) -> bool {
        self.vtable.keyed
    }

    /// Calls the closure. A job that stands for a record does nothing.
    #[inline]
    pub(crate) fn call(self) {
        let mut job = ManuallyDrop::new(self);
        // SAFETY: the data is what the vtable is for, and is not touched again.
        unsafe { (job.vtable.call)(&raw mut job.data) };
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: the data is what the vtable is for, and is not touched again.
        unsafe { (self.vtable.drop)(&raw mut self.data) };
    }
}

/// Only its address is of use: it marks jobs that stand for a record.
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
