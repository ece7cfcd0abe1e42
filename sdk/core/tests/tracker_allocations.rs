//! The book of a partition takes no memory for each message. Alone in its process, as everything there is counted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use zms_core::tracker::{Completed, Delivered, Epoch, Tracker};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BATCH: i64 = 500;

/// One batch: delivered, and handled in an order that is not that of the log.
fn batch(tracker: &mut Tracker) {
    let from = tracker.next();
    for offset in from..from + BATCH {
        assert_eq!(tracker.deliver(offset, 100, 0), Delivered::Accepted);
    }
    for step in 0..BATCH {
        assert!(tracker.begin());
        assert_eq!(tracker.complete(from + step * 7 % BATCH), Completed::Counted);
    }
}

fn allocations_of_a_flow(tracker: &mut Tracker) -> usize {
    let region = Region::new(COUNTING);
    for _ in 0..20 {
        batch(tracker);
        // Nothing is done above the position, so that the text is empty.
        let mark = tracker.due(4000).unwrap();
        tracker.committed_to(mark);
    }
    let change = region.change();
    change.allocations + change.reallocations
}

#[test]
fn a_steady_flow_takes_no_memory() {
    let mut tracker = Tracker::new(Epoch(1), 0, Some(0));
    batch(&mut tracker);
    // The harness has a thread of its own, which may take some meanwhile: the calmest try counts.
    let calmest = (0..10).map(|_| allocations_of_a_flow(&mut tracker)).min();
    assert_eq!(calmest, Some(0));

    let region = Region::new(COUNTING);
    tracker.deliver(tracker.next(), 100, 0);
    tracker.deliver(tracker.next(), 100, 0);
    assert_eq!(tracker.complete(tracker.next() - 1), Completed::Counted);
    assert!(tracker.due(4000).is_some());
    assert!(region.change().allocations > 0, "the text of what is done ahead is counted");
}
