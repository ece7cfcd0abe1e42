//! Asking for the logs of many partitions, of which some may not answer.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::engine::port::{ConsumerControl, EngineError, LogRange};

/// One partition without a leader must not use up the time of all others.
const ONE_LIMIT: Duration = Duration::from_secs(2);

/// The logs of `partitions`, for about `limit` at most. Those that do not answer are left out; the last error tells
/// why.
///
/// All at once first: on a connection that also fetches, each question may wait behind a fetch that the broker holds
/// open. If that fails, one by one, so that those with a leader still get their answer.
pub(super) fn log_ranges(
    control: &dyn ConsumerControl,
    partitions: &[i32],
    limit: Duration,
) -> (BTreeMap<i32, LogRange>, Option<EngineError>) {
    let until = Instant::now() + limit;
    let mut found = BTreeMap::new();
    if let Ok(all) = control.log_ranges(partitions, ONE_LIMIT.min(limit)) {
        found.extend(all);
    }
    let mut failure = None;
    for &partition in partitions {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        if found.contains_key(&partition) {
            continue;
        }
        match control.log_ranges(&[partition], left.min(ONE_LIMIT)) {
            Ok(one) => found.extend(one),
            Err(error) => failure = Some(error),
        }
    }
    (found, failure)
}
