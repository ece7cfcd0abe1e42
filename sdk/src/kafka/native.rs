//! What the client library's safe crate does not offer, or offers with a panic. The only unsafe code of this crate.
#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    ptr, slice,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rdkafka::{
    TopicPartitionList,
    client::{Client, ClientContext},
    error::RDKafkaErrorCode,
    message::BorrowedMessage,
};
use rdkafka_sys as sys;

use super::error::deadline;
use crate::message::Header;

/// What is known of a record whose delivery report has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    /// It is in no log.
    Never,
    /// It may be.
    Possible,
    /// It is.
    Certain,
}

/// Reads the persistence status out of a delivery report.
pub(super) fn persistence(report: &BorrowedMessage<'_>) -> Persistence {
    use sys::rd_kafka_msg_status_t as Status;
    // SAFETY: `ptr` is valid as long as `report`, which is borrowed for the call; the function only reads a field.
    match unsafe { sys::rd_kafka_message_status(report.ptr()) } {
        Status::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => Persistence::Never,
        Status::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED => Persistence::Possible,
        Status::RD_KAFKA_MSG_STATUS_PERSISTED => Persistence::Certain,
    }
}

/// Copies a message's headers. The crate's own accessor panics when a foreign producer wrote a name that is not UTF-8;
/// here such bytes become U+FFFD.
pub(super) fn headers(message: &BorrowedMessage<'_>) -> Vec<Header> {
    let mut list = ptr::null_mut();
    // SAFETY: `ptr` is valid as long as `message`; on success `list` belongs to the message and lives as long.
    let found = unsafe { sys::rd_kafka_message_headers(message.ptr(), &raw mut list) };
    if RDKafkaErrorCode::from(found) != RDKafkaErrorCode::NoError || list.is_null() {
        return Vec::new();
    }
    // SAFETY: `list` was just obtained and its message is still borrowed.
    let count = unsafe { sys::rd_kafka_header_cnt(list) };
    // SAFETY: as above, and every index is below the count.
    (0..count).filter_map(|index| unsafe { header(list, index) }).collect()
}

/// # Safety
/// `list` must be a live header list.
unsafe fn header(list: *const sys::rd_kafka_headers_t, index: usize) -> Option<Header> {
    let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
    // SAFETY: `list` is live by contract and the three places are ours.
    let found =
        unsafe { sys::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut size) };
    if RDKafkaErrorCode::from(found) != RDKafkaErrorCode::NoError || name.is_null() {
        return None;
    }
    // SAFETY: on success `name` is a string with a terminator inside the list.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    // SAFETY: on success a value that is not null has `size` bytes inside the list.
    let value = (!value.is_null())
        .then(|| Bytes::copy_from_slice(unsafe { slice::from_raw_parts(value.cast::<u8>(), size) }));
    Some(Header { name, value })
}

/// One entry of a partition list.
#[derive(Debug, Clone)]
pub(super) struct ListEntry {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) metadata: String,
    pub(super) error: RDKafkaErrorCode,
}

/// Reads a partition list. The crate's own accessor panics on metadata that is not UTF-8, which any client may have
/// committed; here it becomes empty, as if there were none.
pub(super) fn entries(list: &TopicPartitionList) -> Vec<ListEntry> {
    // SAFETY: the list is alive and borrowed, so nobody changes it meanwhile.
    unsafe { raw_entries(list.ptr()) }
}

/// # Safety
/// `list` must be null or a live list that nobody changes during the call.
unsafe fn raw_entries(list: *const sys::rd_kafka_topic_partition_list_t) -> Vec<ListEntry> {
    // SAFETY: null or live by contract.
    let Some(list) = (unsafe { list.as_ref() }) else { return Vec::new() };
    if list.elems.is_null() {
        return Vec::new();
    }
    let count = usize::try_from(list.cnt).unwrap_or(0);
    // SAFETY: a live list has `cnt` elements at `elems`.
    let elements = unsafe { slice::from_raw_parts(list.elems, count) };
    // SAFETY: each element belongs to the live list.
    elements.iter().map(|element| unsafe { entry(element) }).collect()
}

/// # Safety
/// `element` must belong to a live list.
unsafe fn entry(element: &sys::rd_kafka_topic_partition_t) -> ListEntry {
    let metadata = if element.metadata.is_null() {
        String::new()
    } else {
        // SAFETY: metadata that is not null has `metadata_size` bytes.
        let bytes = unsafe { slice::from_raw_parts(element.metadata.cast::<u8>(), element.metadata_size) };
        std::str::from_utf8(bytes).map(str::to_owned).unwrap_or_default()
    };
    ListEntry { partition: element.partition, offset: element.offset, metadata, error: element.err.into() }
}

