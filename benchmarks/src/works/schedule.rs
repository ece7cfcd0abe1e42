//! How near to the ideal these very messages can come, if handing over and waking cost nothing: the last handlers end
//! one after another, and the keys with most messages longer still.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    time::Duration,
};

use super::payload;

/// Which key is next when a worker is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The one whose next message has the lowest offset.
    LowestOffset,
    /// The one that waits longest.
    LongestWait,
}

/// The sum of all waits by `workers` and by the time that it takes, with all messages there from the beginning.
pub(crate) fn of_the_ideal(messages: u64, keys: u64, workers: u32, turn: Turn) -> f64 {
    let mut waiting: BTreeMap<u64, VecDeque<u64>> = BTreeMap::new();
    for number in 0..messages {
        waiting.entry(payload::key_of(number, keys)).or_default().push_back(number);
    }
    let mut ready: BinaryHeap<Reverse<(u64, u64)>> =
        waiting.iter().filter_map(|(key, numbers)| Some(Reverse((*numbers.front()?, *key)))).collect();
    let mut running: BinaryHeap<Reverse<(Duration, u64)>> = BinaryHeap::new();
    let (mut now, mut spent, mut turns) = (Duration::ZERO, Duration::ZERO, messages);
    loop {
        while running.len() < workers as usize {
            let Some(Reverse((_, key))) = ready.pop() else { break };
            let Some(number) = waiting.get_mut(&key).and_then(VecDeque::pop_front) else { break };
            let wait = payload::wait_of(number);
            spent += wait;
            running.push(Reverse((now + wait, key)));
        }
        let Some(Reverse((end, key))) = running.pop() else { break };
        now = end;
        if let Some(number) = waiting.get(&key).and_then(VecDeque::front) {
            turns += 1;
            let place = if turn == Turn::LowestOffset { *number } else { turns };
            ready.push(Reverse((place, key)));
        }
    }
    (spent / workers).as_secs_f64() / now.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_is_never_idle_and_one_key_needs_but_one_worker() {
        for turn in [Turn::LowestOffset, Turn::LongestWait] {
            assert!((of_the_ideal(100, 10, 1, turn) - 1.0).abs() < 1e-6);
            assert!((of_the_ideal(100, 1, 4, turn) - 0.25).abs() < 1e-6);
        }
    }

    #[test]
    fn keys_in_turns_leave_the_long_ones_to_the_end() {
        let (by_offset, in_turns) = (
            of_the_ideal(10_000, 1000, 64, Turn::LowestOffset),
            of_the_ideal(10_000, 1000, 64, Turn::LongestWait),
        );
        assert!(in_turns < by_offset && by_offset < 1.0, "{in_turns} {by_offset}");
    }
}
