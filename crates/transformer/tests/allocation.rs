//! After its first run a network takes no memory.

mod common;

use common::{Positions, small};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use tandem_transformer::*;

/// The system's allocator, which counts what this thread takes.
struct Counting;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_second_run_takes_no_memory() {
    for (name, architecture) in small() {
        let weights = Weights::random(architecture, 1);
        let positions = Positions::random(weights.architecture(), 18, 2);
        for precision in Precision::ALL {
            let network = Network::new(&weights, precision, Isa::best());
            let mut scratch = Scratch::default();
            positions.with(0, 18, |inputs| {
                network.run(inputs, &mut scratch).unwrap();
                let before = TAKEN.get();
                assert!(before > 0);
                network.run(inputs, &mut scratch).unwrap();
                assert_eq!(TAKEN.get(), before, "{name} {precision:?}");
            });
        }
    }
}
