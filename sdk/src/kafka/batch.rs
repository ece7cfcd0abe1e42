//! One poll's worth of records.

use std::time::Duration;

use crate::engine::port::{EngineError, Record};

/// Gathers what is there. An error that comes after records waits for the next call, so that it never takes them with
/// it.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pending: Option<EngineError>,
}

impl Batch {
    /// Waits up to `limit` for a first record, and for no further one. `next` waits as long as it is told; what it
    /// gives is taken, so at least one record is, whatever `max` says.
    pub(super) fn gather(
        &mut self,
        limit: Duration,
        max: usize,
        into: &mut Vec<Record>,
        mut next: impl FnMut(Duration) -> Option<Result<Record, EngineError>>,
    ) -> Result<(), EngineError> {
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        let Some(first) = next(limit) else { return Ok(()) };
        into.push(first?);
        for _ in 1..max {
            match next(Duration::ZERO) {
                Some(Ok(record)) => into.push(record),
                Some(Err(error)) => {
                    self.pending = Some(error);
                    break;
                }
                None => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::engine::port::FailureKind;

    const LIMIT: Duration = Duration::from_secs(1);

    fn record(offset: i64) -> Record {
        Record { partition: 0, offset, payload: None, key: None, headers: Vec::new(), timestamp_ms: None }
    }

    fn error() -> EngineError {
        EngineError { kind: FailureKind::Unreachable, reason: "gone".to_owned() }
    }

    /// Offsets taken by each call, and whether it failed.
    fn calls(script: Vec<Result<i64, ()>>, max: usize) -> Vec<(Vec<i64>, bool)> {
        let mut script: VecDeque<_> = script.into();
        let mut batch = Batch::default();
        let mut calls = Vec::new();
        while !script.is_empty() || batch.pending.is_some() {
            let mut into = Vec::new();
            let next = |_| script.pop_front().map(|it| it.map(record).map_err(|()| error()));
            let failed = batch.gather(LIMIT, max, &mut into, next).is_err();
            calls.push((into.iter().map(|record| record.offset).collect(), failed));
        }
        calls
    }

    #[test]
    fn an_error_comes_after_the_records_before_it_and_alone() {
        assert_eq!(
            calls(vec![Ok(1), Ok(2), Err(()), Err(()), Ok(3)], 10),
            [(vec![1, 2], false), (vec![], true), (vec![], true), (vec![3], false)]
        );
    }

    #[test]
    fn no_more_than_asked_for_is_taken_but_always_one() {
        assert_eq!(calls(vec![Ok(1), Ok(2), Ok(3)], 2), [(vec![1, 2], false), (vec![3], false)]);
        assert_eq!(calls(vec![Ok(1), Ok(2)], 0), [(vec![1], false), (vec![2], false)]);
    }

    #[test]
    fn only_the_first_record_is_waited_for() {
        let mut waits = Vec::new();
        let next = |wait| {
            waits.push(wait);
            (waits.len() < 3).then(|| Ok(record(0)))
        };
        Batch::default().gather(LIMIT, 10, &mut Vec::new(), next).unwrap();
        assert_eq!(waits, [LIMIT, Duration::ZERO, Duration::ZERO]);
    }
}
