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
fn what_lies_together_is_little_and_a_large_record_lies_alone() {
    let full = Records::FULL;
    let small = |count: usize| std::iter::repeat_n(Message::new(vec![b's'; 10]), count);
    let mut sent: Vec<_> = small(full.messages + 5).collect();
    sent.extend((0..4).map(|_| Message::new(vec![b'h'; full.bytes / 2]).key("k")));
    sent.push(Message::new(vec![b'l'; 3 * full.bytes]));
    sent.extend(small(2));
    sent.extend((0..3).map(|_| Message::tombstone("headers").header("h", vec![b'v'; full.bytes])));
    sent.extend(small(2));
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[]);
    send_all(&*producer, "orders", sent.iter().cloned().map(|message| message.partition(0)).collect());
    assert_eq!(producer.close(PATIENCE), 0);

    let mut member = Member::join(&cluster, "orders", Listener::passive());
    let (mut polled, mut offsets) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + PATIENCE;
    while offsets.len() < sent.len() {
        assert!(Instant::now() < deadline, "got {offsets:?}");
        member.client.poll(Duration::from_millis(20), 1000, &mut polled).unwrap();
        for records in polled.drain(..) {
            let before_last: usize = (0..records.len() - 1).map(|index| records.size(index)).sum();
            assert!(records.len() <= full.messages && before_last <= full.bytes);
            for record in records.iter() {
                let message = &sent[offsets.len()];
                assert_eq!(
                    (record.key, record.payload),
                    (message.key.as_deref(), message.payload.as_deref())
                );
                assert_eq!(record.headers.iter().map(Header::from).collect::<Vec<_>>(), message.headers);
                assert!(
                    record.payload.is_none_or(|payload| payload.len() <= full.bytes) || records.len() == 1
                );
                offsets.push(record.offset);
            }
        }
    }
    assert_eq!(offsets, (0..).take(sent.len()).collect::<Vec<i64>>());
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
