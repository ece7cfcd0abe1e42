//! Queues of fetched messages, emptied many at a time.

use std::{
    ffi::{CString, c_void},
    ptr,
    sync::Arc,
};

use rdkafka::client::{Client, ClientContext};
use rdkafka_sys as sys;

use super::record::MessageRef;

/// Learns that a queue has become worth looking at.
pub(in crate::kafka) trait Wake: Send + Sync {
    /// Called on the library's threads under the queue's lock: must be short and not call the library.
    fn wake(&self);
}

/// A queue of a consumer, and who is woken when something enters it while it is empty.
pub(in crate::kafka) struct WatchedQueue<W: Wake> {
    queue: *mut sys::rd_kafka_queue_t,
    /// Given to the library as a plain pointer, so it lives as long as the callback is set.
    _wake: Arc<W>,
}

// SAFETY: the library's queues are thread-safe, and this handle is one reference to one of them.
unsafe impl<W: Wake> Send for WatchedQueue<W> {}

impl<W: Wake> WatchedQueue<W> {
    /// The queue of one partition, from now on apart from the consumer's own. `None` when the topic's name is no C
    /// string.
    pub(in crate::kafka) fn of_partition<C: ClientContext>(
        client: &Client<C>,
        topic: &str,
        partition: i32,
        wake: Arc<W>,
    ) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the client is alive while borrowed, and the name lives through the call, which copies it.
        let queue =
            unsafe { sys::rd_kafka_queue_get_partition(client.native_ptr(), topic.as_ptr(), partition) };
        if queue.is_null() {
            return None;
        }
        // SAFETY: the queue is alive; forwarding it nowhere keeps its messages in it.
        unsafe { sys::rd_kafka_queue_forward(queue, ptr::null_mut()) };
        Some(Self::watched(queue, wake))
    }

    /// The queue that a consumer's events come through. Only for watching: taking messages from it here would answer
    /// rebalances in nobody's name.
    pub(in crate::kafka) fn of_events<C: ClientContext>(client: &Client<C>, wake: Arc<W>) -> Option<Self> {
        // SAFETY: the client is alive while borrowed.
        let queue = unsafe { sys::rd_kafka_queue_get_consumer(client.native_ptr()) };
        (!queue.is_null()).then(|| Self::watched(queue, wake))
    }

    fn watched(queue: *mut sys::rd_kafka_queue_t, wake: Arc<W>) -> Self {
        let opaque = Arc::as_ptr(&wake).cast_mut().cast::<c_void>();
        // SAFETY: the queue is alive. `opaque` stays valid until the callback is taken back in `drop`: `wake` is kept.
        unsafe { sys::rd_kafka_queue_cb_event_enable(queue, Some(woken::<W>), opaque) };
        Self { queue, _wake: wake }
    }

    /// Operations waiting in it.
    pub(in crate::kafka) fn len(&self) -> usize {
        // SAFETY: the queue is alive until `self` is dropped.
        unsafe { sys::rd_kafka_queue_length(self.queue) }
    }

    /// Empties it.
    pub(in crate::kafka) fn discard(&self) {
        while self.take(Messages::MOST).len() == Messages::MOST {}
    }

    /// Takes what is there, up to `max` and to the size of a batch. Fewer mean that the queue was found empty.
    pub(in crate::kafka) fn take(&self, max: usize) -> Messages {
        let mut messages = Messages { taken: [ptr::null_mut(); Messages::MOST], count: 0 };
        // SAFETY: the queue is alive until `self` is dropped, and there is room for what is asked for.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(
                self.queue,
                0,
                messages.taken.as_mut_ptr(),
                max.min(Messages::MOST),
            )
        };
        messages.count = usize::try_from(count).unwrap_or(0);
        messages
    }
}

impl<W: Wake> Drop for WatchedQueue<W> {
    fn drop(&mut self) {
        // SAFETY: the queue is alive and its reference given back once. Callbacks run under the queue's lock, which the
        // first call takes: after it none runs any more, so that `wake` may go.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.queue, None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(self.queue);
        }
    }
}

unsafe extern "C" fn woken<W: Wake>(_: *mut sys::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: `opaque` is the `W` that `watched` gave, which outlives the callback.
    unsafe { &*opaque.cast::<W>() }.wake();
}

/// Messages taken from a queue. They must not outlive the poll that took them: a consumer cannot be destroyed while one
/// lives, so that dropping this releases all of them.
pub(in crate::kafka) struct Messages {
    taken: [*mut sys::rd_kafka_message_t; Self::MOST],
    count: usize,
}

impl Messages {
    /// The most that are taken at once.
    pub(in crate::kafka) const MOST: usize = 256;

    pub(in crate::kafka) fn len(&self) -> usize {
        self.count
    }

    /// Looks at them, in order.
    pub(in crate::kafka) fn iter(&self) -> impl Iterator<Item = MessageRef<'_>> + Clone {
        // SAFETY: the library filled in this many, and they live until `self` is dropped.
        self.taken[..self.count].iter().map(|message| unsafe { MessageRef::new(*message) })
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        for message in &self.taken[..self.count] {
            // SAFETY: taken from the queue, and destroyed once.
            unsafe { sys::rd_kafka_message_destroy(*message) };
        }
    }
}
