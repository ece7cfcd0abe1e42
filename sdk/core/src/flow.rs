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
/// closing is costly: a client that pauses a partition throws away what it fetched ahead.
#[derive(Debug, Clone, Copy, Default)]
pub struct Valve {
    closed: bool,
}

impl Valve {
    /// Takes in the present load; whether the valve is open now.
    pub fn update(&mut self, load: Load, high: Load) -> bool {
        if load.reaches(high) {
            self.closed = true;
        } else if load.within_half_of(high) {
            self.closed = false;
        }
        !self.closed
    }
}

/// How many messages of about `typical_bytes` may be taken at once, at most `max`, so that `load` ends near `high`.
/// At least 1, so that one message larger than the limit still gets through.
pub fn room(load: Load, high: Load, typical_bytes: usize, max: usize) -> usize {
    let by_count = high.messages.saturating_sub(load.messages);
    let by_bytes = high.bytes.saturating_sub(load.bytes) / typical_bytes.max(1);
    by_count.min(by_bytes).clamp(1, max.max(1))
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
    fn room_shrinks_with_large_messages_but_never_to_nothing() {
        assert_eq!(room(load(0, 0), HIGH, 1, 500), 10);
        assert_eq!(room(load(0, 0), HIGH, 400, 500), 2);
        assert_eq!(room(load(0, 0), HIGH, 1, 3), 3);
        assert_eq!(room(load(10, 2000), HIGH, 400, 500), 1);
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
    }
}
