//! Carrying a seek out, on the poll thread.

use std::time::Duration;

use tracing::info;

use super::{
    control::{SeekError, SeekOrder, SeekTo},
    holdings::Holdings,
    logs::log_ranges,
    member::{Member, Wish},
    start::Begin,
};
use crate::engine::port::{ConsumerControl, EngineError, FailureKind, LogRange};

/// Limit on asking the broker where to go on.
const LIMIT: Duration = Duration::from_secs(2);

impl Member {
    /// Carries the order out and answers it.
    pub(super) fn obey(&mut self, order: SeekOrder, wish: Wish) {
        let SeekOrder { partition, to, answer } = order;
        let done = self.seek(partition, to, wish);
        // Whoever gave the order may have gone.
        let _ = answer.send(done);
    }

    fn seek(&mut self, partition: i32, to: SeekTo, wish: Wish) -> Result<i64, SeekError> {
        let group = || self.route.group.clone();
        let not_held = || SeekError::NotHeld { group: group(), partition };
        if !self.holdings.slots().contains_key(&partition) {
            return Err(not_held());
        }
        let offset = find(self.control(), partition, to).map_err(|error| SeekError::NoAnswer {
            group: group(),
            partition,
            reason: error.to_string(),
        })?;
        if !self.holdings.restart(partition, offset) {
            return Err(not_held());
        }
        info!(group = %self.route.group, cluster = %self.route.cluster.name, topic = %self.route.topic, partition, offset,
              "handling goes on elsewhere, as ordered");
        self.settle(wish);
        Ok(offset)
    }
}

/// The offset that is meant.
fn find(control: &dyn ConsumerControl, partition: i32, to: SeekTo) -> Result<i64, EngineError> {
    let silence = || EngineError { kind: FailureKind::Unreachable, reason: "no answer in time".to_owned() };
    let (logs, failure) = log_ranges(control, &[partition], LIMIT);
    let Some(&LogRange { low, high }) = logs.get(&partition) else {
        return Err(failure.unwrap_or_else(silence));
    };
    match to {
        SeekTo::Earliest => Ok(low),
        SeekTo::Latest => Ok(high),
        SeekTo::Offset(offset) => Ok(offset.clamp(low, high.max(low))),
        SeekTo::Timestamp(millis) => {
            let found = control.offsets_for_times(&[partition], millis, LIMIT)?;
            let (_, offset) = found.into_iter().find(|(found, _)| *found == partition).ok_or_else(silence)?;
            Ok(offset.map_or(high, |offset| offset.max(low)))
        }
    }
}

impl Holdings {
    /// Has a partition that is held begin anew at `offset`: its work so far counts no longer. Its position is committed
    /// with the next commit, whatever it was. Whether the partition is held.
    fn restart(&self, partition: i32, offset: i64) -> bool {
        let mut slots = self.slots();
        let Some(slot) = slots.get_mut(&partition) else { return false };
        if let Some(old) = slot.assignment.take() {
            old.stop();
            old.book().tracker.close();
        }
        slot.assignment = Some(self.open(partition, Begin::anew(offset)));
        slot.seek = true;
        self.mark_untidy();
        true
    }
}
