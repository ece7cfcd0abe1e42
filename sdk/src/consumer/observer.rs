//! How far a whole group is on a cluster, seen from outside the group; or one that reads alone, seen from here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use zms_core::{
    name::{GroupName, TopicName},
    route::GroupRoute,
};

use super::{
    holdings::Holdings,
    mode::{Mode, ModeOptions},
    switch::Reading,
};
use crate::engine::port::{ClusterAdmin, Engine, EngineError, FailureKind};

/// Asks about a group's positions and its topic's ends, on connections of its own: on those of a member a question
/// waits behind a fetch or, while the group is being rebalanced, behind the join that the broker holds open. That wait
/// would look like a cluster that does not answer.
#[derive(Debug)]
pub(super) struct Observer {
    admin: Arc<dyn ClusterAdmin>,
    topic: TopicName,
    whose: Whose,
}

/// Whose positions count.
#[derive(Debug)]
enum Whose {
    /// Those that the group has committed.
    Group(GroupName),
    /// Those of this member, on these partitions or on all.
    Own(Option<BTreeSet<i32>>),
}

impl Observer {
    pub(super) fn open(
        engine: &dyn Engine,
        route: &GroupRoute,
        options: &ModeOptions,
    ) -> Result<Self, EngineError> {
        let admin = engine
            .open_admin(&route.cluster)
            .map_err(|error| EngineError { kind: FailureKind::Other, reason: error.to_string() })?;
        let whose = match Mode::of(options, route) {
            Ok(Mode::Alone(alone)) => Whose::Own(alone.partitions),
            _ => Whose::Group(route.group.clone()),
        };
        Ok(Self { admin, topic: route.topic.clone(), whose })
    }

    /// Blocking: one look, each question for `limit` at most. Ends are left out as long as a partition does not tell
    /// its own.
    pub(super) fn look(&self, holdings: &Holdings, limit: Duration) -> Result<Reading, EngineError> {
        let partitions = self.admin.topic(&self.topic, limit)?.map_or(0, |info| info.partitions);
        let positions = match &self.whose {
            Whose::Group(group) => self.committed(group, limit)?,
            Whose::Own(_) => holdings.positions(),
        };
        let mut reading = Reading { partitions, positions, ..Reading::default() };
        let logs = self.admin.log_ranges(&self.topic, limit).unwrap_or_default();
        for (partition, log) in (0..partitions).zip(logs) {
            reading.ends.insert(partition, log.high);
            if log.low == log.high {
                reading.positions.entry(partition).or_insert(log.high);
            }
        }
        if let Whose::Own(Some(only)) = &self.whose {
            reading.restrict(only);
        }
        Ok(reading)
    }

    fn committed(&self, group: &GroupName, limit: Duration) -> Result<BTreeMap<i32, i64>, EngineError> {
        let committed = self.admin.committed(group, &self.topic, limit)?;
        Ok(committed.into_iter().map(|position| (position.partition, position.offset)).collect())
    }
}
