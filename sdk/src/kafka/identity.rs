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

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use zms_core::{
        name::{ClusterName, GroupName, TopicName},
        route::ChangeId,
    };

    use super::*;
    use crate::{
        engine::port::{AssignmentListener, ConsumerControl, ConsumerSpec, Engine, ProducerSpec, Start},
        kafka::KafkaEngine,
        testing::MockCluster,
    };

    struct Nobody;

    impl AssignmentListener for Nobody {
        fn assigned(&self, _: &dyn ConsumerControl, _: &[i32]) -> Vec<(i32, Start)> {
            Vec::new()
        }
        fn revoked(&self, _: &dyn ConsumerControl, _: &[i32], _: bool) {}
    }

    fn spec(kafka_id: Option<String>, at: &MockCluster) -> Arc<ClusterSpec> {
        Arc::new(ClusterSpec {
            name: ClusterName::new("a").unwrap(),
            bootstrap: at.bootstrap().to_owned(),
            kafka_id,
            properties: BTreeMap::new(),
            changed: ChangeId(1),
        })
    }

    fn producer(cluster: Arc<ClusterSpec>) -> Result<(), OpenError> {
        let spec = ProducerSpec { cluster, client_id: "t".to_owned(), properties: Vec::new() };
        KafkaEngine::new().open_producer(&spec).map(|_| ())
    }

    fn consumer(cluster: Arc<ClusterSpec>) -> Result<(), OpenError> {
        let (group, topic) = (GroupName::new("g").unwrap(), TopicName::new("t").unwrap());
        let spec = ConsumerSpec { cluster, client_id: "t".to_owned(), group, topic, properties: Vec::new() };
        KafkaEngine::new().open_consumer(&spec, Arc::new(Nobody)).map(|_| ())
    }

    #[test]
    fn an_address_that_leads_to_another_cluster_is_refused() {
        let (a, b) = (MockCluster::start(1).unwrap(), MockCluster::start(1).unwrap());
        let id = KafkaAdmin::open(&spec(None, &a)).unwrap().cluster_id(Duration::from_secs(30)).unwrap();
        for open in [producer, consumer] {
            open(spec(Some(id.clone()), &a)).unwrap();
            let refused = open(spec(Some(id.clone()), &b)).unwrap_err();
            assert!(matches!(&refused, OpenError::OtherCluster { stated, .. } if *stated == id), "{refused}");
        }
    }

    #[test]
    fn a_cluster_that_does_not_answer_is_not_taken_for_another_one() {
        let a = MockCluster::start(1).unwrap();
        a.all_brokers_down().unwrap();
        producer(spec(Some("some-id".to_owned()), &a)).unwrap();
    }
}
