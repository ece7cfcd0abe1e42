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
    /// Decides by the committed position and the log. A position outside the log would make the client choose by
    /// itself, and leap to the end in the worst case.
    pub(super) fn choose(self, committed: Option<i64>, log: LogRange) -> Begin {
        let offset = match (committed, self.consume_from) {
            (Some(offset), _) => offset.clamp(log.low, log.high.max(log.low)),
            (None, ConsumeFrom::Latest) if !self.moved => log.high,
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
        let (logs, failure) =
            log_ranges(control, partitions, until.saturating_duration_since(Instant::now()));
        let begin = |(partition, log)| (partition, self.choose(committed.get(&partition).copied(), log));
        (logs.into_iter().map(begin).collect(), failure)
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
            let begin = rule(ConsumeFrom::Latest, true).choose(Some(offset), LOG);
            assert_eq!(begin, Begin { offset, committed: Some(offset) });
        }
    }

    #[test]
    fn a_position_outside_the_log_goes_to_its_nearest_end_and_is_committed_anew() {
        let rule = rule(ConsumeFrom::Latest, false);
        assert_eq!(rule.choose(Some(5000), LOG), Begin { offset: 100, committed: None });
        assert_eq!(rule.choose(Some(3), LOG), Begin { offset: 10, committed: None });
    }

    #[test]
    fn without_a_position_the_rule_decides() {
        let start = |from, moved| rule(from, moved).choose(None, LOG);
        assert_eq!(start(ConsumeFrom::Earliest, false), Begin { offset: 10, committed: None });
        assert_eq!(start(ConsumeFrom::Latest, false), Begin { offset: 100, committed: None });
        assert_eq!(start(ConsumeFrom::Latest, true), Begin { offset: 10, committed: None });
    }
}
