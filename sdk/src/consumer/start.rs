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
    /// Decides by the committed position and the log. A position outside the log would make the client choose by
    /// itself, and leap to the end in the worst case.
    pub(super) fn choose(self, committed: Option<&Position>, log: LogRange) -> Begin {
        let offset = match (committed, self.consume_from) {
            (Some(position), _) => position.offset.clamp(log.low, log.high.max(log.low)),
            (None, ConsumeFrom::Latest) if !self.moved => log.high,
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
        let (logs, failure) =
            log_ranges(control, partitions, until.saturating_duration_since(Instant::now()));
        let begin = |(partition, log)| (partition, self.choose(committed.get(&partition), log));
        (logs.into_iter().map(begin).collect(), failure)
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
            let begin = rule(ConsumeFrom::Latest, true).choose(Some(&at(offset)), LOG);
            assert_eq!(begin, Begin { committed: Some(offset), ..Begin::anew(offset) });
        }
    }

    #[test]
    fn a_position_outside_the_log_goes_to_its_nearest_end_and_is_committed_anew() {
        let rule = rule(ConsumeFrom::Latest, false);
        assert_eq!(rule.choose(Some(&at(5000)), LOG), Begin::anew(100));
        assert_eq!(rule.choose(Some(&at(3)), LOG), Begin::anew(10));
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
        assert_eq!(rule.choose(Some(&told(60, &done)), LOG).done, done);
        let elsewhere = Position { offset: 61, ..told(60, &done) };
        assert_eq!(rule.choose(Some(&elsewhere), LOG).done, DoneSet::default());
        let before_the_log = [12].into_iter().collect();
        assert_eq!(rule.choose(Some(&told(3, &before_the_log)), LOG), Begin::anew(10));
    }

    #[test]
    fn a_log_that_lost_its_end_has_nothing_done_above_the_position() {
        let done: DoneSet = [62, 100].into_iter().collect();
        let begin = rule(ConsumeFrom::Earliest, false).choose(Some(&told(60, &done)), LOG);
        assert_eq!(begin, Begin { committed: Some(60), ..Begin::anew(60) });
    }

    #[test]
    fn without_a_position_the_rule_decides() {
        let start = |from, moved| rule(from, moved).choose(None, LOG);
        assert_eq!(start(ConsumeFrom::Earliest, false), Begin::anew(10));
        assert_eq!(start(ConsumeFrom::Latest, false), Begin::anew(100));
        assert_eq!(start(ConsumeFrom::Latest, true), Begin::anew(10));
    }
}
