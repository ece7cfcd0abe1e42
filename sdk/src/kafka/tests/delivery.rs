//! How records end: delivered, not sent, or unknown; each exactly once.

use std::{sync::atomic::AtomicBool, thread};

use super::*;
use crate::{
    engine::port::FailureKind,
    testing::{Api, BrokerError},
};

fn not_sent(outcome: &Outcome, kind: FailureKind) -> bool {
    matches!(outcome, Outcome::NotSent(error) if error.kind == kind)
}

fn unknown(outcome: &Outcome, kind: FailureKind) -> bool {
    matches!(outcome, Outcome::Unknown(error) if error.kind == kind)
}

#[test]
fn closing_sends_what_lingers() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[("linger.ms", "60000")]);
    let outcomes = Outcomes::new();
    for number in 0..10 {
        producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(number)).unwrap();
    }
    assert_eq!(producer.close(PATIENCE), 0);
    let ended = outcomes.taken();
    assert_eq!(ended.len(), 10, "completed before close returns");
    assert!(ended.values().all(|it| matches!(it, Outcome::Delivered { .. })), "{ended:?}");
    assert_eq!(producer.outstanding(), 0);
}

#[test]
fn what_a_close_gives_up_while_queued_was_not_sent() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[]);
    producer.warm(&topic("orders"), PATIENCE).unwrap();
    cluster.all_brokers_down().unwrap();
    let outcomes = Outcomes::new();
    for number in 0..10 {
        producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(number)).unwrap();
    }
    assert_eq!(producer.close(Duration::from_millis(300)), 10);
    let ended = outcomes.taken();
    assert_eq!(ended.len(), 10, "completed before close returns");
    assert!(ended.values().all(|it| not_sent(it, FailureKind::Purged)), "{ended:?}");
}

#[test]
fn what_a_close_gives_up_in_flight_may_have_arrived() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[("linger.ms", "0")]);
    send_all(&*producer, "orders", numbered(0, 0..1));
    cluster.round_trip_time(PATIENCE).unwrap();
    let outcomes = Outcomes::new();
    producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(0)).unwrap();
    assert_eq!(producer.close(Duration::from_secs(5)), 1);
    let ended = outcomes.taken();
    assert!(unknown(&ended[&0], FailureKind::Purged), "{ended:?}");
}

#[test]
fn the_shortest_of_several_closes_counts() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[]);
    cluster.all_brokers_down().unwrap();
    let outcomes = Outcomes::new();
    producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(0)).unwrap();
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(producer.close(PATIENCE * 60), 1));
        assert_eq!(producer.close(Duration::from_millis(300)), 1);
    });
    assert!(started.elapsed() < PATIENCE);
    assert!(not_sent(&outcomes.next(), FailureKind::Purged));
}

#[test]
fn a_record_that_never_left_is_not_sent_when_its_time_is_up() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[("message.timeout.ms", "500")]);
    cluster.all_brokers_down().unwrap();
    let outcomes = Outcomes::new();
    producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(0)).unwrap();
    let outcome = outcomes.next();
    assert!(not_sent(&outcome, FailureKind::Unreachable), "{outcome:?}");
    producer.close(PATIENCE);
}

#[test]
fn a_record_whose_answer_was_lost_may_have_arrived() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[("message.timeout.ms", "10000"), ("linger.ms", "0")]);
    send_all(&*producer, "orders", numbered(0, 0..1));
    cluster.round_trip_time(PATIENCE).unwrap();
    let outcomes = Outcomes::new();
    producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(0)).unwrap();
    let outcome = outcomes.next();
    assert!(unknown(&outcome, FailureKind::Unreachable), "{outcome:?}");
    producer.close(Duration::ZERO);
}

