//! A record arrives as it was sent.

use bytes::Bytes;

use super::{super::native, *};
use crate::message::Header;

#[test]
fn every_part_of_a_message_arrives_unchanged() {
    let cluster = cluster_with("orders", 3);
    let sent = vec![
        Message::new("payload")
            .key("key")
            .header("b", "1")
            .header("a", "2")
            .header("b", "")
            .null_header("none")
            .timestamp_ms(1_700_000_000_123)
            .partition(2),
        Message::tombstone("gone").partition(2),
        Message::new(Bytes::new()).key(Bytes::new()).partition(2),
        Message::new("no key").partition(2),
    ];
    let producer = producer(&cluster, &[]);
    send_all(&*producer, "orders", sent.clone());
    assert_eq!(producer.close(PATIENCE), 0);

    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(sent.len());
    for (offset, (record, message)) in member.records.iter().zip(&sent).enumerate() {
        assert_eq!((record.partition, record.offset), (2, i64::try_from(offset).unwrap()));
        assert_eq!(record.payload, message.payload);
        assert_eq!(record.key, message.key);
        assert_eq!(record.headers, message.headers);
    }
    assert_eq!(member.records[0].timestamp_ms, Some(1_700_000_000_123));
    assert!(member.records[1].timestamp_ms.is_some(), "the client stamps what has no timestamp");
    member.client.close();
}

#[test]
fn an_acknowledgement_tells_partition_offset_and_timestamp() {
    let cluster = cluster_with("orders", 2);
    let producer = producer(&cluster, &[]);
    let outcomes = Outcomes::new();
    producer.produce(&topic("orders"), Message::new("x").partition(1), outcomes.ticket(0)).unwrap();
    let outcome = outcomes.next();
    let Outcome::Delivered { partition, offset, timestamp_ms } = outcome else { panic!("{outcome:?}") };
    assert_eq!((partition, offset), (1, Some(0)));
    assert!(timestamp_ms.is_some());
    producer.close(PATIENCE);
}

#[test]
fn keys_go_to_the_partitions_that_javas_client_chooses() {
    // Kafka's own test vectors of murmur2, as positive numbers modulo the partitions.
    let expected =
        [("21", -973_932_308_i32), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536)];
    let cluster = cluster_with("orders", 7);
    let producer = producer(&cluster, &[]);
    for (key, hash) in expected {
        let outcomes = Outcomes::new();
        producer.produce(&topic("orders"), Message::new("x").key(key), outcomes.ticket(0)).unwrap();
        let outcome = outcomes.next();
        let Outcome::Delivered { partition, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(partition, (hash & 0x7fff_ffff) % 7, "key {key}");
    }
    producer.close(PATIENCE);
}

#[test]
fn what_the_client_would_change_silently_is_refused() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[]);
    let outcomes = Outcomes::new();
    for message in [Message::new("x").timestamp_ms(0), Message::new("x").partition(-1)] {
        let refused = producer.produce(&topic("orders"), message.clone(), outcomes.ticket(0)).unwrap_err();
        assert_eq!(refused.message, message);
        assert_eq!(refused.error.kind, crate::engine::port::FailureKind::Rejected);
        std::mem::forget(refused.ticket);
    }
    assert_eq!(producer.outstanding(), 0);
    producer.close(PATIENCE);
}

#[test]
fn a_header_name_that_is_not_text_does_no_harm() {
    use rdkafka::producer::{BaseProducer, Producer};

    let cluster = cluster_with("orders", 1);
    let foreign: BaseProducer =
        rdkafka::ClientConfig::new().set("bootstrap.servers", cluster.bootstrap()).create().unwrap();
    assert!(native::send_foreign(foreign.client(), c"orders", b"\xff\xfe"));
    foreign.flush(PATIENCE).unwrap();

    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(1);
    let expected = Header { name: "\u{fffd}\u{fffd}".to_owned(), value: Some(Bytes::from_static(b"v")) };
    assert_eq!(member.records[0].headers, [expected]);
    member.client.close();
}
