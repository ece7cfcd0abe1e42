//! The Kafka adapter: librdkafka behind the engine port.
//!
//! It translates and decides nothing. A client's properties come from four layers, later ones winning: the SDK's
//! defaults (`partitioner=murmur2_random`, `partition.assignment.strategy=cooperative-sticky`), the cluster's
//! properties, the caller's, and what the SDK relies on and nobody may change: no topic is ever created by accident
//! (`allow.auto.create.topics=false`) and positions move only by explicit commits (`enable.auto.commit=false`,
//! `enable.auto.offset.store=false`). The values `${env:NAME}` and `${file:/path}` are resolved here, at the last
//! moment, and appear in no log, error or `Debug` text.

mod admin;
mod config;
mod consumer;
mod control;
mod error;
mod identity;
mod intake;
mod log_range;
mod logging;
mod members;
pub(crate) mod native;
mod producer;
mod record;
mod secret;
#[cfg(test)]
#[cfg(feature = "testing")]
mod tests;

use std::sync::Arc;

use zms_core::route::ClusterSpec;

use crate::engine::port::{
    AssignmentListener, ClusterAdmin, ConsumerClient, ConsumerSpec, Engine, OpenError, ProducerClient,
    ProducerSpec,
};

/// Kafka through librdkafka. Holds nothing: clients opened by it are independent of one another.
#[derive(Debug, Clone, Copy, Default)]
pub struct KafkaEngine;

impl KafkaEngine {
    /// An engine.
    pub fn new() -> Self {
        Self
    }
}

impl Engine for KafkaEngine {
    fn open_producer(&self, spec: &ProducerSpec) -> Result<Arc<dyn ProducerClient>, OpenError> {
        identity::check(&spec.cluster)?;
        Ok(Arc::new(producer::KafkaProducer::open(spec)?))
    }

    fn open_consumer(
        &self,
        spec: &ConsumerSpec,
        listener: Arc<dyn AssignmentListener>,
    ) -> Result<Box<dyn ConsumerClient>, OpenError> {
        identity::check(&spec.cluster)?;
        Ok(Box::new(consumer::KafkaConsumer::open(spec, listener)?))
    }

    fn check_consumer_properties(&self, properties: &[(String, String)]) -> Result<(), String> {
        config::Settings::check(properties)
    }

    fn open_admin(&self, cluster: &ClusterSpec) -> Result<Arc<dyn ClusterAdmin>, OpenError> {
        Ok(Arc::new(admin::KafkaAdmin::open(cluster)?))
    }
}
