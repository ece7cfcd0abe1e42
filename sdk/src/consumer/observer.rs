//! How far a whole group is on a cluster, seen from outside the group.

use std::sync::Arc;
use std::time::Duration;

use zms_core::{
    name::{GroupName, TopicName},
    route::GroupRoute,
};

use super::switch::Reading;
use crate::engine::port::{ClusterAdmin, Engine, EngineError, FailureKind};

/// Asks about a group's positions and its topic's ends, on connections of its own: on those of a member a question
/// waits behind a fetch or, while the group is being rebalanced, behind the join that the broker holds open. That wait
/// would look like a cluster that does not answer.
#[derive(Debug)]
pub(super) struct Observer {
    admin: Arc<dyn ClusterAdmin>,
    group: GroupName,
    topic: TopicName,
}

impl Observer {
    pub(super) fn open(engine: &dyn Engine, route: &GroupRoute) -> Result<Self, EngineError> {
        let admin = engine
            .open_admin(&route.cluster)
            .map_err(|error| EngineError { kind: FailureKind::Other, reason: error.to_string() })?;
        Ok(Self { admin, group: route.group.clone(), topic: route.topic.clone() })
    }

    /// Blocking: one look, each question for `limit` at most. Ends are left out as long as a partition does not tell
    /// its own.
    pub(super) fn look(&self, limit: Duration) -> Result<Reading, EngineError> {
        let partitions = self.admin.topic(&self.topic, limit)?.map_or(0, |info| info.partitions);
        let committed = self.admin.committed(&self.group, &self.topic, limit)?;
        let mut reading = Reading { partitions, ..Reading::default() };
        reading.positions.extend(committed.into_iter().map(|position| (position.partition, position.offset)));
        let logs = self.admin.log_ranges(&self.topic, limit).unwrap_or_default();
        for (partition, log) in (0..partitions).zip(logs) {
            reading.ends.insert(partition, log.high);
            if log.low == log.high {
                reading.positions.entry(partition).or_insert(log.high);
            }
        }
        Ok(reading)
    }
}
