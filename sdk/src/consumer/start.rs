//! Where reading of an assigned partition starts.

use std::{collections::BTreeMap, time::Duration, time::Instant};

use zms_core::{
    progress::{DoneSet, Progress},
    route::ConsumeFrom,
};

use super::logs::log_ranges;
use crate::engine::port::{ConsumerControl, EngineError, LogRange, Position};

/// Where a group begins that has no committed position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) consume_from: ConsumeFrom,
    /// This member comes from another cluster: what is on this one it has not seen, whatever `consume_from` says.
    pub(super) moved: bool,
}

/// Where one partition starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) offset: i64,
    /// What the group has committed there; `None` when that has to be put right.
    pub(super) committed: Option<i64>,
    /// What is done above it.
    pub(super) done: DoneSet,
}

impl Begin {
    /// A start that was not committed before.
    pub(super) fn anew(offset: i64) -> Self {
        Self { offset, committed: None, done: DoneSet::default() }
    }
}

impl Rule {
    /// Decides by the committed position, the log, and the offset that the time to begin at has there, if it has one. A
    /// position outside the log would make the client choose by itself, and leap to the end in the worst case.
    pub(super) fn choose(self, committed: Option<&Position>, log: LogRange, timed: Option<i64>) -> Begin {
        let offset = match (committed, self.consume_from) {
            (Some(position), _) => position.offset.clamp(log.low, log.high.max(log.low)),
            (None, ConsumeFrom::Latest) if !self.moved => log.high,
            // The log may have grown since its end was told.
            (None, ConsumeFrom::Timestamp(_)) if !self.moved => {
                timed.map_or(log.high, |offset| offset.max(log.low))
            }
            (None, _) => log.low,
        };
        match committed.filter(|position| position.offset == offset) {
            Some(position) => Begin { offset, committed: Some(offset), done: done_above(position, log) },
            None => Begin::anew(offset),
        }
    }

    /// Asks the cluster about `partitions`, for about `limit` at most. Partitions that it does not answer for are left
    /// out; the last error tells why.
    pub(super) fn resolve(
        self,
        control: &dyn ConsumerControl,
        partitions: &[i32],
        limit: Duration,
    ) -> (BTreeMap<i32, Begin>, Option<EngineError>) {
        let until = Instant::now() + limit;
        let committed: BTreeMap<i32, Position> = match control.committed(partitions, limit) {
            Ok(positions) => positions.into_iter().map(|p| (p.partition, p)).collect(),
            Err(error) => return (BTreeMap::new(), Some(error)),
        };
        let left = || until.saturating_duration_since(Instant::now());
        let (logs, mut failure) = log_ranges(control, partitions, left());
        let new: Vec<i32> = logs.keys().copied().filter(|it| !committed.contains_key(it)).collect();
        // After the ends of the logs, so that what comes in between is not skipped.
        let times = self.times(control, &new, left()).unwrap_or_else(|error| {
            failure = Some(error);
            Some(BTreeMap::new())
        });
        let mut begins = BTreeMap::new();
        for (partition, log) in logs {
            let position = committed.get(&partition);
            let at_time = match &times {
                Some(times) if position.is_none() => times.get(&partition).copied(),
                _ => Some(None),
            };
            // One that does not tell is asked again.
            if let Some(at_time) = at_time {
                begins.insert(partition, self.choose(position, log, at_time));
            }
        }
        (begins, failure)
    }

    /// Of partitions without a position, the offsets of the time to begin at; `None` when no time is one.
    fn times(
        self,
        control: &dyn ConsumerControl,
        partitions: &[i32],
        limit: Duration,
    ) -> Result<Option<BTreeMap<i32, Option<i64>>>, EngineError> {
        match self.consume_from {
            ConsumeFrom::Timestamp(millis) if !self.moved && !partitions.is_empty() => {
                let found = control.offsets_for_times(partitions, millis, limit)?;
                Ok(Some(found.into_iter().collect()))
            }
            _ => Ok(None),
        }
    }
}

/// What the text of a position names as done. None of it when some of it is not in the log any more: then the log has
/// lost its end, and other messages have those offsets now.
fn done_above(position: &Position, log: LogRange) -> DoneSet {
    let progress = Progress::decode(position.offset, &position.metadata).unwrap_or_default();
    let whole = progress.done.end().is_none_or(|end| end <= log.high);
    if whole { progress.done } else { DoneSet::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogRange = LogRange { low: 10, high: 100 };

    fn rule(consume_from: ConsumeFrom, moved: bool) -> Rule {
        Rule { consume_from, moved }
    }

    #[test]
    fn a_committed_position_inside_the_log_stands() {
        for offset in [10, 60, 100] {
            let begin = rule(ConsumeFrom::Latest, true).choose(Some(&at(offset)), LOG, None);
            assert_eq!(begin, Begin { committed: Some(offset), ..Begin::anew(offset) });
        }
    }

    #[test]
    fn a_position_outside_the_log_goes_to_its_nearest_end_and_is_committed_anew() {
        let rule = rule(ConsumeFrom::Latest, false);
        assert_eq!(rule.choose(Some(&at(5000)), LOG, None), Begin::anew(100));
        assert_eq!(rule.choose(Some(&at(3)), LOG, None), Begin::anew(10));
    }

    fn at(offset: i64) -> Position {
        told(offset, &DoneSet::default())
    }

    fn told(offset: i64, done: &DoneSet) -> Position {
        let metadata = Progress { start: None, done: done.clone() }.encode(offset, 4000);
        Position { partition: 0, offset, metadata }
    }

    #[test]
    fn what_is_done_above_a_position_is_taken_over_with_it() {
        let rule = rule(ConsumeFrom::Earliest, false);
        let done: DoneSet = [62, 99].into_iter().collect();
        assert_eq!(rule.choose(Some(&told(60, &done)), LOG, None).done, done);
        let elsewhere = Position { offset: 61, ..told(60, &done) };
        assert_eq!(rule.choose(Some(&elsewhere), LOG, None).done, DoneSet::default());
        let before_the_log = [12].into_iter().collect();
        assert_eq!(rule.choose(Some(&told(3, &before_the_log)), LOG, None), Begin::anew(10));
    }

    #[test]
    fn a_log_that_lost_its_end_has_nothing_done_above_the_position() {
        let done: DoneSet = [62, 100].into_iter().collect();
        let begin = rule(ConsumeFrom::Earliest, false).choose(Some(&told(60, &done)), LOG, None);
        assert_eq!(begin, Begin { committed: Some(60), ..Begin::anew(60) });
    }

    #[test]
    fn without_a_position_the_rule_decides() {
        let start = |from, moved| rule(from, moved).choose(None, LOG, None);
        assert_eq!(start(ConsumeFrom::Earliest, false), Begin::anew(10));
        assert_eq!(start(ConsumeFrom::Latest, false), Begin::anew(100));
        assert_eq!(start(ConsumeFrom::Latest, true), Begin::anew(10));
    }

    #[test]
    fn a_time_is_a_start_only_where_there_is_no_position() {
        let start = |committed, moved, timed| {
            let committed: Option<i64> = committed;
            rule(ConsumeFrom::Timestamp(7), moved).choose(committed.map(at).as_ref(), LOG, timed).offset
        };
        assert_eq!(start(None, false, Some(50)), 50);
        assert_eq!(start(None, false, Some(3)), 10, "deleted since");
        assert_eq!(start(None, false, Some(120)), 120, "sent since");
        assert_eq!(start(None, false, None), 100, "nothing is that young");
        assert_eq!(start(None, true, Some(50)), 10);
        assert_eq!(start(Some(20), false, Some(50)), 20);
    }
}
