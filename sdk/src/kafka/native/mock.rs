//! The client library's mock cluster.

use std::ffi::{CStr, CString, c_int};

use rdkafka::{
    ClientConfig,
    error::RDKafkaErrorCode,
    producer::{BaseProducer, DefaultProducerContext, Producer},
};
use rdkafka_sys::{self as sys, types::RDKafkaRespErr};

/// The client library's mock cluster. The crate's own handle can neither be shared between threads nor set the
/// timing of groups.
pub(crate) struct MockHandle {
    cluster: *mut sys::rd_kafka_mock_cluster_t,
    /// Lends its handle to the cluster, so it goes after it; never sends anything.
    _owner: BaseProducer<DefaultProducerContext>,
}

// SAFETY: the mock's functions are thread-safe: each either takes the cluster's own lock or hands an operation to
// the cluster's thread and waits for it; the bootstrap string never changes.
unsafe impl Send for MockHandle {}
// SAFETY: as above.
unsafe impl Sync for MockHandle {}

type Done = Result<(), RDKafkaErrorCode>;

fn done(result: RDKafkaRespErr) -> Done {
    match RDKafkaErrorCode::from(result) {
        RDKafkaErrorCode::NoError => Ok(()),
        code => Err(code),
    }
}

fn text(text: &str) -> Result<CString, RDKafkaErrorCode> {
    CString::new(text).map_err(|_| RDKafkaErrorCode::InvalidArgument)
}

impl MockHandle {
    pub(crate) fn new(brokers: i32) -> Result<Self, RDKafkaErrorCode> {
        let owner: BaseProducer = ClientConfig::new().create().map_err(|_| RDKafkaErrorCode::Fail)?;
        // SAFETY: the owner's handle is alive, and stays so longer than the cluster.
        let cluster = unsafe { sys::rd_kafka_mock_cluster_new(owner.client().native_ptr(), brokers) };
        if cluster.is_null() {
            return Err(RDKafkaErrorCode::Fail);
        }
        Ok(Self { cluster, _owner: owner })
    }

    pub(crate) fn bootstrap(&self) -> String {
        // SAFETY: the cluster is alive and owns the string.
        unsafe { CStr::from_ptr(sys::rd_kafka_mock_cluster_bootstraps(self.cluster)) }
            .to_string_lossy()
            .into_owned()
    }

    pub(crate) fn create_topic(&self, topic: &str, partitions: i32, replication: i32) -> Done {
        let topic = text(topic)?;
        // SAFETY: the cluster is alive; the name is copied.
        done(unsafe {
            sys::rd_kafka_mock_topic_create(self.cluster, topic.as_ptr(), partitions, replication)
        })
    }

    /// Answers metadata requests for a topic with an error; no error takes it back.
    pub(crate) fn topic_error(&self, topic: &str, error: RDKafkaRespErr) -> Done {
        let topic = text(topic)?;
        // SAFETY: the cluster is alive; the name is copied.
        unsafe { sys::rd_kafka_mock_topic_set_error(self.cluster, topic.as_ptr(), error) };
        Ok(())
    }

    pub(crate) fn set_leader(&self, topic: &str, partition: i32, broker: i32) -> Done {
        // The library crashes on the next produce to a partition without a leader.
        if broker < 0 {
            return Err(RDKafkaErrorCode::InvalidArgument);
        }
        let topic = text(topic)?;
        // SAFETY: the cluster is alive; the name is copied.
        done(unsafe {
            sys::rd_kafka_mock_partition_set_leader(self.cluster, topic.as_ptr(), partition, broker)
        })
    }

    /// Broker `-1`: all.
    pub(crate) fn set_down(&self, broker: i32) -> Done {
        // SAFETY: the cluster is alive.
        done(unsafe { sys::rd_kafka_mock_broker_set_down(self.cluster, broker) })
    }

    /// Broker `-1`: all.
    pub(crate) fn set_up(&self, broker: i32) -> Done {
        // SAFETY: the cluster is alive.
        done(unsafe { sys::rd_kafka_mock_broker_set_up(self.cluster, broker) })
    }

    /// Broker `-1`: all.
    pub(crate) fn set_round_trip(&self, broker: i32, milliseconds: c_int) -> Done {
        // SAFETY: the cluster is alive.
        done(unsafe { sys::rd_kafka_mock_broker_set_rtt(self.cluster, broker, milliseconds) })
    }

    pub(crate) fn push_errors(&self, api: i16, errors: &[RDKafkaRespErr]) {
        // SAFETY: the cluster is alive; the array is copied.
        unsafe {
            sys::rd_kafka_mock_push_request_errors_array(self.cluster, api, errors.len(), errors.as_ptr());
        }
    }

    pub(crate) fn clear_errors(&self, api: i16) {
        // SAFETY: the cluster is alive.
        unsafe { sys::rd_kafka_mock_clear_request_errors(self.cluster, api) }
    }

    /// Groups form at once, and members of the consumer protocol learn of changes within `heartbeat`.
    pub(crate) fn set_group_timing(&self, rebalance_delay: i32, heartbeat: c_int) {
        // SAFETY: the cluster is alive.
        unsafe {
            sys::rd_kafka_mock_group_initial_rebalance_delay_ms(self.cluster, rebalance_delay);
            sys::rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(self.cluster, heartbeat);
        }
    }
}

impl Drop for MockHandle {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once, before its owner.
        unsafe { sys::rd_kafka_mock_cluster_destroy(self.cluster) }
    }
}
