//! Bounded admission of bytes: first in, first out, no waiter starved, every byte returned exactly once.

use std::collections::VecDeque;

/// A number of bytes that many share, and the line of those who wait for some.
///
/// Ask by [`take`](Self::take); where there is nothing to take, get in line by [`enqueue`](Self::enqueue) within the
/// same lock. [`give_back`](Self::give_back) and [`withdraw`](Self::withdraw) answer whose turn it is now: the bytes
/// of each [`Grant`] are taken on its behalf, and whoever cannot use its grant gives it back. `W` is how the driver
/// reaches a waiter.
#[derive(Debug)]
pub struct Admission<W> {
    total: usize,
    free: usize,
    line: VecDeque<Waiter<W>>,
    next_id: u64,
    closed: bool,
}

/// A place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(u64);

#[derive(Debug)]
struct Waiter<W> {
    id: WaiterId,
    bytes: usize,
    reach: W,
}

/// Bytes taken on behalf of a waiter, who has left the line.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the bytes are taken: hand them over or give them back"]
pub struct Grant<W> {
    /// How the driver reaches the waiter.
    pub reach: W,
    /// How many bytes are its own now.
    pub bytes: usize,
}

/// Why bytes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Too few are free, or others were there first: wait.
    Wait,
    /// More than there will ever be.
    TooLarge {
        /// The most that can be taken at once.
        limit: usize,
    },
    /// Nothing is given out any more.
    Closed,
}

impl<W> Admission<W> {
    /// Shares `total` bytes.
    pub fn new(total: usize) -> Self {
        Self { total, free: total, line: VecDeque::new(), next_id: 0, closed: false }
    }

    /// Takes bytes if enough are free and nobody waits for any.
    ///
    /// # Errors
    /// [`Shortage`] says whether waiting helps.
    pub fn take(&mut self, bytes: usize) -> Result<(), Shortage> {
        if self.closed {
            return Err(Shortage::Closed);
        }
        if bytes > self.total {
            return Err(Shortage::TooLarge { limit: self.total });
        }
        if !self.line.is_empty() || bytes > self.free {
            return Err(Shortage::Wait);
        }
        self.free -= bytes;
        Ok(())
    }

    /// Gets in line after [`Shortage::Wait`].
    pub fn enqueue(&mut self, bytes: usize, reach: W) -> WaiterId {
        let id = WaiterId(self.next_id);
        self.next_id += 1;
        self.line.push_back(Waiter { id, bytes, reach });
        id
    }

    /// Returns bytes; whose turn it is now.
    pub fn give_back(&mut self, bytes: usize) -> Vec<Grant<W>> {
        self.free += bytes;
        debug_assert!(self.free <= self.total, "returned more than was taken");
        self.next_in_line()
    }

    /// Leaves the line. `None`: it is not there any more, so its grant is on the way (or [`close`](Self::close) has
    /// sent it away). Otherwise whose turn it is now, for it may have stood in the way of smaller ones.
    pub fn withdraw(&mut self, id: WaiterId) -> Option<Vec<Grant<W>>> {
        let place = self.line.binary_search_by_key(&id, |waiter| waiter.id).ok()?;
        self.line.remove(place);
        Some(self.next_in_line())
    }

    /// Gives nothing out any more; the waiters sent away. Bytes given out can still be returned.
    pub fn close(&mut self) -> Vec<W> {
        self.closed = true;
        self.line.drain(..).map(|waiter| waiter.reach).collect()
    }

    /// Bytes shared.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Bytes that nobody has.
    pub fn free(&self) -> usize {
        self.free
    }

    /// Number of waiters in line.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }

    fn next_in_line(&mut self) -> Vec<Grant<W>> {
        let mut grants = Vec::new();
        while self.line.front().is_some_and(|waiter| waiter.bytes <= self.free) {
            if let Some(Waiter { bytes, reach, .. }) = self.line.pop_front() {
                self.free -= bytes;
                grants.push(Grant { reach, bytes });
            }
        }
        grants
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full(total: usize) -> Admission<&'static str> {
        let mut admission = Admission::new(total);
        assert_eq!(admission.take(total), Ok(()));
        admission
    }

    #[test]
    fn a_waiter_that_gave_up_does_not_stand_in_the_way() {
        let mut admission = full(100);
        let a = admission.enqueue(60, "a");
        admission.enqueue(50, "b");
        assert_eq!(admission.withdraw(a), Some(vec![]));
        assert_eq!(admission.give_back(100), [Grant { reach: "b", bytes: 50 }]);
        assert_eq!((admission.free(), admission.waiting()), (50, 0));
    }

    #[test]
    fn giving_up_at_the_head_lets_smaller_ones_through_at_once() {
        let mut admission = full(100);
        assert!(admission.give_back(40).is_empty());
        let big = admission.enqueue(60, "big");
        admission.enqueue(40, "small");
        assert_eq!(admission.withdraw(big), Some(vec![Grant { reach: "small", bytes: 40 }]));
    }

