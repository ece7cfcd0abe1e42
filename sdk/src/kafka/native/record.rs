//! What a message carries beside its plain parts.

use std::{
    ffi::{CStr, c_void},
    marker::PhantomData,
    ptr, slice,
    time::Duration,
};

use rdkafka::{
    client::{Client, ClientContext},
    error::RDKafkaErrorCode,
    message::BorrowedMessage,
};
use rdkafka_sys as sys;

use super::{milliseconds, unparsed::may_have_headers};

/// What is known of a record whose delivery report has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kafka) enum Persistence {
    /// It is in no log.
    Never,
    /// It may be.
    Possible,
    /// It is.
    Certain,
}

/// Reads the persistence status out of a delivery report.
pub(in crate::kafka) fn persistence(report: &BorrowedMessage<'_>) -> Persistence {
    use sys::rd_kafka_msg_status_t as Status;
    // SAFETY: `ptr` is valid as long as `report`, which is borrowed for the call; the function only reads a field.
    match unsafe { sys::rd_kafka_message_status(report.ptr()) } {
        Status::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => Persistence::Never,
        Status::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED => Persistence::Possible,
        Status::RD_KAFKA_MSG_STATUS_PERSISTED => Persistence::Certain,
    }
}

/// A fetched message in the library's memory.
#[derive(Clone, Copy)]
pub(in crate::kafka) struct MessageRef<'a> {
    message: *mut sys::rd_kafka_message_t,
    lives: PhantomData<&'a sys::rd_kafka_message_t>,
}

impl<'a> MessageRef<'a> {
    /// # Safety
    /// `message` must be a live message, and stay one for `'a`.
    pub(super) unsafe fn new(message: *mut sys::rd_kafka_message_t) -> Self {
        Self { message, lives: PhantomData }
    }

    pub(in crate::kafka) fn of(message: &'a BorrowedMessage<'_>) -> Self {
        // SAFETY: `ptr` is valid as long as `message`, which is borrowed for `'a`.
        unsafe { Self::new(message.ptr()) }
    }

    fn fields(self) -> &'a sys::rd_kafka_message_t {
        // SAFETY: live for `'a` by the contract of `new`, and nobody changes it.
        unsafe { &*self.message }
    }

    /// Whether it is no message but an error that is reported in place of one.
    pub(in crate::kafka) fn is_error(self) -> bool {
        self.fields().err != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
    }

    /// What is reported in place of a message.
    pub(in crate::kafka) fn error(self) -> Option<RDKafkaErrorCode> {
        let code = RDKafkaErrorCode::from(self.fields().err);
        (code != RDKafkaErrorCode::NoError).then_some(code)
    }

    pub(in crate::kafka) fn partition(self) -> i32 {
        self.fields().partition
    }

    pub(in crate::kafka) fn offset(self) -> i64 {
        self.fields().offset
    }

    pub(in crate::kafka) fn payload(self) -> Option<&'a [u8]> {
        // SAFETY: a payload that is not null has `len` bytes and lives as long as its message.
        unsafe { bytes_at(self.fields().payload, self.fields().len) }
    }

    pub(in crate::kafka) fn key(self) -> Option<&'a [u8]> {
        // SAFETY: a key that is not null has `key_len` bytes and lives as long as its message.
        unsafe { bytes_at(self.fields().key, self.fields().key_len) }
    }

    pub(in crate::kafka) fn timestamp_ms(self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is live; the call only reads it and fills in the kind.
        let timestamp = unsafe { sys::rd_kafka_message_timestamp(self.message, &raw mut kind) };
        let known = kind != sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        (known && timestamp != -1).then_some(timestamp)
    }

    /// Shows the headers of a fetched message, in order. The crate's own accessor panics when a foreign producer wrote a name that is not
    /// UTF-8; here such bytes become U+FFFD.
    pub(in crate::kafka) fn each_header(self, mut see: impl FnMut(&str, Option<&[u8]>)) {
        // SAFETY: the message is live, and fetched unless it is an error.
        if self.is_error() || !unsafe { may_have_headers(self.message) } {
            return;
        }
        let mut list = ptr::null_mut();
        // SAFETY: the message is live; on success `list` belongs to it and lives as long.
        let found = unsafe { sys::rd_kafka_message_headers(self.message, &raw mut list) };
        if RDKafkaErrorCode::from(found) != RDKafkaErrorCode::NoError || list.is_null() {
            return;
        }
        // SAFETY: `list` was just obtained and its message is live.
        let count = unsafe { sys::rd_kafka_header_cnt(list) };
        for index in 0..count {
            // SAFETY: as above, and the index is below the count.
            if let Some((name, value)) = unsafe { header(list, index) } {
                see(&name.to_string_lossy(), value);
            }
        }
    }
}

/// # Safety
/// `start` must be null or the start of `length` bytes that live for `'a` unchanged.
unsafe fn bytes_at<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: by contract.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), length) })
}

/// # Safety
/// `list` must be a header list that lives for `'a`.
unsafe fn header<'a>(
    list: *const sys::rd_kafka_headers_t,
    index: usize,
) -> Option<(&'a CStr, Option<&'a [u8]>)> {
    let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
    // SAFETY: `list` is live by contract and the three places are ours.
    let found =
        unsafe { sys::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut size) };
    if RDKafkaErrorCode::from(found) != RDKafkaErrorCode::NoError || name.is_null() {
        return None;
    }
    // SAFETY: on success `name` is a string with a terminator inside the list.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: on success a value that is not null has `size` bytes inside the list.
    Some((name, unsafe { bytes_at(value, size) }))
}

/// Asks the broker threads to send what lingers, and keeps asking for `slice`. Somebody must poll afterwards.
pub(in crate::kafka) fn flush_slice<C: ClientContext>(client: &Client<C>, slice: Duration) {
    // SAFETY: the handle is alive while `client` is borrowed; the call is documented as thread-safe. Its result tells
    // only whether reports are outstanding, which the caller counts itself.
    let _ = unsafe { sys::rd_kafka_flush(client.native_ptr(), milliseconds(slice)) };
}

/// Sends a record as a client in another language may: its only header's name need not be text.
#[cfg(all(test, feature = "testing"))]
pub(in crate::kafka) fn send_foreign<C: ClientContext>(
    client: &Client<C>,
    topic: &CStr,
    name: &[u8; 2],
) -> bool {
    use sys::rd_kafka_vtype_t as Tag;
    // SAFETY: the handle is alive; strings live through the call and are copied; the list of tagged arguments ends with
    // END; headers given over belong to the client when the call succeeds.
    unsafe {
        let headers = sys::rd_kafka_headers_new(1);
        sys::rd_kafka_header_add(headers, name.as_ptr().cast(), 2, b"v".as_ptr().cast(), 1);
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
