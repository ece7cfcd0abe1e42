//! Messages that are given up, through the handle and on in-process clusters.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use zms_sdk::{
    ClusterName, Delivery, Message, RetryPolicy, SubscribeError, Subscription, Zms,
    consumer::{Counts, Exhausted},
    testing::Sandbox,
};

const LIMIT: Duration = Duration::from_secs(300);
const QUICK: RetryPolicy = RetryPolicy::new()
    .attempts(2)
    .backoff(Duration::from_millis(2), Duration::from_millis(50))
    .then(Exhausted::DeadLetter);

async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.expect(what);
}

/// Topic `orders` with one partition and group `billing`, on cluster `a`.
async fn billing() -> Sandbox {
    let sandbox = Sandbox::start(["a", "b"]).await.unwrap();
    sandbox.topic("orders", 1, "a").await.unwrap();
    sandbox.group("billing", "orders").await.unwrap();
    sandbox
}

async fn connect(sandbox: &Sandbox) -> Zms {
    sandbox.builder().resolve_timeout(LIMIT).connect().await.unwrap()
}

/// Handles what is not poisoned.
async fn digest(delivery: Delivery) -> Result<(), &'static str> {
    match delivery.header("poison") {
        Some(_) => Err("cannot be digested"),
        None => Ok(()),
    }
}

async fn subscribe(zms: &Zms, policy: RetryPolicy) -> Subscription {
    zms.subscribe("billing").retry(policy).handle(digest).await.unwrap()
}

fn poison(payload: &'static str) -> Message {
    Message::new(payload).header("poison", "arsenic")
}

fn counts(subscription: &Subscription) -> Counts {
    subscription.inspect().counts
}

/// Why the group's partition is held up.
fn trouble(subscription: &Subscription) -> Option<String> {
    Some(subscription.inspect().partitions.first()?.trouble.clone()?.reason)
}

/// What arrived: key, payload and headers.
type Arrived = (Option<String>, Option<String>, Vec<(String, String)>);

fn arrived(delivery: &Delivery) -> Arrived {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = delivery.headers().iter().map(|h| (h.name.to_owned(), text(h.value.unwrap_or(b"null"))));
    (delivery.key().map(text), delivery.payload().map(text), headers.collect())
}

