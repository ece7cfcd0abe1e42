//! The cluster that is measured against: started for it, in processes of its own.

mod mock;

use zms_integration_tests::services::KafkaCluster;

use crate::Failure;

pub(crate) use mock::serve as serve_mock;

/// A running cluster. Ends with this value.
pub(crate) struct Cluster {
    servers: Servers,
    topics: u32,
}

enum Servers {
    Kafka(KafkaCluster),
    Mock(mock::MockProcess),
}

impl Cluster {
    /// Starts a real Kafka of one broker.
    pub(crate) fn start_kafka() -> Result<Self, Failure> {
        Ok(Self { servers: Servers::Kafka(KafkaCluster::start(1)?), topics: 0 })
    }

    /// Starts librdkafka's mock cluster.
    pub(crate) fn start_mock() -> Result<Self, Failure> {
        Ok(Self { servers: Servers::Mock(mock::MockProcess::start()?), topics: 0 })
    }

    pub(crate) fn bootstrap(&self) -> String {
        match &self.servers {
            Servers::Kafka(cluster) => cluster.bootstrap(),
            Servers::Mock(process) => process.bootstrap.clone(),
        }
    }

    /// Creates a topic that nobody used before; its name.
    pub(crate) fn create_topic(&mut self, work: &str, partitions: i32) -> Result<String, Failure> {
        self.topics += 1;
        let topic = format!("bench-{work}-{}", self.topics);
        match &mut self.servers {
            Servers::Kafka(cluster) => cluster.create_topic(&topic, partitions)?,
            Servers::Mock(process) => process.create_topic(&topic, partitions)?,
        }
        Ok(topic)
    }
}