/// Asks the broker threads to send what lingers, and keeps asking for `slice`. Somebody must poll afterwards.
pub(super) fn flush_slice<C: ClientContext>(client: &Client<C>, slice: Duration) {
    // SAFETY: the handle is alive while `client` is borrowed; the call is documented as thread-safe. Its result tells
    // only whether reports are outstanding, which the caller counts itself.
    let _ = unsafe { sys::rd_kafka_flush(client.native_ptr(), milliseconds(slice)) };
}

/// How a commit ended.
pub(super) enum Committed {
    /// The broker answered, for each partition apart.
    Answered(Vec<ListEntry>),
    /// The whole request failed.
    Failed(RDKafkaErrorCode),
    /// No answer within the limit.
    Unanswered,
}

/// Commits a list and waits for the answer. The crate's synchronous commit has no limit, and reports success when only
/// some of the partitions failed.
pub(super) fn commit<C: ClientContext>(
    client: &Client<C>,
    list: &TopicPartitionList,
    limit: Duration,
) -> Committed {
    let queue = Queue::new(client);
    // SAFETY: client, list and queue are alive; the list is copied by the call. Without a callback the answer is an
    // event on `queue`, and an operation under way holds its own reference to the queue.
    let started = unsafe {
        sys::rd_kafka_commit_queue(client.native_ptr(), list.ptr(), queue.0, None, ptr::null_mut())
    };
    match RDKafkaErrorCode::from(started) {
        RDKafkaErrorCode::NoError => queue.commit_answer(limit),
        code => Committed::Failed(code),
    }
}

/// A reply queue of one call.
struct Queue(*mut sys::rd_kafka_queue_t);

impl Queue {
    fn new<C: ClientContext>(client: &Client<C>) -> Self {
        // SAFETY: the handle is alive while `client` is borrowed.
        Self(unsafe { sys::rd_kafka_queue_new(client.native_ptr()) })
    }

    fn commit_answer(&self, limit: Duration) -> Committed {
        let deadline = deadline(limit);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // SAFETY: the queue is alive until `self` is dropped.
            let event = unsafe { sys::rd_kafka_queue_poll(self.0, milliseconds(left)) };
            if !event.is_null() {
                return Event(event).committed();
            }
            if left.is_zero() {
                return Committed::Unanswered;
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe { sys::rd_kafka_queue_destroy(self.0) }
    }
}

struct Event(*mut sys::rd_kafka_event_t);

impl Event {
    fn committed(&self) -> Committed {
        // SAFETY: the event is alive until `self` is dropped.
        match RDKafkaErrorCode::from(unsafe { sys::rd_kafka_event_error(self.0) }) {
            // SAFETY: the list is null or belongs to the event, which is alive.
            RDKafkaErrorCode::NoError => {
                Committed::Answered(unsafe { raw_entries(sys::rd_kafka_event_topic_partition_list(self.0)) })
            }
            code => Committed::Failed(code),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: came out of a queue, destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.0) }
    }
}

fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)
}

/// Sends a record as a client in another language may: its only header's name need not be text.
#[cfg(all(test, feature = "testing"))]
pub(super) fn send_foreign<C: ClientContext>(client: &Client<C>, topic: &CStr, name: &[u8]) -> bool {
    use sys::rd_kafka_vtype_t as Tag;
    let length = isize::try_from(name.len()).unwrap();
    // SAFETY: the handle is alive; strings live through the call and are copied; the list of tagged arguments ends with
    // END; headers given over belong to the client when the call succeeds.
    unsafe {
        let headers = sys::rd_kafka_headers_new(1);
        sys::rd_kafka_header_add(headers, name.as_ptr().cast(), length, b"v".as_ptr().cast(), 1);
        let result = sys::rd_kafka_producev(
            client.native_ptr(),
            Tag::RD_KAFKA_VTYPE_TOPIC,
            topic.as_ptr(),
            Tag::RD_KAFKA_VTYPE_HEADERS,
            headers,
            Tag::RD_KAFKA_VTYPE_END,
        );
        RDKafkaErrorCode::from(result) == RDKafkaErrorCode::NoError
    }
}

#[cfg(feature = "testing")]
pub(crate) use mock::MockHandle;

#[cfg(feature = "testing")]
mod mock {
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
                sys::rd_kafka_mock_push_request_errors_array(
                    self.cluster,
                    api,
                    errors.len(),
                    errors.as_ptr(),
                );
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
}
