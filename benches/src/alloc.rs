//! An allocator that counts, thread by thread: what is live, the most that ever was, how many allocations.
//!
//! A binary or a test that wants to count declares it: `#[global_allocator] static ALLOCATOR: Counting = Counting;`.
//! Counters belong to the thread, so that tests that run beside each other do not see each other, and so that counting
//! costs no locked instruction: it must not slow down the side that allocates more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

/// What this thread has allocated. Bytes are those asked for, without what the system's allocator adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes allocated and not freed. Negative where memory of another thread was freed.
    pub live: i64,
    /// The largest `live` so far, or since [`reset_peak`].
    pub peak: i64,
    /// Allocations, each reallocation included.
    pub allocations: u64,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { live: 0, peak: 0, allocations: 0 }) };
}

/// The counters of this thread. All zero where [`Counting`] is not the allocator.
#[must_use]
pub fn counts() -> Counts {
    COUNTS.get()
}

/// Lets the peak begin anew, at what is live now.
pub fn reset_peak() {
    let counts = COUNTS.get();
    COUNTS.set(Counts { peak: counts.live, ..counts });
}

/// Does this, and answers how many allocations it took.
pub fn allocations<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = counts().allocations;
    let result = work();
    (result, counts().allocations - before)
}

/// Does this, and answers how many bytes more are live afterwards: with what it returns still there, what that keeps.
pub fn bytes_kept<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = counts().live;
    let result = work();
    (result, counts().live - before)
}

fn count(allocations: u64, bytes: i64) {
    // A thread that is ending may have no counters any more: then nobody asks for them either.
    let _ = COUNTS.try_with(|cell| {
        let Counts { live, peak, allocations: so_far } = cell.get();
        let live = live.wrapping_add(bytes);
        cell.set(Counts { live, peak: peak.max(live), allocations: so_far + allocations });
    });
}

/// No object is larger than this type can say.
const fn signed(bytes: usize) -> i64 {
    bytes.cast_signed() as i64
}

#[expect(unsafe_code, reason = "an allocator cannot be written without; each call goes to the system's as it came")]
// SAFETY: every method hands its arguments unchanged to the system's allocator and its answer back; counting neither
// allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(1, signed(new_size) - signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn what_is_kept_is_counted_to_the_byte_and_what_is_freed_is_not() {
        let (kept, bytes) = bytes_kept(|| {
            drop(vec![0_u8; 5_000]);
            vec![0_u8; 1_000].into_boxed_slice()
        });
        assert_eq!(bytes, 1_000);
        drop(kept);
        reset_peak();
        let before = counts();
        drop(vec![0_u8; 3_000]);
        assert_eq!(counts().peak - before.live, 3_000);
        assert_eq!(counts().live, before.live);
    }

    #[test]
    fn each_allocation_and_each_growth_counts_once() {
        let (_, none) = allocations(String::new);
        let (_, one) = allocations(|| String::from("text"));
        let (_, two) = allocations(|| {
            let mut bytes = Vec::<u8>::with_capacity(1);
            bytes.reserve_exact(100);
            bytes
        });
        assert_eq!((none, one, two), (0, 1, 2));
    }
}