#[test]
fn a_message_above_the_clients_limit_comes_back_at_once_and_alone() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[("message.max.bytes", "2000")]);
    let outcomes = Outcomes::new();
    let large = Message::new(vec![7_u8; 3000]).key("k").header("h", "v");
    for number in 0..3 {
        producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(number)).unwrap();
    }
    let refused = producer.produce(&topic("orders"), large.clone(), outcomes.ticket(99)).unwrap_err();
    assert_eq!(refused.error.kind, FailureKind::TooLarge);
    assert_eq!(refused.message, large);
    refused.ticket.complete(Outcome::NotSent(refused.error));
    let ended = outcomes.all(4);
    assert!(ended.range(..3).all(|(_, it)| matches!(it, Outcome::Delivered { .. })), "{ended:?}");
    producer.close(PATIENCE);
}

#[test]
fn each_record_of_a_batch_that_the_broker_finds_too_large_has_its_own_outcome() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[("linger.ms", "60000"), ("enable.idempotence", "false")]);
    producer.warm(&topic("orders"), PATIENCE).unwrap();
    cluster.fail_requests(Api::Produce, &[BrokerError::MessageTooLarge]);
    let outcomes = Outcomes::new();
    for number in 0..5 {
        producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(number)).unwrap();
    }
    producer.close(PATIENCE);
    let ended = outcomes.taken();
    assert_eq!(ended.len(), 5);
    assert!(ended.values().all(|it| not_sent(it, FailureKind::TooLarge)), "{ended:?}");
}

#[test]
fn a_refused_record_is_the_same_when_it_is_sent_again() {
    let cluster = cluster_with("orders", 2);
    let limit = [("queue.buffering.max.messages", "1"), ("linger.ms", "0")];
    let producer = producer(&cluster, &limit);
    cluster.all_brokers_down().unwrap();
    let outcomes = Outcomes::new();
    producer.produce(&topic("orders"), Message::new("first").partition(0), outcomes.ticket(0)).unwrap();
    let message = Message::tombstone("key")
        .header("b", "1")
        .null_header("a")
        .header("b", "")
        .timestamp_ms(1_600_000_000_000)
        .partition(1);
    let mut refused = producer.produce(&topic("orders"), message.clone(), outcomes.ticket(1)).unwrap_err();
    // Often, so that a leak or a header list freed twice would show.
    for _ in 0..10_000 {
        refused = producer.produce(&topic("orders"), refused.message, refused.ticket).unwrap_err();
        assert_eq!(refused.error.kind, FailureKind::QueueFull);
    }
    assert_eq!(refused.message, message);
    assert_eq!(producer.outstanding(), 1);
    cluster.all_brokers_up().unwrap();
    assert!(matches!(outcomes.next(), Outcome::Delivered { .. }));
    // The first record's room is free when the whole report that held it has been served.
    while let Err(again) = producer.produce(&topic("orders"), refused.message, refused.ticket) {
        assert_eq!(again.error.kind, FailureKind::QueueFull);
        refused = again;
        thread::yield_now();
    }
    assert!(matches!(outcomes.next(), Outcome::Delivered { partition: 1, .. }));
    producer.close(PATIENCE);

    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(2);
    let record = member.records.iter().find(|record| record.partition == 1).unwrap();
    assert_eq!(record.key, message.key);
    assert_eq!(record.payload, None);
    assert_eq!(record.headers, message.headers);
    assert_eq!(record.timestamp_ms, Some(1_600_000_000_000));
    member.client.close();
}

#[test]
fn a_partition_that_does_not_exist_fails_the_record_alone() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[]);
    let outcomes = Outcomes::new();
    let away = Message::new("x").partition(9);
    match producer.produce(&topic("orders"), away, outcomes.ticket(0)) {
        Ok(()) => {}
        Err(refused) => refused.ticket.complete(Outcome::NotSent(refused.error)),
    }
    let outcome = outcomes.next();
    assert!(not_sent(&outcome, FailureKind::UnknownTopic), "{outcome:?}");
    send_all(&*producer, "orders", numbered(0, 0..1));
    producer.close(PATIENCE);
}

#[test]
fn sending_to_an_unknown_topic_creates_none() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[("topic.metadata.propagation.max.ms", "500")]);
    let outcomes = Outcomes::new();
    producer.produce(&topic("ordesr"), Message::new("x"), outcomes.ticket(0)).unwrap();
    let outcome = outcomes.next();
    assert!(not_sent(&outcome, FailureKind::UnknownTopic), "{outcome:?}");
    assert_eq!(admin(&cluster).topic(&topic("ordesr"), PATIENCE).unwrap(), None);
    assert_eq!(producer.warm(&topic("ordesr"), PATIENCE).unwrap_err().kind, FailureKind::UnknownTopic);
    producer.close(PATIENCE);
}

