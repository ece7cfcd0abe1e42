//! Where reading of an assigned partition starts.

use std::{collections::BTreeMap, time::Duration, time::Instant};

use zms_core::route::ConsumeFrom;

use super::logs::log_ranges;
use crate::engine::port::{ConsumerControl, EngineError, LogRange};

/// Where a group begins that has no committed position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) consume_from: ConsumeFrom,
    /// This member comes from another cluster: what is on this one it has not seen, whatever `consume_from` says.
    pub(super) moved: bool,
}

/// Where one partition starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) offset: i64,
    /// What the group has committed there; `None` when that has to be put right.
    pub(super) committed: Option<i64>,
}

impl Rule {
    /// Decides by the committed position, the log, and the offset that the time to begin at has there, if it has one. A
    /// position outside the log would make the client choose by itself, and leap to the end in the worst case.
    pub(super) fn choose(self, committed: Option<i64>, log: LogRange, timed: Option<i64>) -> Begin {
        let offset = match (committed, self.consume_from) {
            (Some(offset), _) => offset.clamp(log.low, log.high.max(log.low)),
            (None, ConsumeFrom::Latest) if !self.moved => log.high,
            // The log may have grown since its end was told.
            (None, ConsumeFrom::Timestamp(_)) if !self.moved => {
                timed.map_or(log.high, |offset| offset.max(log.low))
            }
            (None, _) => log.low,
        };
        Begin { offset, committed: committed.filter(|committed| *committed == offset) }
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
        let committed: BTreeMap<i32, i64> = match control.committed(partitions, limit) {
            Ok(positions) => positions.into_iter().map(|p| (p.partition, p.offset)).collect(),
            Err(error) => return (BTreeMap::new(), Some(error)),
        };
        let left = || until.saturating_duration_since(Instant::now());
        let (mut logs, mut failure) = log_ranges(control, partitions, left());
        let times = self.times(control, &committed, &logs, left()).unwrap_or_else(|error| {
            logs.retain(|partition, _| committed.contains_key(partition));
            failure = Some(error);
            BTreeMap::new()
        });
        let mut begins = BTreeMap::new();
        for (partition, log) in logs {
            let committed = committed.get(&partition).copied();
            let timed = times.get(&partition).copied();
            // One that did not answer for the time is asked again.
            if let Some(timed) = timed.or_else(|| (!self.asks_for_times(committed)).then_some(None)) {
                begins.insert(partition, self.choose(committed, log, timed));
            }
        }
        (begins, failure)
    }

    fn asks_for_times(self, committed: Option<i64>) -> bool {
        committed.is_none() && !self.moved && matches!(self.consume_from, ConsumeFrom::Timestamp(_))
    }

    /// The offsets of the time to begin at, of the partitions that need them; after the ends of their logs are known, so
    /// that nothing in between is skipped.
    fn times(
        self,
        control: &dyn ConsumerControl,
        committed: &BTreeMap<i32, i64>,
        logs: &BTreeMap<i32, LogRange>,
        limit: Duration,
    ) -> Result<BTreeMap<i32, Option<i64>>, EngineError> {
        let ConsumeFrom::Timestamp(millis) = self.consume_from else { return Ok(BTreeMap::new()) };
        let needed = |partition: &i32| self.asks_for_times(committed.get(partition).copied());
        let partitions: Vec<i32> = logs.keys().copied().filter(needed).collect();
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(control.offsets_for_times(&partitions, millis, limit)?.into_iter().collect())
    }
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
            let begin = rule(ConsumeFrom::Latest, true).choose(Some(offset), LOG, None);
            assert_eq!(begin, Begin { offset, committed: Some(offset) });
        }
    }

    #[test]
    fn a_position_outside_the_log_goes_to_its_nearest_end_and_is_committed_anew() {
        let rule = rule(ConsumeFrom::Latest, false);
        assert_eq!(rule.choose(Some(5000), LOG, None), Begin { offset: 100, committed: None });
        assert_eq!(rule.choose(Some(3), LOG, None), Begin { offset: 10, committed: None });
    }

    #[test]
    fn without_a_position_the_rule_decides() {
        let start = |from, moved| rule(from, moved).choose(None, LOG, None);
        assert_eq!(start(ConsumeFrom::Earliest, false), Begin { offset: 10, committed: None });
        assert_eq!(start(ConsumeFrom::Latest, false), Begin { offset: 100, committed: None });
        assert_eq!(start(ConsumeFrom::Latest, true), Begin { offset: 10, committed: None });
    }

    #[test]
    fn a_time_is_a_start_only_where_there_is_no_position() {
        let start = |committed, moved, timed| {
            rule(ConsumeFrom::Timestamp(7), moved).choose(committed, LOG, timed).offset
        };
        assert_eq!(start(None, false, Some(50)), 50);
        assert_eq!(start(None, false, Some(3)), 10, "deleted since");
        assert_eq!(start(None, false, Some(120)), 120, "sent since");
        assert_eq!(start(None, false, None), 100, "nothing is that young");
        assert_eq!(start(None, true, Some(50)), 10);
        assert_eq!(start(Some(20), false, Some(50)), 20);
    }
}
