//! Partition lists, and requests about them that answer within a limit.

use std::{
    ptr, slice,
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    client::{Client, ClientContext},
    error::RDKafkaErrorCode,
};
use rdkafka_sys as sys;

use super::milliseconds;
use crate::kafka::error::deadline;

/// One entry of a partition list.
#[derive(Debug, Clone)]
pub(in crate::kafka) struct ListEntry {
    pub(in crate::kafka) partition: i32,
    pub(in crate::kafka) offset: i64,
    pub(in crate::kafka) metadata: String,
    pub(in crate::kafka) error: RDKafkaErrorCode,
}

/// Reads a partition list. The crate's own accessor panics on metadata that is not UTF-8, which any client may have
/// committed; here it becomes empty, as if there were none.
pub(in crate::kafka) fn entries(list: &TopicPartitionList) -> Vec<ListEntry> {
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
/// `element` must belong to something live.
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

/// A commit on its way. Must be dropped before the client that it was begun with.
pub(in crate::kafka) struct Commit(Queue);

/// Begins to commit a list. The crate's synchronous commit has no limit, and reports success when only some of the
/// partitions failed; of its asynchronous one nobody learns how it ended.
pub(in crate::kafka) fn commit<C: ClientContext>(
    client: &Client<C>,
    list: &TopicPartitionList,
) -> Result<Commit, RDKafkaErrorCode> {
    let queue = Queue::new(client);
    // SAFETY: client, list and queue are alive; the list is copied by the call. Without a callback the answer is an
    // event on `queue`, and an operation under way holds its own reference to the queue.
    let started = unsafe {
        sys::rd_kafka_commit_queue(client.native_ptr(), list.ptr(), queue.0, None, ptr::null_mut())
    };
    succeeded(started)?;
    Ok(Commit(queue))
}

impl Commit {
    /// Waits for the answer, which is for each partition apart; `None` when there is none within `limit`.
    pub(in crate::kafka) fn answer(
        &self,
        limit: Duration,
    ) -> Option<Result<Vec<ListEntry>, RDKafkaErrorCode>> {
        let event = self.0.event(limit)?.checked();
        // SAFETY: the list is null or belongs to the event, which is alive.
        Some(event.map(|event| unsafe { raw_entries(sys::rd_kafka_event_topic_partition_list(event.0)) }))
    }
}

/// Which end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kafka) enum End {
    /// The oldest message still there.
    Low,
    /// The high watermark, whatever the client's isolation level: the crate's own call answers with the last stable
    /// offset to a client that reads only what is committed.
    High,
}

/// A question for one end of each of some logs, under way.
pub(in crate::kafka) struct LogEnds {
    queue: Queue,
    limit: Duration,
}

/// Asks for one end of each of these logs.
pub(in crate::kafka) fn ask_log_ends<C: ClientContext>(
    client: &Client<C>,
    mut list: TopicPartitionList,
    end: End,
    limit: Duration,
) -> Result<LogEnds, RDKafkaErrorCode> {
    // The library's numbers for "the beginning" and "the end" of a consumer are those of this request, too.
    let which = if end == End::Low { Offset::Beginning } else { Offset::End };
    list.set_all_offsets(which).map_err(|_| RDKafkaErrorCode::InvalidArgument)?;
    let queue = Queue::new(client);
    let options = Options::new(client, limit);
    // SAFETY: all four are alive; the call copies list and options and answers with an event on `queue`.
    unsafe { sys::rd_kafka_ListOffsets(client.native_ptr(), list.ptr(), options.0, queue.0) };
    Ok(LogEnds { queue, limit })
}

impl LogEnds {
    /// Waits for the answer, which is for each partition apart, in any order.
    pub(in crate::kafka) fn answer(self) -> Result<Vec<ListEntry>, RDKafkaErrorCode> {
        let event = self.queue.answer(self.limit.saturating_add(ANSWER_GRACE))?;
        // SAFETY: the event is alive.
        Ok(unsafe { listed(event.0) })
    }
}

/// What the client gets to report by itself that a request's time is up.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// # Safety
/// `event` must be live.
unsafe fn listed(event: *mut sys::rd_kafka_event_t) -> Vec<ListEntry> {
    // SAFETY: the event is live; the result is null when it is of another kind.
    let result = unsafe { sys::rd_kafka_event_ListOffsets_result(event) };
    if result.is_null() {
        return Vec::new();
    }
    let mut count = 0;
    // SAFETY: the result is live with its event.
    let infos = unsafe { sys::rd_kafka_ListOffsets_result_infos(result, &raw mut count) };
    if infos.is_null() {
        return Vec::new();
    }
    // SAFETY: the array has `count` live infos, and the partition of each lives with it.
    unsafe { slice::from_raw_parts(infos, count) }
        .iter()
        .map(|info| unsafe { entry(&*sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info)) })
        .collect()
}

fn succeeded(result: sys::rd_kafka_resp_err_t) -> Result<(), RDKafkaErrorCode> {
    match RDKafkaErrorCode::from(result) {
        RDKafkaErrorCode::NoError => Ok(()),
        code => Err(code),
    }
}

/// A reply queue of one call.
struct Queue(*mut sys::rd_kafka_queue_t);

// SAFETY: the library's queues are thread-safe, and this handle is the one owner of one of them.
unsafe impl Send for Queue {}

impl Queue {
    fn new<C: ClientContext>(client: &Client<C>) -> Self {
        // SAFETY: the handle is alive while `client` is borrowed.
        Self(unsafe { sys::rd_kafka_queue_new(client.native_ptr()) })
    }

    fn answer(&self, limit: Duration) -> Result<Event, RDKafkaErrorCode> {
        self.event(limit).ok_or(RDKafkaErrorCode::OperationTimedOut)?.checked()
    }

    fn event(&self, limit: Duration) -> Option<Event> {
        let deadline = deadline(limit);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // SAFETY: the queue is alive until `self` is dropped.
            let event = unsafe { sys::rd_kafka_queue_poll(self.0, milliseconds(left)) };
            if !event.is_null() {
                return Some(Event(event));
            }
            if left.is_zero() {
                return None;
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
    fn checked(self) -> Result<Self, RDKafkaErrorCode> {
        // SAFETY: the event is alive until `self` is dropped.
        succeeded(unsafe { sys::rd_kafka_event_error(self.0) }).map(|()| self)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: came out of a queue, destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.0) }
    }
}

struct Options(*mut sys::rd_kafka_AdminOptions_t);

impl Options {
    fn new<C: ClientContext>(client: &Client<C>, limit: Duration) -> Self {
        /// The library takes no longer one.
        const LONGEST: Duration = Duration::from_secs(3600);
        use sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS;
        // SAFETY: the handle is alive while `client` is borrowed.
        let options =
            unsafe { sys::rd_kafka_AdminOptions_new(client.native_ptr(), RD_KAFKA_ADMIN_OP_LISTOFFSETS) };
        let limit = milliseconds(limit.min(LONGEST));
        // SAFETY: the options are alive, and no text is asked for. Fails only for a limit out of range.
        let _ = unsafe { sys::rd_kafka_AdminOptions_set_request_timeout(options, limit, ptr::null_mut(), 0) };
        Self(options)
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.0) }
    }
}