/// Reads a topic by a group of its own.
async fn read(sandbox: &Sandbox, zms: &Zms, topic: &str) -> (Subscription, Arc<Mutex<Vec<Arrived>>>) {
    let group = format!("reader-of-{topic}");
    sandbox.group(&group, topic).await.unwrap();
    let all = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&all);
    let handler = move |delivery: Delivery| {
        seen.lock().unwrap().push(arrived(&delivery));
        async {}
    };
    (zms.subscribe(&group).handle(handler).await.unwrap(), all)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_message_lands_in_the_groups_dead_letter_topic_and_the_partition_goes_on() {
    let sandbox = billing().await;
    sandbox.topic("dlq.billing", 2, "b").await.unwrap();
    let zms = connect(&sandbox).await;
    let billing = subscribe(&zms, QUICK).await;
    let (_reader, letters) = read(&sandbox, &zms, "dlq.billing").await;

    zms.send("orders", Message::new("fine")).await.unwrap();
    let bad = poison("bad")
        .key("o-7")
        .timestamp_ms(1_700_000_000_123)
        .header("trace", "1")
        .null_header("note")
        .header("trace", "2");
    let receipt = zms.send("orders", bad).await.unwrap();
    zms.send("orders", Message::tombstone("o-8").header("poison", "")).await.unwrap();
    zms.send("orders", Message::new("fine too")).await.unwrap();

    until("the partition goes on", || counts(&billing).handled >= 4).await;
    until("both letters are there", || letters.lock().unwrap().len() >= 2).await;
    let letters = letters.lock().unwrap().clone();
    let (_, payload, headers) = letters.iter().find(|letter| letter.0.as_deref() == Some("o-7")).unwrap();
    assert_eq!(payload.as_deref(), Some("bad"));
    let original = [("poison", "arsenic"), ("trace", "1"), ("note", "null"), ("trace", "2")];
    assert_eq!(headers[..4], original.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let told: BTreeMap<_, _> = headers[4..].iter().cloned().collect();
    let expected = [
        ("attempts", "2".to_owned()),
        ("cluster", "a".to_owned()),
        ("error", "cannot be digested".to_owned()),
        ("group", "billing".to_owned()),
        ("offset", receipt.offset.unwrap().to_string()),
        ("partition", receipt.partition.to_string()),
        ("times", "1".to_owned()),
        ("timestamp", "1700000000123".to_owned()),
        ("topic", "orders".to_owned()),
    ];
    let expected = expected.map(|(name, value)| (format!("__zms.dlq.{name}"), value));
    assert_eq!(told, expected.into_iter().collect());
    let (_, payload, _) = letters.iter().find(|letter| letter.0.as_deref() == Some("o-8")).unwrap();
    assert_eq!(*payload, None, "a tombstone stays one");
    assert_eq!(counts(&billing).dead_letter_failures, 0);
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_registered_shows_in_the_inspection_and_the_letter_goes_out_once_it_is() {
    let sandbox = billing().await;
    let zms = connect(&sandbox).await;
    // Gives a topic up soon, so that the test need not wait for long. On a slow machine that is too soon for the group
    // as well; then it tries again.
    let hasty = sandbox.builder().resolve_timeout(Duration::from_millis(500)).connect().await.unwrap();
    let billing = loop {
        match hasty.subscribe("billing").retry(QUICK).handle(digest).await {
            Err(SubscribeError::Unresolved(_)) => {}
            begun => break begun.unwrap(),
        }
    };
    zms.send("orders", poison("bad")).await.unwrap();
    let words = ["dlq.billing", "zmsctl topic create", "--register", "cannot be digested"];
    until("the inspection says what to do", || {
        trouble(&billing).is_some_and(|reason| words.iter().all(|words| reason.contains(words)))
    })
    .await;
    assert!(counts(&billing).dead_letter_failures > 0);
    assert_eq!(counts(&billing).handled, 0);

    sandbox.topic("dlq.billing", 1, "b").await.unwrap();
    until("it goes out", || counts(&billing).dead_lettered == 1).await;
    until("its message is over", || counts(&billing).handled == 1).await;
    until("nothing is wrong any more", || trouble(&billing).is_none()).await;
    hasty.close(LIMIT).await.unwrap();
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_go_out_until_the_close_has_ended_the_subscriptions() {
    let sandbox = billing().await;
    sandbox.topic("lost", 1, "b").await.unwrap();
    let zms = connect(&sandbox).await;
    let billing = subscribe(&zms, QUICK.attempts(1).dead_letter_topic("lost")).await;
    for _ in 0..200 {
        zms.send("orders", poison("bad")).await.unwrap();
    }
    until("some are given up", || counts(&billing).dead_lettered > 3).await;
    zms.close(LIMIT).await.unwrap();
    let counts = counts(&billing);
    assert_eq!((counts.dead_letter_failures, counts.late_completions), (0, 0));
    assert_eq!(counts.handled, counts.dead_lettered);
    assert_eq!(zms.status().sends.delivered, 200 + counts.dead_lettered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_outlives_its_handle_can_still_give_messages_up() {
    let sandbox = billing().await;
    sandbox.topic("dlq.billing", 1, "b").await.unwrap();
    let zms = connect(&sandbox).await;
    let billing = subscribe(&zms, QUICK).await;
    billing.ready().await.unwrap();
    drop(zms);
    let other = connect(&sandbox).await;
    other.send("orders", poison("bad")).await.unwrap();
    until("it goes out", || counts(&billing).dead_lettered == 1).await;
    billing.shutdown(LIMIT).await.unwrap();
    other.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_its_topic_never_takes_holds_its_partition_visibly() {
    let sandbox = billing().await;
    sandbox.topic("dlq.billing", 1, "b").await.unwrap();
    let limit = ("message.max.bytes".to_owned(), "2000".to_owned());
    let narrow = ClusterName::new("b").unwrap();
    sandbox.admin().set_cluster(&narrow, |meta| meta.properties.extend([limit.clone()])).await.unwrap();
    let zms = connect(&sandbox).await;
    let billing = subscribe(&zms, QUICK).await;
    let long: &'static str = "x".repeat(3000).leak();
    zms.send("orders", poison(long)).await.unwrap();
    until("the sending fails again and again", || counts(&billing).dead_letter_failures > 2).await;
    until("the inspection says why", || {
        trouble(&billing).is_some_and(|reason| reason.contains("message.max.bytes"))
    })
    .await;
    assert_eq!(counts(&billing).handled, 0);
    zms.close(LIMIT).await.unwrap();
}
