//! A network does not allocate after its first forward pass.

mod common;

use common::{Positions, small};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use tandem_transformer::*;

/// The system's allocator, with a counter of the allocations of this thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls are forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
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
fn a_second_run_does_not_allocate() {
    for (name, architecture) in small() {
        let weights = Weights::random(architecture, 1);
        let positions = Positions::random(weights.architecture(), 18, 2);
        for precision in Precision::ALL {
            let network = Network::new(&weights, precision, Isa::best());
            let mut scratch = Scratch::default();
            positions.with(0, 18, |inputs| {
                network.run(inputs, &mut scratch).unwrap();
                let before = ALLOCATIONS.get();
                assert!(before > 0);
                network.run(inputs, &mut scratch).unwrap();
                assert_eq!(ALLOCATIONS.get(), before, "{name} {precision:?}");
            });
        }
    }
}
