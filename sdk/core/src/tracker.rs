//! What of an assigned partition was delivered, is done, and may be committed.

use std::collections::VecDeque;

use crate::flow::Load;

/// Number of one assignment of one partition. Never used twice in a process; work and its completion carry it, so that
/// what belongs to an earlier assignment of the same partition is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The book of one assignment.
///
/// Events: [`deliver`](Self::deliver), [`begin`](Self::begin), then one of [`complete`](Self::complete) and
/// [`abandon`](Self::abandon) for each begun run. Verbs: [`stop`](Self::stop), after which nothing begins and nothing
/// is taken in, then [`close`](Self::close), after which completions are late. Questions: all others.
///
/// Contiguity is over the sequence of messages delivered, not over offset numbers: logs have gaps.
#[derive(Debug)]
pub struct Tracker {
    epoch: Epoch,
    /// Delivered and not yet covered by `position`, in offset order.
    slots: VecDeque<Slot>,
    position: i64,
    committed: Option<i64>,
    next: i64,
    unfinished_bytes: usize,
    running: usize,
    stage: Stage,
}

#[derive(Debug)]
struct Slot {
    offset: i64,
    bytes: usize,
    delivered_at: u64,
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    Open,
    Stopped,
    Closed,
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It counts, and is to be handled.
    Accepted,
    /// The assignment takes in nothing any more: drop it, it will be delivered to the next owner.
    Stopped,
    /// Its offset is not above what was delivered before: the log was replaced, or the reader moved back. This
    /// assignment cannot say what is done there; a new one must take over.
    Backwards,
}

/// What became of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// It counts.
    Counted,
    /// The assignment is closed: it does not count.
    Late,
    /// No such message is unfinished: it does not count.
    Unknown,
}

/// The unfinished message with the lowest offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oldest {
    /// Its offset.
    pub offset: i64,
    /// The time given to [`Tracker::deliver`].
    pub delivered_at: u64,
}

impl Tracker {
    /// A book for reading from `start` on. `committed` is what the group has committed there already.
    pub fn new(epoch: Epoch, start: i64, committed: Option<i64>) -> Self {
        Self {
            epoch,
            slots: VecDeque::new(),
            position: start,
            committed,
            next: start,
            unfinished_bytes: 0,
            running: 0,
            stage: Stage::Open,
        }
    }

    /// Takes in a message. `now` is in a unit of the caller's choice and comes back in [`Tracker::oldest`].
    pub fn deliver(&mut self, offset: i64, bytes: usize, now: u64) -> Delivered {
        if self.stage != Stage::Open {
            return Delivered::Stopped;
        }
        if offset < self.next {
            return Delivered::Backwards;
        }
        self.next = offset + 1;
        self.unfinished_bytes += bytes;
        self.slots.push_back(Slot { offset, bytes, delivered_at: now, done: false });
        Delivered::Accepted
    }

    /// Starts a run of a handler; `false` once stopped, and the work is to be skipped.
    #[must_use]
    pub fn begin(&mut self) -> bool {
        let open = self.stage == Stage::Open;
        self.running += usize::from(open);
        open
    }

