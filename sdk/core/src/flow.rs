//! Back-pressure marks: when a partition stops being fetched, and when it goes on.

/// An amount of messages held in memory, or a limit on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of messages.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Load {
    /// This limit divided among `parts`; each gets at least one message and one byte.
    #[must_use]
    pub fn share(self, parts: usize) -> Self {
        let parts = parts.max(1);
        Self { messages: (self.messages / parts).max(1), bytes: (self.bytes / parts).max(1) }
    }

    fn reaches(self, limit: Self) -> bool {
        self.messages >= limit.messages || self.bytes >= limit.bytes
    }

    fn within_half_of(self, limit: Self) -> bool {
        self.messages <= limit.messages / 2 && self.bytes <= limit.bytes / 2
    }
}

/// Closes when the load reaches the high mark and opens when it has fallen to half of it. The gap is wide because
/// closing may be costly: an engine may throw away what it fetched ahead of a paused partition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Valve {
    closed: bool,
}

impl Valve {
    /// Takes in the present load; whether the valve is open now.
    pub fn update(&mut self, load: Load, high: Load) -> bool {
        self.turn(load.reaches(high), load.within_half_of(high))
    }

    /// As [`update`](Self::update), by a count with a high mark of its own.
    pub fn update_count(&mut self, count: usize, high: usize) -> bool {
        self.turn(count >= high, count <= high / 2)
    }

    fn turn(&mut self, close: bool, open: bool) -> bool {
        self.closed = close || (self.closed && !open);
        !self.closed
    }
}

/// The part of a total limit that each of several partitions may use.
///
/// A third of a partition's share is kept for the batch that arrives before a pause takes hold, so that all partitions
/// together stay within the total, and one that is stuck leaves the shares of the others alone.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    total: Load,
    share: Load,
}

impl Marks {
    /// Divides `total` among `partitions`.
    pub fn new(total: Load, partitions: usize) -> Self {
        Self { total, share: total.share(partitions) }
    }

    /// The load at which a partition is paused.
    pub fn high(&self) -> Load {
        Load { messages: (self.share.messages * 2 / 3).max(1), bytes: (self.share.bytes / 3 * 2).max(1) }
    }

    /// How far a partition's work may be ahead of its position, in messages, before it is paused: those done above an
    /// unfinished one count too. `most`, or less where many partitions share the total.
    ///
    /// One that is done leaves its payload behind but not its place in the books, so that a message which is never
    /// finished would let them grow for ever. Ten times a partition's share is allowed, as a place is small beside a
    /// message. May be exceeded by one batch.
    pub fn ahead(&self, most: usize) -> usize {
        self.share.messages.saturating_mul(10).min(most).max(1)
    }

    /// How many messages of about `typical_bytes` may be fetched at once, at most `max`, while `load` is in memory.
    /// At least 1, so that one message larger than the limit still gets through.
    pub fn batch(&self, load: Load, typical_bytes: usize, max: usize) -> usize {
        let messages = self.total.messages.saturating_sub(load.messages).min(self.share.messages / 3);
        let bytes = self.total.bytes.saturating_sub(load.bytes).min(self.share.bytes / 3);
        messages.min(bytes / typical_bytes.max(1)).clamp(1, max.max(1))
    }

    /// Whether the total leaves room for more.
    pub fn has_room(&self, load: Load) -> bool {
        !load.reaches(self.total)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HIGH: Load = Load { messages: 10, bytes: 1000 };

    fn load(messages: usize, bytes: usize) -> Load {
        Load { messages, bytes }
    }

    #[test]
    fn either_measure_closes_and_both_must_fall_to_open() {
        let mut valve = Valve::default();
        assert!(valve.update(load(9, 999), HIGH));
        assert!(!valve.update(load(1, 1000), HIGH));
        assert!(!valve.update(load(6, 0), HIGH), "stays closed between the marks");
        assert!(valve.update(load(5, 500), HIGH));
        assert!(!valve.update(load(10, 0), HIGH));
    }

    #[test]
    fn a_limit_of_one_message_opens_when_empty() {
        let mut valve = Valve::default();
        let one = load(1, 1);
        assert!(!valve.update(load(1, 50), one));
        assert!(valve.update(load(0, 0), one));
    }

    #[test]
    fn batches_shrink_with_large_messages_but_never_to_nothing() {
        let marks = Marks::new(load(90, 9000), 3);
        assert_eq!(marks.batch(load(0, 0), 1, 500), 10);
        assert_eq!(marks.batch(load(0, 0), 500, 500), 2);
        assert_eq!(marks.batch(load(0, 0), 1, 3), 3);
        assert_eq!(marks.batch(load(89, 0), 1, 500), 1);
        assert_eq!(marks.batch(load(900, 90_000), 500, 500), 1);
    }

    #[test]
    fn work_may_be_ahead_by_ten_shares_and_never_by_more_than_the_most() {
        assert_eq!(Marks::new(load(1000, 1), 10).ahead(20_000), 1000);
        assert_eq!(Marks::new(load(50_000, 1), 1).ahead(20_000), 20_000);
        assert_eq!(Marks::new(load(1, 1), 10).ahead(0), 1);
    }

    #[test]
    fn a_count_has_marks_of_the_same_width() {
        let mut valve = Valve::default();
        let states = [9, 10, 6, 5, 9].map(|count| valve.update_count(count, 10));
        assert_eq!(states, [true, false, false, true, true]);
    }

    proptest! {
        #[test]
        fn shares_never_add_up_to_more_than_the_whole(messages in 1_usize..100_000, parts in 1_usize..500) {
            let whole = load(messages.max(parts), usize::MAX);
            prop_assert!(whole.share(parts).messages * parts <= whole.messages);
        }

        #[test]
        fn an_empty_partition_always_flows(loads in proptest::collection::vec((0_usize..30, 0_usize..3000), 0..50)) {
            let mut valve = Valve::default();
            for (messages, bytes) in loads {
                valve.update(load(messages, bytes), HIGH);
            }
            prop_assert!(valve.update(Load::default(), HIGH));
        }

        /// Partitions are fetched in batches of random mixture and never handled: the worst case.
        #[test]
        fn stuck_partitions_stay_within_the_total(total in 30_usize..5000, parts in 1_usize..10, picks in proptest::collection::vec(0_usize..10, 0..300)) {
            let total = load(total, usize::MAX);
            let marks = Marks::new(total, parts);
            let mut held = vec![0; parts];
            let mut valves = vec![Valve::default(); parts];
            for pick in picks {
                let part = pick % parts;
                if valves[part].update(load(held[part], 0), marks.high()) {
                    held[part] += marks.batch(load(held.iter().sum(), 0), 1, 500);
                }
                prop_assert!(held[part] <= total.share(parts).messages);
            }
            prop_assert!(held.iter().sum::<usize>() <= total.messages);
        }
    }
}
