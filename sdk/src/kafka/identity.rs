//! Whether a cluster is the one that the registry means: an address may belong to another cluster by now.

use std::time::Duration;

use zms_core::route::ClusterSpec;

use super::admin::KafkaAdmin;
use crate::engine::port::{ClusterAdmin, OpenError};

/// How long a cluster is asked who it is.
const LIMIT: Duration = Duration::from_secs(3);

/// Refuses a cluster whose id is not the one stated. A cluster that does not answer passes: nothing can be sent to it
/// or read from it either, and an outage must not look like a wrong address.
pub(super) fn check(cluster: &ClusterSpec) -> Result<(), OpenError> {
    let Some(stated) = &cluster.kafka_id else { return Ok(()) };
    match KafkaAdmin::open(cluster)?.cluster_id(LIMIT) {
        Ok(found) if found == *stated => Ok(()),
        Ok(found) => {
            Err(OpenError::OtherCluster { cluster: cluster.name.to_string(), stated: stated.clone(), found })
        }
        Err(error) => {
            tracing::warn!(cluster = %cluster.name, %error, "the cluster does not say whether it is the one stated");
            Ok(())
        }
    }
}