    #[test]
    fn a_large_waiter_at_the_head_is_not_overtaken() {
        let mut admission = full(100);
        admission.enqueue(90, "large");
        assert!(admission.give_back(50).is_empty());
        assert_eq!(admission.take(10), Err(Shortage::Wait));
        assert_eq!(admission.give_back(50), [Grant { reach: "large", bytes: 90 }]);
    }

    #[test]
    fn one_return_serves_several_in_order() {
        let mut admission = full(100);
        for name in ["a", "b", "c"] {
            admission.enqueue(40, name);
        }
        let served: Vec<_> = admission.give_back(100).into_iter().map(|grant| grant.reach).collect();
        assert_eq!(served, ["a", "b"]);
        assert_eq!(admission.waiting(), 1);
    }

    #[test]
    fn more_than_there_is_fails_at_once() {
        let mut admission = Admission::<()>::new(100);
        assert_eq!(admission.take(101), Err(Shortage::TooLarge { limit: 100 }));
        assert_eq!(admission.free(), 100);
    }

    #[test]
    fn closing_sends_waiters_away_and_takes_bytes_back() {
        let mut admission = full(100);
        let a = admission.enqueue(10, "a");
        assert_eq!(admission.close(), ["a"]);
        assert_eq!(admission.withdraw(a), None);
        assert_eq!(admission.take(1), Err(Shortage::Closed));
        assert!(admission.give_back(100).is_empty());
        assert_eq!(admission.free(), 100);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Ask(usize),
        GiveBack(prop::sample::Index),
        Withdraw(prop::sample::Index),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0..=110usize).prop_map(Op::Ask),
            2 => any::<prop::sample::Index>().prop_map(Op::GiveBack),
            1 => any::<prop::sample::Index>().prop_map(Op::Withdraw),
        ]
    }

    const TOTAL: usize = 100;

    /// The same rules, written as plainly as possible.
    #[derive(Default)]
    struct Naive {
        has: Vec<(usize, usize)>,
        line: Vec<(usize, usize)>,
    }

    impl Naive {
        fn free(&self) -> usize {
            TOTAL - self.has.iter().map(|(_, bytes)| bytes).sum::<usize>()
        }

        fn serve(&mut self) -> Vec<usize> {
            let mut served = Vec::new();
            while !self.line.is_empty() && self.line[0].1 <= self.free() {
                let first = self.line.remove(0);
                self.has.push(first);
                served.push(first.0);
            }
            served
        }
    }

    fn names(grants: Vec<Grant<usize>>) -> Vec<usize> {
        grants.into_iter().map(|grant| grant.reach).collect()
    }

    proptest! {
        #[test]
        fn any_history_matches_the_naive_rules_and_returns_everything(
            ops in prop::collection::vec(op(), 0..120),
        ) {
            let mut admission = Admission::new(TOTAL);
            let mut naive = Naive::default();
            let mut ids = std::collections::BTreeMap::new();
            for (name, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Ask(bytes) => match admission.take(bytes) {
                        Ok(()) => {
                            prop_assert!(naive.line.is_empty() && bytes <= naive.free());
                            naive.has.push((name, bytes));
                        }
                        Err(Shortage::TooLarge { .. }) => prop_assert!(bytes > TOTAL),
                        Err(Shortage::Wait) => {
                            prop_assert!(!naive.line.is_empty() || bytes > naive.free());
                            ids.insert(name, admission.enqueue(bytes, name));
                            naive.line.push((name, bytes));
                        }
                        Err(Shortage::Closed) => prop_assert!(false, "nobody closed it"),
                    },
                    Op::GiveBack(index) if !naive.has.is_empty() => {
                        let (_, bytes) = naive.has.remove(index.index(naive.has.len()));
                        prop_assert_eq!(names(admission.give_back(bytes)), naive.serve());
                    }
                    Op::Withdraw(index) if !ids.is_empty() => {
                        let (name, id) = ids.iter().nth(index.index(ids.len())).map(|(n, i)| (*n, *i)).unwrap();
                        let waits = naive.line.iter().any(|(waiter, _)| *waiter == name);
                        naive.line.retain(|(waiter, _)| *waiter != name);
                        let expected = waits.then(|| naive.serve());
                        prop_assert_eq!(admission.withdraw(id).map(names), expected);
                    }
                    Op::GiveBack(_) | Op::Withdraw(_) => {}
                }
                prop_assert_eq!(admission.free(), naive.free());
                prop_assert_eq!(admission.waiting(), naive.line.len());
            }
            while let Some((_, bytes)) = naive.has.pop() {
                prop_assert_eq!(names(admission.give_back(bytes)), naive.serve());
            }
            prop_assert_eq!((admission.free(), admission.waiting()), (TOTAL, 0));
        }
    }
}
