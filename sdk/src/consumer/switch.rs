//! When a group may leave its old cluster for a new one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use crate::engine::port::EngineError;

/// Watches the old cluster after the route has changed. Every member watches the positions of the whole group there,
/// so that none starts on the new cluster while another still handles the old one.
///
/// [`observe`](Self::observe) takes each reading, [`hold`](Self::hold) tells that nothing can be expected now.
#[derive(Debug)]
pub(super) struct Departure {
    limits: DepartureLimits,
    /// Ends of the last complete reading.
    ends: Option<BTreeMap<i32, i64>>,
    handled: i64,
    left: Option<i64>,
    progress_at: Instant,
    answered_at: Instant,
}

/// When a departure stops waiting for the old cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct DepartureLimits {
    /// Without progress of the group.
    pub(super) stalled: Duration,
    /// Without an answer of the cluster.
    pub(super) unreachable: Duration,
}

/// The group on the old cluster, all partitions of the topic.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    pub(super) partitions: i32,
    /// Log ends, where the broker told.
    pub(super) ends: BTreeMap<i32, i64>,
    /// Committed positions; empty partitions without one count as handled.
    pub(super) positions: BTreeMap<i32, i64>,
}

/// Why a departure is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// Everything on the old cluster is handled.
    Drained,
    /// The group makes no progress there.
    Stalled {
        /// Messages left, where known.
        left: Option<i64>,
    },
    /// The cluster does not answer.
    Unreachable {
        /// Messages left when it last answered.
        left: Option<i64>,
    },
}

impl fmt::Display for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, left) = match self {
            Self::Drained => return f.write_str("everything there is handled"),
            Self::Stalled { left } => ("the group made no progress there", left),
            Self::Unreachable { left } => ("it does not answer", left),
        };
        match left {
            Some(left) => write!(f, "{what}; {left} messages are left"),
            None => write!(f, "{what}; how many messages are left is not known"),
        }
    }
}

impl Departure {
    pub(super) fn new(now: Instant, limits: DepartureLimits) -> Self {
        Self { limits, ends: None, handled: i64::MIN, left: None, progress_at: now, answered_at: now }
    }

    /// Takes in a reading made after the route changed; whether to leave.
    pub(super) fn observe(&mut self, now: Instant, reading: Result<Reading, EngineError>) -> Option<Leave> {
        let Ok(reading) = reading else {
            self.ends = None;
            let silent = now.duration_since(self.answered_at) >= self.limits.unreachable;
            return silent.then_some(Leave::Unreachable { left: self.left });
        };
        self.answered_at = now;
        let handled = reading.positions.values().sum();
        if handled > self.handled {
            self.handled = handled;
            self.progress_at = now;
        }
        self.left = reading.left();
        let ends = reading.is_complete().then_some(reading.ends);
        let still = ends.is_some() && ends == self.ends;
        self.ends = ends;
        if still && self.left == Some(0) {
            return Some(Leave::Drained);
        }
        let stalled = now.duration_since(self.progress_at) >= self.limits.stalled;
        stalled.then_some(Leave::Stalled { left: self.left })
    }

    /// No progress can be expected now, and its absence is no reason to leave.
    pub(super) fn hold(&mut self, now: Instant) {
        (self.progress_at, self.answered_at) = (now, now);
    }
}

impl Reading {
    /// Leaves out all but these partitions.
    pub(super) fn restrict(&mut self, only: &BTreeSet<i32>) {
        self.ends.retain(|partition, _| only.contains(partition));
        self.positions.retain(|partition, _| only.contains(partition));
        self.partitions = i32::try_from(only.len()).unwrap_or(i32::MAX);
    }

    fn is_complete(&self) -> bool {
        i64::try_from(self.ends.len()) == Ok(i64::from(self.partitions))
    }

