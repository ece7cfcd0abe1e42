//! Other ways to read than as a plain member of a group, on real brokers.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zms_integration_tests::estate::{CLOSE_LIMIT, Estate};
use zms_integration_tests::services::require_services;
use zms_integration_tests::wait::eventually;
use zms_sdk::admin::{ConsumeFrom, Safety};
use zms_sdk::consumer::{AssignmentStrategy, Fault, SeekTo};
use zms_sdk::{Delivery, GroupName, Message, Outcome, Subscriber, Subscription, TopicName, Zms};

/// Payloads handled, by partition, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<i32, Vec<String>>>>);

impl Seen {
    async fn subscribe(&self, subscriber: Subscriber) -> Subscription {
        let seen = self.clone();
        let handler = move |delivery: Delivery| {
            let payload = String::from_utf8(delivery.payload().unwrap().to_vec()).unwrap();
            seen.0.lock().unwrap().entry(delivery.partition()).or_default().push(payload);
            std::future::ready(Outcome::Done)
        };
        subscriber.workers(4).handle(handler).await.unwrap()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }

    fn of(&self, partition: i32) -> Vec<String> {
        self.0.lock().unwrap().get(&partition).cloned().unwrap_or_default()
    }
}

async fn send(zms: &Zms, topic: &TopicName, partition: i32, numbers: std::ops::Range<i64>) {
    for number in numbers {
        // One second between two messages, long ago.
        let time = 1_700_000_000_000 + number * 1000;
        let message = Message::new(number.to_string()).partition(partition).timestamp_ms(time);
        zms.send(topic.as_str(), message).await.unwrap();
    }
}

