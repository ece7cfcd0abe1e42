//! The core's part of one message, alone: taken in, begun, completed, and the position that follows from it.

use std::{collections::VecDeque, hint::black_box};

use zms_core::tracker::{Completed, Delivered, Epoch, Tracker};

use super::{Metric, Stage, Standard, Work, payload};
use crate::{
    Failure, allocations,
    job::Job,
    statistics::Goal,
    stopwatch::{Sample, Stopwatch},
};

pub(super) const IN_ORDER: Work = Work {
    name: "core",
    what: "the core's book of one partition: take a message in, begin it, complete it, read the position; in order",
    ours: in_order,
    ..OUT_OF_ORDER
};

pub(super) const OUT_OF_ORDER: Work = Work {
    name: "core-keys",
    what: "the same with messages completed out of order, any of 64 at a time, as by 64 workers in key order",
    metric: Metric::Rate,
    stage: Stage::Nowhere,
    messages: 20_000_000,
    mock_limit: u64::MAX,
    settings: &[],
    profile: "durable",
    note: None,
    ours: out_of_order,
    standards: &[
        Standard { name: "ns_per_message", of: Sample::wall_ns, goal: Goal::AtMost(150.0) },
        Standard { name: "allocations", of: Sample::allocations, goal: Goal::AtMost(0.0) },
    ],
    incumbents: &[],
};

/// Bytes of the text beside a committed position, as the SDK limits it.
const METADATA: usize = 4000;

/// Messages taken in and not completed, at a time.
const IN_MEMORY: usize = 1000;

/// Of these, any may be completed next when they are not completed in order.
const RUNNING: u64 = 64;

/// Between commits: at 100,000 messages a second, one second.
const COMMIT_EVERY: u64 = 100_000;

fn in_order(job: &Job) -> Result<Sample, Failure> {
    measured(job, |_| 0)
}

fn out_of_order(job: &Job) -> Result<Sample, Failure> {
    measured(job, |number| usize::try_from(payload::scatter(number) % RUNNING).unwrap_or(0))
}

/// `pick` says which of the messages in memory is completed next, by the number of messages completed before. Commits
/// are timed as well; what they allocate for the text beside the position is not counted.
fn measured(job: &Job, pick: impl Fn(u64) -> usize) -> Result<Sample, Failure> {
    let mut book = Book::new();
    // What the steady state needs is allocated meanwhile.
    book.run(COMMIT_EVERY, &pick)?;
    let (mut left, mut allocations) = (job.messages, 0);
    let watch = Stopwatch::start();
    while left > 0 {
        let messages = left.min(COMMIT_EVERY);
        let (result, allocated) = allocations::during(|| book.run(messages, &pick));
        result?;
        allocations += allocated;
        book.commit();
        left -= messages;
    }
    Ok(watch.stop(job.messages).with_allocations(allocations))
}

struct Book {
    tracker: Tracker,
    /// Offsets in memory; those at the front run.
    unfinished: VecDeque<i64>,
    next: i64,
}

impl Book {
    fn new() -> Self {
        let unfinished = VecDeque::with_capacity(IN_MEMORY + 1);
        Self { tracker: Tracker::new(Epoch(1), 0, None), unfinished, next: 0 }
    }

    fn run(&mut self, messages: u64, pick: impl Fn(u64) -> usize) -> Result<(), Failure> {
        for number in 0..messages {
            while self.unfinished.len() < IN_MEMORY {
                self.take_in(number)?;
            }
            self.complete(pick(number))?;
        }
        Ok(())
    }

    fn take_in(&mut self, now: u64) -> Result<(), Failure> {
        if self.tracker.deliver(self.next, payload::SIZE, now) != Delivered::Accepted {
            return Err(format!("offset {} was not accepted", self.next).into());
        }
        self.unfinished.push_back(self.next);
        self.next += 1;
        Ok(())
    }

    fn complete(&mut self, pick: usize) -> Result<(), Failure> {
        let offset = self.unfinished.swap_remove_front(pick).ok_or("nothing is in memory")?;
        if !self.tracker.begin() || self.tracker.complete(offset) != Completed::Counted {
            return Err(format!("the completion of offset {offset} did not count").into());
        }
        black_box(self.tracker.position());
        Ok(())
    }

    fn commit(&mut self) {
        if let Some(due) = self.tracker.due(METADATA) {
            self.tracker.committed_to(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_what_is_in_memory_is_done_whatever_the_order() {
        for running in [1, RUNNING] {
            let mut book = Book::new();
            book.run(10_000, |number| usize::try_from(payload::scatter(number) % running).unwrap()).unwrap();
            assert_eq!(book.next, 10_000 + i64::try_from(IN_MEMORY).unwrap() - 1);
            assert!(book.tracker.position() <= *book.unfinished.iter().min().unwrap());
        }
    }
}
