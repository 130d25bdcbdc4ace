//! A vector of fixed capacity whose memory is laid out for random access.
//!
//! A plain `Vec` would be slower, because the allocator places a large one 16 bytes after the start
//! of a page. Records then straddle cache lines, and the block straddles the huge pages that save
//! most of the address translation. `docs/WHEEL.md` has the figures.
//!
//! This module has all the `unsafe` code of the wheels. Its ground rules:
//! * `start` comes from the global allocator with [`Block::layout`] of `capacity`, or dangles if
//!   that is 0 bytes.
//! * The first `len` places hold valid records, and `len <= capacity`.
#![allow(unsafe_code)]

use alloc::alloc::{alloc, dealloc, handle_alloc_error};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

const CACHE_LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

pub(crate) struct Block<E> {
    start: NonNull<E>,
    len: u32,
    capacity: u32,
    owns: PhantomData<E>,
}

// SAFETY: a block owns its records as a `Vec` does.
unsafe impl<E: Send> Send for Block<E> {}
// SAFETY: as above. A shared block gives out only shared references to its records.
unsafe impl<E: Sync> Sync for Block<E> {}

impl<E> Block<E> {
    pub(crate) const EMPTY: Self =
        Self { start: NonNull::dangling(), len: 0, capacity: 0, owns: PhantomData };

    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        if layout.size() == 0 {
            return Self { capacity: capacity as u32, ..Self::EMPTY };
        }
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc(layout) }.cast::<E>();
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        if layout.align() == HUGE_PAGE {
            advise_huge(start.cast(), layout.size());
        }
        Self { start, len: 0, capacity: capacity as u32, owns: PhantomData }
    }

    fn layout(capacity: usize) -> Layout {
        let records = Layout::array::<E>(capacity).expect("a block fits the address space");
        let wanted = if records.size() >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        records.align_to(wanted).expect("the alignment is a power of two")
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Adds a record. The block must not be full.
    #[inline]
    pub(crate) fn push(&mut self, record: E) {
        assert!(!self.is_full(), "a block does not grow");
        // SAFETY: place `len` is within the capacity and holds nothing yet.
        unsafe { self.start.add(self.len as usize).write(record) };
        self.len += 1;
    }

    /// Adds records until the block is full.
    #[cfg(feature = "std")]
    pub(crate) fn fill_up(&mut self, mut record: impl FnMut() -> E) {
        while !self.is_full() {
            self.push(record());
        }
    }

    /// Empties the block without dropping its records. Visiting them all would take long.
    pub(super) fn forget_records(&mut self) {
        self.len = 0;
    }

    /// Prefetches a record.
    #[inline]
    pub(crate) fn prefetch(&self, place: usize) {
        let record = self.start.as_ptr().wrapping_add(place);
        for line in (0..size_of::<E>()).step_by(CACHE_LINE) {
            prefetch(record.wrapping_byte_add(line));
        }
    }

    /// Moves all records to a block with another capacity, which must be large enough.
    pub(crate) fn with_other_capacity(self, capacity: usize) -> Self {
        assert!(capacity >= self.len as usize, "a block does not drop records");
        let mut other = Self::with_capacity(capacity);
        let mut old = ManuallyDrop::new(self);
        // SAFETY: the blocks are distinct, and both have room for `len` records. The records belong
        // to `other` afterwards, and `old` has none when its memory is freed.
        unsafe {
            ptr::copy_nonoverlapping(old.start.as_ptr(), other.start.as_ptr(), old.len as usize);
        }
        other.len = core::mem::take(&mut old.len);
        drop(ManuallyDrop::into_inner(old));
        other
    }
}

impl<E> Default for Block<E> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<E> Deref for Block<E> {
    type Target = [E];

    #[inline]
    fn deref(&self) -> &[E] {
        // SAFETY: the first `len` places hold valid records.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl<E> DerefMut for Block<E> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [E] {
        // SAFETY: the first `len` places hold valid records, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }
}

impl<E> Drop for Block<E> {
    fn drop(&mut self) {
        /// Frees the memory, also when a record's destructor panics.
        struct Memory(NonNull<u8>, Layout);
        impl Drop for Memory {
            fn drop(&mut self) {
                if self.1.size() > 0 {
                    // SAFETY: allocated by `with_capacity` with the same layout.
                    unsafe { dealloc(self.0.as_ptr(), self.1) };
                }
            }
        }
        let _memory = Memory(self.start.cast(), Self::layout(self.capacity as usize));
        // SAFETY: the first `len` places hold valid records, dropped here once.
        unsafe { ptr::drop_in_place(&raw mut **self) };
    }
}

/// Prefetches the cache line of an address, which need not be valid.
#[inline]
pub(crate) fn prefetch<E>(address: *const E) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that reads nothing and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks the kernel for huge pages. It may refuse.
#[cfg(all(feature = "std", target_os = "linux"))]
fn advise_huge(start: NonNull<u8>, bytes: usize) {
    use core::ffi::{c_int, c_void};

    const MADV_HUGEPAGE: c_int = 14;

    unsafe extern "C" {
        fn madvise(start: *mut c_void, length: usize, advice: c_int) -> c_int;
    }

    // SAFETY: the range is this block's own memory, and MADV_HUGEPAGE changes neither its contents
    // nor its permissions.
    unsafe { madvise(start.as_ptr().cast(), bytes, MADV_HUGEPAGE) };
}

#[cfg(not(all(feature = "std", target_os = "linux")))]
fn advise_huge(_: NonNull<u8>, _: usize) {}