    fn left(&self) -> Option<i64> {
        let left_in = |(partition, end): (&i32, &i64)| {
            let position = self.positions.get(partition).copied();
            // Without a position at least one message is left, however many there are.
            position.map_or((*end).max(1), |position| (end - position).max(0))
        };
        self.is_complete().then(|| self.ends.iter().map(left_in).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::port::FailureKind;

    const LIMITS: DepartureLimits =
        DepartureLimits { stalled: Duration::from_secs(60), unreachable: Duration::from_secs(10) };

    fn reading(ends: &[i64], positions: &[Option<i64>]) -> Reading {
        let keyed = |values: Vec<Option<i64>>| (0..).zip(values).filter_map(|(p, v)| Some((p, v?))).collect();
        Reading {
            partitions: i32::try_from(positions.len()).unwrap(),
            ends: keyed(ends.iter().copied().map(Some).collect()),
            positions: keyed(positions.to_vec()),
        }
    }

    fn silence() -> Result<Reading, EngineError> {
        Err(EngineError { kind: FailureKind::Unreachable, reason: "timed out".to_owned() })
    }

    struct Clock(Instant);

    impl Clock {
        fn after(&mut self, seconds: u64) -> Instant {
            self.0 += Duration::from_secs(seconds);
            self.0
        }
    }

    fn begin() -> (Departure, Clock) {
        let now = Instant::now();
        (Departure::new(now, LIMITS), Clock(now))
    }

    #[test]
    fn leaves_when_all_is_handled_and_the_ends_stand_still() {
        let (mut d, mut clock) = begin();
        assert_eq!(
            d.observe(clock.after(1), Ok(reading(&[5, 0], &[Some(5), Some(0)]))),
            None,
            "one reading only"
        );
        assert_eq!(
            d.observe(clock.after(1), Ok(reading(&[6, 0], &[Some(6), Some(0)]))),
            None,
            "an end moved"
        );
        assert_eq!(
            d.observe(clock.after(1), Ok(reading(&[6, 0], &[Some(6), Some(0)]))),
            Some(Leave::Drained)
        );
    }

    #[test]
    fn waits_for_partitions_that_others_hold() {
        let (mut d, mut clock) = begin();
        for _ in 0..5 {
            assert_eq!(d.observe(clock.after(1), Ok(reading(&[5, 9], &[Some(5), Some(8)]))), None);
        }
        assert_eq!(
            d.observe(clock.after(1), Ok(reading(&[5, 9], &[Some(5), None]))),
            None,
            "no position there yet"
        );
    }

    #[test]
    fn progress_keeps_it_there_however_long_it_takes() {
        let (mut d, mut clock) = begin();
        for position in 0..100 {
            assert_eq!(d.observe(clock.after(50), Ok(reading(&[1000], &[Some(position)]))), None);
        }
        assert_eq!(d.observe(clock.after(59), Ok(reading(&[1000], &[Some(99)]))), None);
        let stalled = d.observe(clock.after(1), Ok(reading(&[1000], &[Some(99)])));
        assert_eq!(stalled, Some(Leave::Stalled { left: Some(901) }));
    }

    #[test]
    fn an_unreachable_cluster_is_left_sooner_and_an_answer_counts() {
        let (mut d, mut clock) = begin();
        assert_eq!(d.observe(clock.after(9), silence()), None);
        assert_eq!(d.observe(clock.after(1), Ok(reading(&[7], &[Some(4)]))), None);
        assert_eq!(d.observe(clock.after(9), silence()), None);
        assert_eq!(d.observe(clock.after(1), silence()), Some(Leave::Unreachable { left: Some(3) }));
    }

    #[test]
    fn a_partition_that_does_not_answer_is_not_drained_and_not_unreachable() {
        let (mut d, mut clock) = begin();
        for _ in 0..3 {
            assert_eq!(d.observe(clock.after(15), Ok(reading(&[5], &[Some(5), Some(7)]))), None);
        }
        assert_eq!(
            d.observe(clock.after(30), Ok(reading(&[5], &[Some(5), Some(7)]))),
            Some(Leave::Stalled { left: None })
        );
    }

    #[test]
    fn a_suspended_group_does_not_leave_for_lack_of_progress() {
        let (mut d, mut clock) = begin();
        d.observe(clock.after(0), Ok(reading(&[5], &[Some(3)])));
        d.hold(clock.after(600));
        assert_eq!(d.observe(clock.after(59), Ok(reading(&[5], &[Some(3)]))), None);
    }
}
