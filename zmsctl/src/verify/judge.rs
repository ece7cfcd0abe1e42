//! Tells late messages from lost ones by asking the clusters how far the group is.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use zms_sdk::{ClusterName, GroupName, TopicName, admin::Admin, engine::port::ClusterAdmin};

use super::{Shared, VerifyArgs, tally::Passed};
use crate::{
    context::{ask, open_cluster},
    failure::Failure,
};

/// Asks about one topic and group.
pub(super) struct Judge<'a> {
    admin: &'a Admin,
    topic: TopicName,
    group: GroupName,
    limit: Duration,
    clients: BTreeMap<String, Arc<dyn ClusterAdmin>>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(admin: &'a Admin, args: &VerifyArgs, limit: Duration) -> Self {
        Self { admin, topic: args.topic.clone(), group: args.group.clone(), limit, clients: BTreeMap::new() }
    }

    /// Enters what is lost by now. A cluster that does not answer tells nothing: its messages stay late.
    pub(super) async fn judge(&mut self, shared: &Shared) {
        let waiting = shared.tally().waiting_on();
        for cluster in waiting {
            if let Ok(passed) = self.passed(&cluster).await {
                shared.tally().passed(&cluster, &passed);
            }
        }
    }

    async fn passed(&mut self, cluster: &str) -> Result<Passed, Failure> {
        let client = self.client(cluster).await?;
        let (group, topic, limit) = (self.group.clone(), self.topic.clone(), self.limit);
        ask(move || {
            let unanswered = |error: zms_sdk::engine::port::EngineError| Failure::NoAnswer(error.to_string());
            let committed = client.committed(&group, &topic, limit).map_err(unanswered)?;
            let mut passed: Passed = committed.into_iter().map(|at| (at.partition, at.offset)).collect();
            // What the log no longer holds nobody will be given.
            for (partition, log) in (0..).zip(client.log_ranges(&topic, limit).map_err(unanswered)?) {
                let passed = passed.entry(partition).or_insert(log.low);
                *passed = log.low.max(*passed);
            }
            Ok(passed)
        })
        .await
    }

    async fn client(&mut self, cluster: &str) -> Result<Arc<dyn ClusterAdmin>, Failure> {
        if let Some(client) = self.clients.get(cluster) {
            return Ok(Arc::clone(client));
        }
        let name = ClusterName::new(cluster).map_err(|error| Failure::Usage(error.to_string()))?;
        let client = open_cluster(&name, &self.admin.cluster(&name).await?)?;
        self.clients.insert(cluster.to_owned(), Arc::clone(&client));
        Ok(client)
    }
}
