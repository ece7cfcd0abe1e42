//! Sends that wait while a topic is held: first in, first out, each with its deadline.

use std::{collections::VecDeque, time::Instant};

/// The sends of one topic that wait, in the order of their arrival. Its memory is bounded by whoever admits them.
#[derive(Debug)]
pub struct HoldQueue<T> {
    waiting: VecDeque<Held<T>>,
    /// Whether deadlines rise along the queue: they do unless the limit changed meanwhile, and then only the front has
    /// to be looked at.
    rising: bool,
}

/// One send that waits.
#[derive(Debug, PartialEq, Eq)]
pub struct Held<T> {
    /// The send.
    pub item: T,
    /// When it ends as not sent.
    pub deadline: Instant,
}

impl<T> HoldQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self { waiting: VecDeque::new(), rising: true }
    }

    /// Queues a send behind all others.
    pub fn push(&mut self, item: T, deadline: Instant) {
        self.rising = match self.waiting.back() {
            Some(last) => self.rising && last.deadline <= deadline,
            None => true,
        };
        self.waiting.push_back(Held { item, deadline });
    }

    /// Puts a send back that [`pop`](Self::pop) gave and that could not be sent: it goes on being the first.
    pub fn put_back(&mut self, held: Held<T>) {
        self.rising = match self.waiting.front() {
            Some(first) => self.rising && held.deadline <= first.deadline,
            None => true,
        };
        self.waiting.push_front(held);
    }

    /// The send that waits longest.
    pub fn pop(&mut self) -> Option<Held<T>> {
        self.waiting.pop_front()
    }

    /// Takes out the sends whose deadline has come, in order.
    pub fn expire(&mut self, now: Instant) -> Vec<T> {
        let due = if self.rising {
            let count = self.waiting.partition_point(|held| held.deadline <= now);
            self.waiting.drain(..count).collect()
        } else {
            let (due, rest): (VecDeque<_>, _) =
                std::mem::take(&mut self.waiting).into_iter().partition(|held| held.deadline <= now);
            self.waiting = rest;
            due
        };
        due.into_iter().map(|held| held.item).collect()
    }

    /// Takes out all sends, in order.
    pub fn drain(&mut self) -> Vec<T> {
        self.waiting.drain(..).map(|held| held.item).collect()
    }

    /// When to call [`expire`](Self::expire) next. `None`: nobody waits.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.rising {
            self.waiting.front().map(|held| held.deadline)
        } else {
            self.waiting.iter().map(|held| held.deadline).min()
        }
    }

    /// Number of sends that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl<T> Default for HoldQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{sync::LazyLock, time::Duration};

    use proptest::prelude::*;

    use super::*;

    static START: LazyLock<Instant> = LazyLock::new(|| {
        #[expect(clippy::disallowed_methods, reason = "an origin for made-up times")]
        Instant::now()
    });

    fn at(ms: u64) -> Instant {
        *START + Duration::from_millis(ms)
    }

    #[test]
    fn sends_leave_in_the_order_of_their_arrival() {
        let mut queue = HoldQueue::new();
        for (n, deadline) in [(1, 30), (2, 10), (3, 20)] {
            queue.push(n, at(deadline));
        }
        let first = queue.pop().unwrap();
        assert_eq!(first.item, 1);
        queue.put_back(first);
        assert_eq!(queue.drain(), [1, 2, 3]);
        assert_eq!(queue.next_deadline(), None);
    }

    #[test]
    fn a_deadline_ends_its_own_send_only() {
        let mut queue = HoldQueue::new();
        for (n, deadline) in [(1, 30), (2, 10), (3, 20)] {
            queue.push(n, at(deadline));
        }
        assert_eq!(queue.next_deadline(), Some(at(10)));
        assert_eq!(queue.expire(at(9)), Vec::<i32>::new());
        assert_eq!(queue.expire(at(20)), [2, 3]);
        assert_eq!(queue.next_deadline(), Some(at(30)));
        assert_eq!(queue.len(), 1);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Push(u64),
        Pop,
        PutBack,
        Expire(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0..60u64).prop_map(Op::Push),
            1 => Just(Op::Pop),
            1 => Just(Op::PutBack),
            2 => (0..60u64).prop_map(Op::Expire),
        ]
    }

    proptest! {
        #[test]
        fn any_history_matches_a_plain_list(ops in prop::collection::vec(op(), 0..80)) {
            let mut queue = HoldQueue::new();
            let mut naive: Vec<(usize, u64)> = Vec::new();
            let mut out = None;
            for (n, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Push(deadline) => {
                        queue.push(n, at(deadline));
                        naive.push((n, deadline));
                    }
                    Op::Pop => {
                        let popped = queue.pop();
                        let expected = (!naive.is_empty()).then(|| naive.remove(0));
                        prop_assert_eq!(popped.as_ref().map(|held| held.item), expected.map(|(n, _)| n));
                        out = popped.zip(expected);
                    }
                    Op::PutBack => {
                        if let Some((held, entry)) = out.take() {
                            queue.put_back(held);
                            naive.insert(0, entry);
                        }
                    }
                    Op::Expire(now) => {
                        let due: Vec<_> =
                            naive.iter().filter(|(_, deadline)| *deadline <= now).map(|(n, _)| *n).collect();
                        naive.retain(|(_, deadline)| *deadline > now);
                        prop_assert_eq!(queue.expire(at(now)), due);
                    }
                }
                let earliest = naive.iter().map(|(_, deadline)| at(*deadline)).min();
                prop_assert_eq!(queue.next_deadline(), earliest);
                prop_assert_eq!(queue.len(), naive.len());
            }
        }
    }
}