    /// Ends a run without an outcome.
    pub fn abandon(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Ends a run, and its message is done.
    pub fn complete(&mut self, offset: i64) -> Completed {
        self.abandon();
        if self.stage == Stage::Closed {
            return Completed::Late;
        }
        // Messages of one lane end in order, so that the first slot is nearly always the one.
        let index = match self.slots.front() {
            Some(front) if front.offset == offset => Ok(0),
            _ => self.slots.binary_search_by_key(&offset, |slot| slot.offset),
        };
        match index {
            Ok(index) if !self.slots[index].done => self.mark_done(index),
            _ => return Completed::Unknown,
        }
        Completed::Counted
    }

    /// From now on nothing begins and nothing is taken in. What runs may still complete.
    pub fn stop(&mut self) {
        self.stage = if self.stage == Stage::Closed { Stage::Closed } else { Stage::Stopped };
    }

    /// From now on completions are late and nothing is due for commit.
    pub fn close(&mut self) {
        self.stage = Stage::Closed;
    }

    /// The broker has stored `offset`.
    pub fn committed_to(&mut self, offset: i64) {
        self.committed = self.committed.max(Some(offset));
    }

    /// The position to commit, if it is news to the broker.
    pub fn due(&self) -> Option<i64> {
        (self.stage != Stage::Closed && Some(self.position) > self.committed).then_some(self.position)
    }

    /// The assignment's number.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The offset of the next message to handle: everything delivered below it is done.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// The offset behind the last one delivered.
    pub fn next(&self) -> i64 {
        self.next
    }

    /// The position last committed.
    pub fn committed(&self) -> Option<i64> {
        self.committed
    }

    /// Handlers running.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether [`stop`](Self::stop) or [`close`](Self::close) was called.
    pub fn is_stopped(&self) -> bool {
        self.stage != Stage::Open
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Messages from the position on, done ones behind an unfinished one included, and the bytes of the unfinished.
    pub fn load(&self) -> Load {
        Load { messages: self.slots.len(), bytes: self.unfinished_bytes }
    }

    /// The unfinished message with the lowest offset.
    pub fn oldest(&self) -> Option<Oldest> {
        // The first slot is never a done one: those leave at once.
        let slot = self.slots.front()?;
        Some(Oldest { offset: slot.offset, delivered_at: slot.delivered_at })
    }

    fn mark_done(&mut self, index: usize) {
        self.slots[index].done = true;
        self.unfinished_bytes -= self.slots[index].bytes;
        while self.slots.front().is_some_and(|slot| slot.done) {
            if let Some(slot) = self.slots.pop_front() {
                self.position = slot.offset + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn tracker(start: i64) -> Tracker {
        Tracker::new(Epoch(1), start, None)
    }

    fn handle(tracker: &mut Tracker, offset: i64) -> Completed {
        assert!(tracker.begin());
        tracker.complete(offset)
    }

    #[test]
    fn gaps_in_the_log_do_not_hold_the_position() {
        let mut t = tracker(0);
        for offset in [0, 2, 4, 6] {
            assert_eq!(t.deliver(offset, 1, 0), Delivered::Accepted);
        }
        let positions: Vec<i64> = [0, 2, 6, 4]
            .into_iter()
            .map(|offset| {
                handle(&mut t, offset);
                t.position()
            })
            .collect();
        assert_eq!(positions, [1, 3, 3, 7]);
    }

    #[test]
    fn the_position_does_not_follow_what_was_only_delivered() {
        let mut t = tracker(0);
        for offset in 0..10 {
            t.deliver(offset, 1, 0);
        }
        for offset in 0..4 {
            handle(&mut t, offset);
        }
        assert_eq!(t.due(), Some(4));
        assert_eq!(t.oldest().map(|o| o.offset), Some(4));
    }

    #[test]
    fn a_resolved_start_is_due_at_once_and_a_committed_one_is_not() {
        assert_eq!(tracker(7).due(), Some(7));
        assert_eq!(Tracker::new(Epoch(1), 7, Some(7)).due(), None);
    }

    #[test]
    fn a_position_is_never_due_backwards() {
        let mut t = tracker(0);
        t.deliver(0, 1, 0);
        handle(&mut t, 0);
        t.committed_to(5);
        assert_eq!(t.due(), None);
        t.committed_to(3);
        assert_eq!(t.committed(), Some(5));
    }

    #[test]
    fn after_a_stop_queued_work_is_skipped_and_running_work_still_counts() {
        let mut t = tracker(0);
        t.deliver(0, 1, 0);
        t.deliver(1, 1, 0);
        assert!(t.begin());
        t.stop();
        assert!(!t.begin());
        assert_eq!(t.deliver(2, 1, 0), Delivered::Stopped);
        assert_eq!(t.running(), 1);
        assert_eq!(t.complete(0), Completed::Counted);
        assert_eq!((t.running(), t.due()), (0, Some(1)));
    }

    #[test]
    fn completions_after_the_close_are_late() {
        let mut t = tracker(0);
        t.deliver(0, 1, 0);
        assert!(t.begin());
        t.close();
        t.stop();
        assert_eq!(t.complete(0), Completed::Late);
        assert_eq!((t.position(), t.due(), t.running()), (0, None, 0));
    }

    #[test]
    fn a_second_completion_does_not_count() {
        let mut t = tracker(0);
        t.deliver(0, 5, 0);
        t.deliver(1, 5, 0);
        assert_eq!(handle(&mut t, 1), Completed::Counted);
        assert_eq!(handle(&mut t, 1), Completed::Unknown);
        assert_eq!(handle(&mut t, 9), Completed::Unknown);
        assert_eq!(t.load(), Load { messages: 2, bytes: 5 });
    }

    #[test]
    fn a_log_that_starts_over_is_reported() {
        let mut t = tracker(10);
        assert_eq!(t.deliver(10, 1, 0), Delivered::Accepted);
        assert_eq!(t.deliver(10, 1, 0), Delivered::Backwards);
        assert_eq!(t.deliver(0, 1, 0), Delivered::Backwards);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Deliver { gap: i64, bytes: usize },
        Begin,
        Abandon,
        Complete { pick: usize },
        Commit,
        Stop,
        Close,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            8 => (0_i64..4, 0_usize..100).prop_map(|(gap, bytes)| Op::Deliver { gap, bytes }),
            6 => Just(Op::Begin),
            1 => Just(Op::Abandon),
            6 => (0_usize..40).prop_map(|pick| Op::Complete { pick }),
            2 => Just(Op::Commit),
            1 => Just(Op::Stop),
        ];
        let end = prop_oneof![3 => Just(Op::Stop), 1 => Just(Op::Close)];
        (proptest::collection::vec(op.clone(), 0..120), end, proptest::collection::vec(op, 0..20)).prop_map(
            |(mut all, end, rest)| {
                all.push(end);
                all.extend(rest);
                all
            },
        )
    }

    /// The naive book: every message ever delivered, and whether it is done.
    #[derive(Default)]
    struct Oracle {
        all: BTreeMap<i64, (usize, bool)>,
        start: i64,
        committed: Option<i64>,
        running: usize,
        stopped: bool,
        closed: bool,
    }

    impl Oracle {
        fn position(&self) -> i64 {
            let unfinished = self.all.iter().find(|(_, (_, done))| !done).map(|(offset, _)| *offset);
            let below = |offset: i64| self.all.range(..offset).next_back().map_or(self.start, |(o, _)| o + 1);
            below(unfinished.unwrap_or(i64::MAX))
        }

        fn load(&self) -> Load {
            let first = self.all.iter().find(|(_, (_, done))| !done).map_or(i64::MAX, |(offset, _)| *offset);
            let bytes = self.all.values().filter(|(_, done)| !done).map(|(bytes, _)| bytes).sum();
            Load { messages: self.all.range(first..).count(), bytes }
        }

        fn agrees_with(&self, t: &Tracker) {
            assert_eq!(t.position(), self.position());
            assert_eq!(t.load(), self.load());
            assert_eq!(t.running(), self.running);
            assert_eq!(t.is_stopped(), self.stopped);
            assert_eq!(t.oldest().map(|o| o.offset), self.all.iter().find(|(_, (_, d))| !d).map(|(o, _)| *o));
            let news = !self.closed && self.committed.is_none_or(|c| self.position() > c);
            assert_eq!(t.due(), news.then(|| self.position()));
        }
    }

    fn apply(op: &Op, t: &mut Tracker, oracle: &mut Oracle) {
        match *op {
            Op::Deliver { gap, bytes } => {
                let offset = t.next() + gap;
                let taken = t.deliver(offset, bytes, 0) == Delivered::Accepted;
                assert_eq!(taken, !oracle.stopped);
                if taken {
                    oracle.all.insert(offset, (bytes, false));
                }
            }
            Op::Begin => {
                let begun = t.begin();
                assert_eq!(begun, !oracle.stopped);
                oracle.running += usize::from(begun);
            }
            Op::Abandon if oracle.running > 0 => {
                t.abandon();
                oracle.running -= 1;
            }
            Op::Complete { pick } if oracle.running > 0 && !oracle.all.is_empty() => {
                oracle.running -= 1;
                let count = oracle.all.len();
                let (offset, (_, done)) = oracle.all.iter_mut().nth(pick % count).unwrap();
                let expected = match (oracle.closed, *done) {
                    (true, _) => Completed::Late,
                    (false, true) => Completed::Unknown,
                    (false, false) => Completed::Counted,
                };
                *done |= !oracle.closed;
                assert_eq!(t.complete(*offset), expected);
            }
            Op::Commit => {
                if let Some(due) = t.due() {
                    t.committed_to(due);
                    oracle.committed = Some(due);
                }
            }
            Op::Stop => {
                t.stop();
                oracle.stopped = true;
            }
            Op::Close => {
                t.close();
                (oracle.stopped, oracle.closed) = (true, true);
            }
            Op::Abandon | Op::Complete { .. } => {}
        }
    }

    proptest! {
        #[test]
        fn the_book_agrees_with_a_naive_one(start in 0_i64..1000, ops in ops()) {
            let mut t = tracker(start);
            let mut oracle = Oracle { start, ..Oracle::default() };
            for op in &ops {
                apply(op, &mut t, &mut oracle);
                oracle.agrees_with(&t);
            }
        }
    }
}