fn numbers(range: std::ops::Range<i64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

async fn estate(partitions: i32) -> (Estate, TopicName, GroupName, Zms) {
    let estate = Estate::shared().await;
    let topic = estate.topic("modes", partitions).await;
    let group = estate.group(&topic).await;
    let zms = estate.open("service").await;
    (estate, topic, group, zms)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_group_begins_at_a_time_and_seeks_to_times() {
    if !require_services() {
        return;
    }
    let (estate, topic, group, zms) = estate(2).await;
    send(&zms, &topic, 0, 0..20).await;
    send(&zms, &topic, 1, 0..5).await;
    let from = ConsumeFrom::Timestamp(1_700_000_000_000 + 9_500);
    let change = |meta: &mut zms_sdk::admin::GroupMeta| meta.consume_from = from;
    estate.admin().set_group(&group, Safety::Forced, change).await.unwrap();
    let seen = Seen::default();
    let sub = seen.subscribe(zms.subscribe(group.as_str())).await;
    eventually("what is younger is handled", || seen.of(0).len() == 10).await;
    send(&zms, &topic, 1, 5..7).await;
    eventually("what is sent is handled where nothing was that young", || seen.count() == 12).await;
    assert_eq!((seen.of(0), seen.of(1)), (numbers(10..20), numbers(5..7)));

    let back = SeekTo::Timestamp(1_700_000_000_000 + 18_000);
    assert_eq!(sub.seek(0, back).await, Ok(18));
    eventually("it is handled again from there", || seen.of(0).len() == 12).await;
    assert_eq!(seen.of(0), [numbers(10..20), numbers(18..20)].concat());
    zms.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_static_members_of_one_name_the_first_is_told_once_and_does_not_fight() {
    if !require_services() {
        return;
    }
    let (estate, topic, group, zms) = estate(2).await;
    let other = estate.open("other").await;
    let member = |zms: &Zms| zms.subscribe(group.as_str()).instance_id("pod-1");
    let seen = Seen::default();
    let first = seen.subscribe(member(&zms)).await;
    first.ready().await.unwrap();
    let second = seen.subscribe(member(&other)).await;
    let ended = tokio::time::timeout(Duration::from_secs(60), first.ended()).await.unwrap();
    assert!(matches!(&ended, Err(Fault::Fenced { instance, .. }) if instance == "pod-1"), "{ended:?}");
    eventually("the other one has it all", || second.inspect().partitions.len() == 2).await;
    for partition in 0..2 {
        send(&zms, &topic, partition, 0..10).await;
    }
    eventually("it handles messages", || seen.count() == 20).await;
    let counts = second.inspect().counts;
    assert_eq!((counts.rebuilds, counts.losses), (0, 0), "nobody took it away again");
    zms.close(CLOSE_LIMIT).await.unwrap();
    other.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_that_starts_again_has_its_partitions_without_a_rebalance() {
    if !require_services() {
        return;
    }
    let (estate, topic, group, zms) = estate(2).await;
    let other = estate.open("other").await;
    let member = |zms: &Zms, id: &str| {
        let subscriber = zms.subscribe(group.as_str()).instance_id(id);
        subscriber.property("session.timeout.ms", "120000").property("max.poll.interval.ms", "120000")
    };
    let seen = Seen::default();
    let steady = seen.subscribe(member(&other, "pod-0")).await;
    let first = seen.subscribe(member(&zms, "pod-1")).await;
    eventually("both have one", || [&steady, &first].iter().all(|sub| sub.inspect().partitions.len() == 1))
        .await;
    let had = first.inspect().partitions[0].partition;
    let before = steady.inspect().counts;
    first.shutdown(CLOSE_LIMIT).await.unwrap();
    send(&zms, &topic, had, 0..10).await;
    let again = seen.subscribe(member(&zms, "pod-1")).await;
    eventually("it has its partition again", || {
        again.inspect().partitions.first().is_some_and(|view| view.partition == had)
    })
    .await;
    eventually("what came meanwhile is handled", || seen.count() == 10).await;
    let after = steady.inspect().counts;
    assert_eq!((after.assignments, after.revocations), (before.assignments, before.revocations));
    zms.close(CLOSE_LIMIT).await.unwrap();
    other.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_group_gives_every_message_to_every_instance_and_named_ones_go_on_where_they_were() {
    if !require_services() {
        return;
    }
    let (estate, topic, group, zms) = estate(2).await;
    let change = |meta: &mut zms_sdk::admin::GroupMeta| meta.broadcast = true;
    estate.admin().set_group(&group, Safety::Forced, change).await.unwrap();
    let other = estate.open("other").await;
    let seen = [Seen::default(), Seen::default()];
    let named = seen[0].subscribe(zms.subscribe(group.as_str()).instance_id("pod-1")).await;
    let nameless = seen[1].subscribe(other.subscribe(group.as_str())).await;
    for partition in 0..2 {
        send(&zms, &topic, partition, 0..10).await;
    }
    eventually("both handle all", || seen.iter().all(|seen| seen.count() == 20)).await;

    // Both stand on their own: one starts again and goes on where it was, the other from the beginning.
    named.shutdown(CLOSE_LIMIT).await.unwrap();
    nameless.shutdown(CLOSE_LIMIT).await.unwrap();
    send(&zms, &topic, 0, 10..12).await;
    let _named = seen[0].subscribe(zms.subscribe(group.as_str()).instance_id("pod-1")).await;
    let _nameless = seen[1].subscribe(other.subscribe(group.as_str())).await;
    eventually("each has what it needs", || (seen[0].count(), seen[1].count()) == (22, 42)).await;
    assert_eq!(seen[0].of(0), numbers(0..12));
    zms.close(CLOSE_LIMIT).await.unwrap();
    other.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_reader_follows_its_topic_and_is_seen_by_nobody() {
    if !require_services() {
        return;
    }
    let (estate, topic, _, zms) = estate(2).await;
    send(&zms, &topic, 1, 0..10).await;
    let seen = Seen::default();
    let reader = zms.standalone(topic.as_str()).partitions([1]).start_at("a", [(1, 5)]);
    let sub = seen.subscribe(reader.switch_limit(Duration::from_secs(3600))).await;
    let all = Seen::default();
    let second = all.subscribe(zms.standalone(topic.as_str())).await;
    eventually("it reads", || seen.count() == 5 && all.count() == 10).await;
    estate.set_topic_cluster(&topic, "b").await;
    eventually("it has heard", || sub.inspect().route.as_str() == "b").await;
    send(&zms, &topic, 1, 10..13).await;
    eventually("it reads on", || seen.count() == 8 && all.count() == 13).await;
    assert_eq!(seen.of(1), numbers(5..13));
    assert_eq!((sub.inspect().cluster.as_str(), second.inspect().counts.forced_switches), ("b", 0));
    zms.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn members_share_by_either_kind_of_strategy_and_repeat_nothing_over_rebalances() {
    if !require_services() {
        return;
    }
    for strategy in [AssignmentStrategy::RoundRobin, AssignmentStrategy::CooperativeSticky] {
        share(strategy).await;
    }
}

async fn share(strategy: AssignmentStrategy) {
    let (estate, topic, group, zms) = estate(4).await;
    let other = estate.open("other").await;
    let member = |zms: &Zms| {
        let subscriber = zms.subscribe(group.as_str()).assignment(strategy);
        // Only what is committed inside the rebalance counts.
        subscriber.commit_interval(Duration::from_secs(3600))
    };
    let seen = Seen::default();
    let first = seen.subscribe(member(&zms)).await;
    first.ready().await.unwrap();
    for partition in 0..4 {
        send(&zms, &topic, partition, 0..10).await;
    }
    eventually("all is handled", || seen.count() == 40).await;
    let second = seen.subscribe(member(&other)).await;
    let held = |sub: &Subscription| sub.inspect().partitions.len();
    eventually("they share", || held(&first) == 2 && held(&second) == 2).await;
    for partition in 0..4 {
        send(&zms, &topic, partition, 10..20).await;
    }
    eventually("all is handled", || seen.count() == 80).await;
    other.close(CLOSE_LIMIT).await.unwrap();
    eventually("one has all", || held(&first) == 4).await;
    for partition in 0..4 {
        send(&zms, &topic, partition, 20..30).await;
    }
    eventually("all is handled", || seen.count() == 120).await;
    (0..4).for_each(|partition| assert_eq!(seen.of(partition), numbers(0..30), "{strategy:?}"));
    assert_eq!(first.inspect().counts.losses, 0);
    zms.close(CLOSE_LIMIT).await.unwrap();
}
