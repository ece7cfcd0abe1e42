//! Whether a cluster is the one that the registry means.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use zms_core::{
    name::{ClusterName, GroupName, TopicName},
    route::{ChangeId, ClusterSpec},
};

use crate::{
    engine::port::{
        AssignmentListener, ConsumerControl, ConsumerSpec, Engine, Membership, OpenError, ProducerSpec, Start,
    },
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
    let client_id = "t".to_owned();
    let membership = Membership::Group;
    let spec = ConsumerSpec { cluster, client_id, group, topic, membership, properties: Vec::new() };
    KafkaEngine::new().open_consumer(&spec, Arc::new(Nobody)).map(|_| ())
}

#[test]
fn an_address_that_leads_to_another_cluster_is_refused() {
    let (a, b) = (MockCluster::start(1).unwrap(), MockCluster::start(1).unwrap());
    let id =
        KafkaEngine::new().open_admin(&spec(None, &a)).unwrap().cluster_id(Duration::from_secs(30)).unwrap();
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
