//! Services send to a topic's name and handle by a group's name.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::sync::{Arc, Mutex};

use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::services::require_services;
use zms_integration_tests::wait::eventually;
use zms_sdk::{Delivery, Header, Message, Outcome};

#[tokio::test(flavor = "multi_thread")]
async fn all_parts_of_a_message_arrive_where_the_receipt_says() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let topic = estate.topic("parts", 8).await;
    let group = estate.group(&topic).await;
    let zms = estate.open("service").await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let handler = move |delivery: Delivery| {
        sink.lock().unwrap().push(delivery);
        std::future::ready(Outcome::Done)
    };
    let subscription = zms.subscribe(group.as_str()).handle(handler).await.unwrap();
    subscription.ready().await.unwrap();

    let whole = Message::new(vec![0, 255, 128]).key("k").timestamp_ms(1_700_000_000_123);
    let whole = whole.header("repeated", "1").null_header("null").header("repeated", "2").header("empty", "");
    let messages = [
        whole.partition(5),
        Message::tombstone("gone").partition(1),
        Message::new("").key("hollow").partition(2),
        Message::new("no key").partition(7),
        Message::new("empty key").key("").partition(0),
    ];
    let mut receipts = Vec::new();
    for message in &messages {
        receipts.push(zms.send(topic.as_str(), message.clone()).await.unwrap());
    }
    eventually("all are handled", || seen.lock().unwrap().len() == messages.len()).await;

    for (message, receipt) in messages.iter().zip(&receipts) {
        assert_eq!((receipt.cluster.as_str(), &receipt.topic), ("a", &topic));
        let seen = seen.lock().unwrap();
        let is_it = |d: &&Delivery| (d.partition(), Some(d.offset())) == (receipt.partition, receipt.offset);
        let delivery = seen.iter().find(is_it).unwrap_or_else(|| panic!("none at {receipt:?}"));
        assert_eq!((delivery.cluster(), delivery.topic()), (&receipt.cluster, &receipt.topic));
        assert_eq!(delivery.key_bytes().as_ref(), message.key_bytes(), "{message:?}");
        assert_eq!(delivery.payload_bytes().as_ref(), message.payload(), "{message:?}");
        assert_eq!(delivery.headers().iter().map(Header::from).collect::<Vec<_>>(), message.headers());
        assert!(delivery.timestamp_ms().is_some() && delivery.timestamp_ms() == receipt.timestamp_ms);
    }
    assert_eq!(receipts.iter().map(|r| r.partition).collect::<Vec<_>>(), [5, 1, 2, 7, 0]);
    assert_eq!(receipts[0].timestamp_ms, Some(1_700_000_000_123));
    zms.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_delivers_nothing_again_and_loses_nothing() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let trial = Trial::begin(&estate, 8, Kept::CLEAN).await;
    let sending = estate.open("sender").await;
    let sender = trial.sender("steady", &sending).await;

    let first = [estate.open("member-1").await, estate.open("member-2").await];
    let mut subscriptions = Vec::new();
    for zms in &first {
        subscriptions.push(trial.member(zms).await);
    }
    eventually("both members handle messages", || {
        subscriptions.iter().all(|member| member.inspect().counts.handled > 50)
    })
    .await;
    for zms in &first {
        zms.close(CLOSE_LIMIT).await.unwrap();
    }
    let before = trial.handled().count();
    eventually("messages are sent while nobody handles", || sender.sent().acknowledged() > before + 100)
        .await;

    let second = [estate.open("member-1").await, estate.open("member-2").await];
    for zms in &second {
        subscriptions.push(trial.member(zms).await);
    }
    let target = sender.sent().acknowledged() + 200;
    eventually("the new members catch up", || trial.handled().count() > target).await;
    let sent = sender.finish().await;
    trial.settled().await;
    assert_eq!(sent.failed, Vec::<String>::new());
    for zms in second.iter().chain([&sending]) {
        zms.close(CLOSE_LIMIT).await.unwrap();
    }
    assert_eq!(trial.handled().count(), sent.acknowledged());
    trial.assert_holds();
}
