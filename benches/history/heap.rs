//! The heap that is in use, and the most that was.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTED: Counted = Counted;

struct Counted;

// SAFETY: everything is done by the system's allocator; the counters are only added to.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes in use.
pub fn in_use() -> usize {
    IN_USE.load(Relaxed)
}

/// The most since it was forgotten.
pub fn peak() -> usize {
    PEAK.load(Relaxed)
}

/// Counts anew.
pub fn forget_peak() {
    PEAK.store(in_use(), Relaxed);
}
