//! Uses the wheels where there is no std.
//!
//! A static library without std must define its own panic handler and allocator. If a dependency
//! brings in std, the panic handler is defined twice and the build fails. So a successful build
//! proves that the wheels need no std. The library is never run.

#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Wheel};

/// Calls every operation of both wheels, so that all of their code is compiled.
#[unsafe(no_mangle)]
pub extern "C" fn turn(now: u64) -> usize {
    turn_wheel(HierarchicalWheel::new(), now) + turn_wheel(HashedWheel::new(512), now)
}

fn turn_wheel(mut wheel: impl Wheel<u64>, now: u64) -> usize {
    wheel.reserve(2);
    let one = wheel.insert(now, 1);
    let two = wheel.insert(u64::MAX, 2);
    wheel.reset(one, now / 2);
    wheel.remove(two);
    let mut fired = 0;
    while wheel.next_wake().is_some_and(|tick| tick <= now) {
        fired += usize::from(wheel.pop_due(now).is_some());
    }
    let rest = wheel.iter().count() + wheel.drain().count();
    wheel.clear();
    wheel.shrink_to_fit();
    fired + rest + wheel.memory_usage()
}

struct Refusing;

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

// SAFETY: a null pointer means that the allocator is out of memory. `alloc` never returns a block,
// so `dealloc` is never called.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
