//! Counts allocations of the calling thread, where a measurement asks for it.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    /// Counted so far, while this thread counts.
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What `work` allocated on this thread: calls to the allocator, those that grow what is there included.
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, u64) {
    COUNT.set(Some(0));
    let result = work();
    (result, COUNT.take().unwrap_or_default())
}

/// The system's allocator, and a look at a thread-local flag.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn note() {
    // Allocations go on while a thread ends and its variables are gone.
    _ = COUNT.try_with(|count| count.set(count.get().map(|counted| counted + 1)));
}

// SAFETY: every call is the system allocator's, with the caller's own arguments; counting neither allocates nor panics.
#[expect(unsafe_code, reason = "an allocator cannot be had without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::{hint::black_box, thread};

    use super::*;

    #[test]
    fn each_allocation_of_this_thread_counts_and_growth_does_too() {
        let (kept, counted) = during(|| {
            let mut list = Vec::with_capacity(black_box(1));
            list.extend([1_u8, 2, 3]);
            (black_box(list), black_box(Box::new(4_u8)))
        });
        drop(kept);
        assert_eq!(counted, 3);
        assert_eq!(during(|| black_box(1) + 1).1, 0);
    }

    #[test]
    fn other_threads_and_other_times_do_not_count() {
        let counting = thread::spawn(|| during(thread::park).1);
        (0..1000).for_each(|size| drop(black_box(Vec::<u8>::with_capacity(size))));
        counting.thread().unpark();
        assert_eq!(counting.join().unwrap(), 0);
    }
}
