//! Random events in the tracker and in a naive book.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

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

#[derive(Clone, Copy)]
struct Entry {
    bytes: usize,
    done: bool,
}

/// Every message ever delivered, and whether it is done.
#[derive(Default)]
struct Oracle {
    all: BTreeMap<i64, Entry>,
    start: i64,
    resumed: BTreeSet<i64>,
    committed: Option<(i64, String)>,
    /// Something was completed since the last commit.
    news: bool,
    running: usize,
    stopped: bool,
    closed: bool,
}

impl Oracle {
    fn first_unfinished(&self) -> i64 {
        self.all.iter().find(|(_, entry)| !entry.done).map_or(i64::MAX, |(offset, _)| *offset)
    }

    fn position(&self) -> i64 {
        self.all.range(..self.first_unfinished()).next_back().map_or(self.start, |(offset, _)| offset + 1)
    }

    fn load(&self) -> Load {
        let unfinished = self.all.values().filter(|entry| !entry.done);
        Load { messages: unfinished.clone().count(), bytes: unfinished.map(|entry| entry.bytes).sum() }
    }

    fn next(&self) -> i64 {
        self.all.last_key_value().map_or(self.start, |(offset, _)| offset + 1)
    }

    /// An offset that was passed over is done when both its neighbours are.
    fn done_ahead(&self) -> DoneSet {
        let done = |offset: &i64| {
            let below = self.all.range(..=offset).next_back().is_some_and(|(_, entry)| entry.done);
            let above = self.all.range(offset..).next().is_some_and(|(_, entry)| entry.done);
            if *offset >= self.next() { self.resumed.contains(offset) } else { below && above }
        };
        let end = self.next().max(self.resumed.last().map_or(0, |last| last + 1));
        (self.first_unfinished().min(self.next())..end).filter(done).collect()
    }

    fn due(&self) -> Option<(i64, String)> {
        let position = self.position();
        let text = Progress { start: None, done: self.done_ahead() }.encode(position, AMPLE);
        let wanted = match &self.committed {
            None => true,
            Some((committed, at)) => position > *committed || (self.news && *at != text),
        };
        (wanted && !self.closed).then_some((position, text))
    }

    fn agrees_with(&self, t: &Tracker) {
        assert_eq!(t.position(), self.position());
        assert_eq!(t.next(), self.next());
        assert_eq!(t.load(), self.load());
        assert_eq!(t.span(), self.all.range(self.first_unfinished()..).count());
        assert_eq!(t.running(), self.running);
        assert_eq!(t.is_stopped(), self.stopped);
        assert_eq!(t.oldest().map_or(i64::MAX, |o| o.offset), self.first_unfinished());
        assert_eq!(t.done_ahead(), self.done_ahead());
        assert_eq!(t.due(AMPLE).map(|mark| (mark.offset, mark.metadata)), self.due());
    }
}

fn apply(op: &Op, t: &mut Tracker, oracle: &mut Oracle) {
    match *op {
        Op::Deliver { gap, bytes } => {
            let offset = t.next() + gap;
            let done = oracle.resumed.contains(&offset);
            let expected = match (oracle.stopped, done) {
                (true, _) => Delivered::Stopped,
                (false, true) => Delivered::AlreadyDone,
                (false, false) => Delivered::Accepted,
            };
            assert_eq!(t.deliver(offset, bytes, 0), expected);
            if !oracle.stopped {
                oracle.all.insert(offset, Entry { bytes, done });
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
            let (offset, entry) = oracle.all.iter_mut().nth(pick % count).unwrap();
            let expected = match (oracle.closed, entry.done) {
                (true, _) => Completed::Late,
                (false, true) => Completed::Unknown,
                (false, false) => Completed::Counted,
            };
            oracle.news |= expected == Completed::Counted;
            entry.done |= !oracle.closed;
            assert_eq!(t.complete(*offset), expected);
        }
        Op::Commit => {
            if let Some(mark) = t.due(AMPLE) {
                oracle.committed = Some((mark.offset, mark.metadata.clone()));
                oracle.news = false;
                t.committed_to(mark);
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
    fn the_book_agrees_with_a_naive_one(
        start in 0_i64..1000,
        ahead in proptest::collection::btree_set(0_i64..150, 0..60),
        ops in ops(),
    ) {
        let resumed: BTreeSet<i64> = ahead.into_iter().map(|ahead| start + ahead).collect();
        let mut t = tracker(start);
        t.resume(resumed.iter().copied().collect());
        let mut oracle = Oracle { start, resumed, ..Oracle::default() };
        for op in &ops {
            apply(op, &mut t, &mut oracle);
            oracle.agrees_with(&t);
        }
    }
}