#[test]
fn after_a_close_began_nothing_is_taken_and_every_close_waits_for_all() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[]);
    let closed = AtomicBool::new(false);
    let (taken, outcomes) = thread::scope(|scope| {
        let senders: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let outcomes = Outcomes::new();
                    for number in 0.. {
                        // Whether the close had returned is read first: then a record taken would be one too many.
                        let late = closed.load(std::sync::atomic::Ordering::SeqCst);
                        match producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(number)) {
                            Ok(()) => assert!(!late, "taken after close"),
                            Err(refused) if refused.error.kind == FailureKind::QueueFull => {
                                refused.ticket.complete(Outcome::NotSent(refused.error));
                                thread::yield_now();
                            }
                            Err(refused) => {
                                assert_eq!(refused.error.kind, FailureKind::Purged);
                                refused.ticket.complete(Outcome::NotSent(refused.error));
                                return (number + 1, outcomes);
                            }
                        }
                        if number > 90_000 {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                    unreachable!("the loop ends when the producer is closed")
                })
            })
            .collect();
        let closers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while producer.outstanding() == 0 {
                        thread::yield_now();
                    }
                    producer.close(PATIENCE);
                    assert_eq!(producer.outstanding(), 0);
                    closed.store(true, std::sync::atomic::Ordering::SeqCst);
                })
            })
            .collect();
        for closer in closers {
            closer.join().unwrap();
        }
        let ended: Vec<_> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        ended.into_iter().unzip::<_, _, Vec<usize>, Vec<Outcomes>>()
    });
    for (count, outcomes) in taken.into_iter().zip(outcomes) {
        assert_eq!(outcomes.taken().len(), count, "each record and the refused one ended once");
    }
    assert_eq!(producer.close(PATIENCE), 0);
    assert_eq!(producer.warm(&topic("orders"), PATIENCE).unwrap_err().kind, FailureKind::Purged);
}

#[test]
fn a_producer_dropped_without_a_close_still_reports_on_everything() {
    let cluster = cluster_with("orders", 1);
    let outcomes = Outcomes::new();
    let producer = producer(&cluster, &[("linger.ms", "60000")]);
    for number in 0..10 {
        producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(number)).unwrap();
    }
    drop(producer);
    let ended = outcomes.all(10);
    assert!(ended.values().all(|it| matches!(it, Outcome::Delivered { .. })), "{ended:?}");
}

#[test]
fn a_completion_that_panics_or_closes_harms_no_other_record() {
    struct Panics;
    impl Completion for Panics {
        fn complete(self: Box<Self>, _: Outcome) {
            panic!("a completion of the test panics");
        }
    }
    struct Closes(Arc<dyn ProducerClient>);
    impl Completion for Closes {
        fn complete(self: Box<Self>, _: Outcome) {
            self.0.close(PATIENCE);
        }
    }
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[]);
    let outcomes = Outcomes::new();
    let closes = Ticket::new(Box::new(Closes(Arc::clone(&producer))));
    producer.produce(&topic("orders"), Message::new("x"), Ticket::new(Box::new(Panics))).unwrap();
    producer.produce(&topic("orders"), Message::new("x"), closes).unwrap();
    // May come too late, when the second record's report has closed the producer.
    let third = producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(0));
    if let Err(refused) = third {
        refused.ticket.complete(Outcome::NotSent(refused.error));
    }
    outcomes.next();
    producer.close(PATIENCE);
    assert_eq!(producer.outstanding(), 0);
}

#[test]
fn success_without_an_offset_is_success() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[("acks", "0")]);
    let outcomes = Outcomes::new();
    producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(0)).unwrap();
    let outcome = outcomes.next();
    assert!(matches!(outcome, Outcome::Delivered { offset: None, .. }), "{outcome:?}");
    producer.close(PATIENCE);
}
