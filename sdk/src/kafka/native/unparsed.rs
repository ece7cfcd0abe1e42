//! Whether a message has headers, without asking for them.
//!
//! librdkafka has no call for that, and the one that gets the headers makes a buffer and parses, for each message and
//! also where there is nothing to parse: as much work as all else that is done to take in a small message. What it
//! would parse is noted in the message, behind the part that is public; here that note is read, but only from the
//! version of the library whose messages are known to look like that. Of any other version every message is asked.

use std::ffi::{c_int, c_void};

use rdkafka_sys as sys;

/// The version whose messages look like [`Internal`], as the library writes versions: 2.12.1.
const KNOWN: c_int = 0x020c_01ff;

/// `rd_kafka_msg_t` in `rdkafka_msg.h`.
#[repr(C)]
struct Internal {
    message: sys::rd_kafka_message_t,
    link: [*mut c_void; 2],
    flags: c_int,
    timestamp_type: sys::rd_kafka_timestamp_type_t,
    timestamp: i64,
    headers: *mut sys::rd_kafka_headers_t,
    status: sys::rd_kafka_msg_status_t,
    broker: i32,
    role: Role,
}

#[repr(C)]
union Role {
    fetched: Fetched,
    /// Stands for a message to be sent; decides the alignment.
    produced: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Fetched {
    headers: Unparsed,
    leader_epoch: i32,
}

/// `rd_kafkap_bytes_t` in `rdkafka_proto.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Unparsed {
    length: i32,
    start: *const c_void,
    behind: [u8; 1],
}

/// `false` only where a message has no headers.
///
/// # Safety
/// `message` must be live, and fetched: neither an error nor a delivery report.
pub(super) unsafe fn may_have_headers(message: *const sys::rd_kafka_message_t) -> bool {
    // SAFETY: returns a constant.
    if unsafe { sys::rd_kafka_version() } != KNOWN {
        return true;
    }
    let internal = message.cast::<Internal>();
    // SAFETY: in this version a live message is the beginning of an `Internal`, and one that was fetched has that role.
    let (parsed, length) = unsafe { ((*internal).headers, (*internal).role.fetched.headers.length) };
    // Their number alone takes a byte, and is zero then.
    !parsed.is_null() || length > 1
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::{ptr, time::Duration};

    use rdkafka::{
        ClientConfig,
        consumer::{BaseConsumer, Consumer},
        message::{Header, OwnedHeaders},
        producer::{BaseProducer, BaseRecord, Producer},
    };

    use super::*;
    use crate::testing::{FAST_GROUP_PROPERTIES, MockCluster};

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn the_library_is_the_one_that_is_known() {
        // SAFETY: returns a constant.
        let version = unsafe { sys::rd_kafka_version() };
        assert_eq!(
            format!("{version:#x}"),
            format!("{KNOWN:#x}"),
            "compare rd_kafka_msg_t and rd_kafka_msg_headers_parse with what is written here, then enter the version; \
             until then headers are asked for of every message, which costs as much as all else"
        );
    }

    fn send(producer: &BaseProducer, key: Option<&str>, payload: Option<&str>, headers: &[Header<'_, &str>]) {
        let mut record: BaseRecord<'_, str, str> = BaseRecord::to("orders").partition(0);
        (record.key, record.payload) = (key, payload);
        if !headers.is_empty() {
            record.headers = Some(
                headers.iter().fold(OwnedHeaders::new(), |all, header| all.insert(Header { ..*header })),
            );
        }
        assert!(producer.send(record).is_ok());
    }

    #[test]
    fn exactly_the_messages_with_headers_are_told() {
        let cluster = MockCluster::start(1).unwrap();
        cluster.create_topic("orders", 1).unwrap();
        let config = |role: &[(&str, &str)]| {
            let mut config = ClientConfig::new();
            config.set("bootstrap.servers", cluster.bootstrap());
            for (name, value) in role {
                config.set(*name, *value);
            }
            config
        };
        let expected = [false, true, false, true, false, true, false, true];
        for compression in ["none", "gzip"] {
            let producer: BaseProducer = config(&[("compression.type", compression)]).create().unwrap();
            let smallest = [Header { key: "", value: None }];
            let two = [Header { key: "a", value: Some("1") }, Header { key: "a", value: Some("") }];
            for headers in [&smallest[..], &two] {
                send(&producer, Some("k"), Some("payload"), &[]);
                send(&producer, None, None, headers);
                send(&producer, Some("tombstone"), None, &[]);
                send(&producer, Some(""), Some(""), headers);
            }
            producer.flush(PATIENCE).unwrap();
        }
        let consumer: BaseConsumer = config(&FAST_GROUP_PROPERTIES)
            .set("group.id", "g")
            .set("auto.offset.reset", "earliest")
            .create()
            .unwrap();
        consumer.subscribe(&["orders"]).unwrap();
        for number in 0..2 * expected.len() {
            // A poll that served a rebalance brings nothing.
            let mut polls = (0..10).filter_map(|_| consumer.poll(PATIENCE / 10));
            let message = polls.next().expect("a message before the time is up").unwrap();
            let told = [(); 2].map(|()| {
                // SAFETY: the message is borrowed and was fetched.
                unsafe { may_have_headers(message.ptr()) }
            });
            let mut list = ptr::null_mut();
            // SAFETY: the message is live.
            let found = unsafe { sys::rd_kafka_message_headers(message.ptr(), &raw mut list) };
            let has = found == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
            assert_eq!(
                (told, has),
                ([expected[number % expected.len()]; 2], expected[number % expected.len()])
            );
            // SAFETY: as above, now with its headers parsed.
            assert_eq!(unsafe { may_have_headers(message.ptr()) }, has);
        }
    }
}
