//! How many bytes this thread has allocated and not yet freed; and memory that is ready for use.
//!
//! A global allocator that passes everything on to the system's and adds up sizes. The sum is a
//! plain thread-local cell: an addition without `lock` prefix or initialisation check, about a
//! nanosecond an allocation beside the 20 or more that the allocation itself takes, and the same
//! for every system. `realloc` and `alloc_zeroed` are passed on as such, so growing a large block
//! still moves pages instead of copying them.
//!
//! It counts what was asked for. What the system's allocator adds to each block (8 to 16 bytes)
//! is not in the sum, which flatters systems that allocate a block for each timer.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use memmap2::{Advice, MmapMut};

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated minus bytes that it has freed.
pub(crate) fn live_bytes() -> isize {
    LIVE.get()
}

/// Touches so much memory, and gives it back. A virtual machine may have returned free memory to
/// its host, in huge pages; the first to touch that again would wait for the host.
pub(crate) fn touch(bytes: usize) {
    if let Ok(mut block) = MmapMut::map_anon(bytes) {
        // Advice only: a kernel that does not take it changes nothing.
        let _ = block.advise(Advice::HugePage);
        block.fill(1);
    }
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[inline]
fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
}

// SAFETY: every method hands its arguments to `System` unchanged and returns what `System`
// returned. The cell is const-initialised and has no destructor, so counting never allocates.
// Sizes fit an `isize`: `Layout` guarantees it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        unsafe { System.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::live_bytes;

    #[test]
    fn counts_what_is_held_and_forgets_what_is_freed() {
        let before = live_bytes();
        let mut block = Vec::<u8>::with_capacity(1_000);
        assert_eq!(live_bytes() - before, 1_000);
        block.reserve_exact(5_000);
        assert_eq!(live_bytes() - before, 5_000);
        drop(block);
        assert_eq!(live_bytes(), before);
    }
}
