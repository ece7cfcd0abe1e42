//! Lives that end at any moment, each begun from what the one before had committed.

use std::collections::BTreeSet;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Deliver,
    Complete { pick: usize },
    Commit { limit: usize },
    Crash,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let limit = prop_oneof![2 => Just(AMPLE), 1 => 0_usize..40];
    let op = prop_oneof![
        10 => Just(Op::Deliver),
        8 => (0_usize..60).prop_map(|pick| Op::Complete { pick }),
        3 => limit.prop_map(|limit| Op::Commit { limit }),
        1 => Just(Op::Crash),
    ];
    proptest::collection::vec(op, 0..300)
}

/// A log, what of it was ever handled to the end, and what the broker keeps.
struct World {
    log: Vec<i64>,
    done: BTreeSet<i64>,
    stored: (i64, String),
    life: Tracker,
    /// Delivered in this life, and not done in it.
    unfinished: Vec<i64>,
    /// Index in the log of what is delivered next.
    cursor: usize,
}

impl World {
    fn new(log: Vec<i64>) -> Self {
        let life = Tracker::new(Epoch(0), 0, Some(0));
        Self {
            log,
            done: BTreeSet::new(),
            stored: (0, String::new()),
            life,
            unfinished: Vec::new(),
            cursor: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Deliver => self.deliver(),
            Op::Complete { pick } => self.complete(pick),
            Op::Commit { limit } => self.commit(limit),
            Op::Crash => self.crash(),
        }
    }

    fn deliver(&mut self) {
        let Some(&offset) = self.log.get(self.cursor) else { return };
        self.cursor += 1;
        match self.life.deliver(offset, 1, 0) {
            Delivered::Accepted => self.unfinished.push(offset),
            Delivered::AlreadyDone => assert!(self.done.contains(&offset), "{offset} was skipped"),
            other => panic!("{other:?}"),
        }
    }

    fn complete(&mut self, pick: usize) {
        if self.unfinished.is_empty() {
            return;
        }
        let offset = self.unfinished.swap_remove(pick % self.unfinished.len());
        assert_eq!(handle(&mut self.life, offset), Completed::Counted);
        self.done.insert(offset);
        assert!(self.log.iter().take_while(|o| **o < self.life.position()).all(|o| self.done.contains(o)));
    }

    fn commit(&mut self, limit: usize) {
        let Some(mark) = self.life.due(limit) else { return };
        assert!(mark.offset >= self.stored.0 && mark.metadata.len() <= limit);
        self.stored = (mark.offset, mark.metadata.clone());
        self.life.committed_to(mark);
        let read = self.read();
        for offset in self.log.iter().filter(|offset| **offset >= self.stored.0) {
            let done = self.done.contains(offset);
            assert!(done || !read.contains(*offset), "{offset} is not done");
            let known = *offset < self.life.next() && !self.unfinished.contains(offset);
            assert!(limit < AMPLE || !known || read.contains(*offset), "{offset} is done");
        }
    }

    fn read(&self) -> DoneSet {
        Progress::decode(self.stored.0, &self.stored.1).unwrap_or_default().done
    }

    fn crash(&mut self) {
        let (position, _) = self.stored;
        self.life = Tracker::new(Epoch(0), position, Some(position));
        self.life.resume(self.read());
        self.unfinished.clear();
        self.cursor = self.log.partition_point(|offset| *offset < position);
    }

    /// Crashes once more and handles what is left: exactly what the last commit did not name.
    fn finish(mut self) {
        self.crash();
        let read = self.read();
        let due: Vec<i64> = self.log[self.cursor..].iter().copied().filter(|o| !read.contains(*o)).collect();
        while self.cursor < self.log.len() {
            self.deliver();
        }
        assert_eq!(self.unfinished, due);
        while !self.unfinished.is_empty() {
            self.complete(0);
        }
        assert!(self.log.iter().all(|offset| self.done.contains(offset)), "all was handled");
        assert_eq!(self.life.position(), self.log.last().map_or(0, |last| last + 1));
    }
}

proptest! {
    #[test]
    fn whatever_was_committed_nothing_is_lost_and_what_it_names_is_not_handled_again(
        gaps in proptest::collection::vec(prop_oneof![4 => Just(1_i64), 1 => 1_i64..200], 1..120),
        ops in ops(),
    ) {
        let log = gaps.iter().scan(-1, |at, gap| { *at += gap; Some(*at) }).collect();
        let mut world = World::new(log);
        for op in &ops {
            world.apply(op);
        }
        world.finish();
    }
}
