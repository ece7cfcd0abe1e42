//! Logs that are not one message after the other: with holes, and with a new beginning.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::watch;
use zms_integration_tests::estate::{CLOSE_LIMIT, Estate};
use zms_integration_tests::services::require_services;
use zms_integration_tests::wait::eventually;
use zms_sdk::consumer::{Ordering, State};
use zms_sdk::{Delivery, GroupName, Message, Subscription, TopicName, Zms};

const TRANSACTION: i64 = 10;

/// Payloads handled, in order, and the offset they came with last.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(i64, String)>>>);

impl Seen {
    /// Subscribes with a handler that waits with `held` until it is let go.
    async fn subscribe(
        &self,
        zms: &Zms,
        group: &GroupName,
        held: &watch::Sender<Option<i64>>,
    ) -> Subscription {
        let (seen, held) = (self.clone(), held.subscribe());
        let subscriber = zms.subscribe(group.as_str()).workers(8).ordering(Ordering::Key);
        let subscriber = subscriber.commit_interval(Duration::from_millis(100));
        let handler = move |delivery: Delivery| {
            let (seen, mut held) = (seen.clone(), held.clone());
            async move {
                let offset = delivery.offset();
                let payload = String::from_utf8(delivery.payload().unwrap().to_vec()).unwrap();
                held.wait_for(|held| *held != Some(offset)).await.unwrap();
                seen.0.lock().unwrap().push((offset, payload));
            }
        };
        let sub = subscriber.handle(handler).await.unwrap();
        sub.ready().await.unwrap();
        sub
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// How often each payload was handled.
    fn times(&self) -> BTreeMap<String, usize> {
        let mut times = BTreeMap::new();
        for (_, payload) in self.0.lock().unwrap().iter() {
            *times.entry(payload.clone()).or_default() += 1;
        }
        times
    }
}

fn committed(sub: &Subscription) -> Option<i64> {
    sub.inspect().partitions.first()?.committed
}

async fn estate() -> (Estate, TopicName, GroupName, Zms) {
    let estate = Estate::shared().await;
    let topic = estate.topic("log", 1).await;
    let group = estate.group(&topic).await;
    let zms = estate.open("service").await;
    (estate, topic, group, zms)
}

async fn send(zms: &Zms, topic: &TopicName, prefix: &str, count: usize) {
    for number in 0..count {
        let message = Message::new(format!("{prefix}-{number}")).key(format!("key-{}", number % 4));
        zms.send(topic.as_str(), message).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_leave_holes_that_neither_stop_a_position_nor_let_it_pass_what_is_not_done() {
    if !require_services() {
        return;
    }
    let (estate, topic, group, zms) = estate().await;
    let bootstrap = estate.clusters()[0].1.bootstrap();
    let (to, ends) = (topic.clone(), [true, false, true, false, false, true]);
    tokio::task::spawn_blocking(move || transactions(&bootstrap, to.as_str(), &ends)).await.unwrap();

    let seen = Seen::default();
    // Each transaction takes one offset for its end; the second message of the second one that is valid.
    let stuck = 2 * (TRANSACTION + 1) + 1;
    let held = watch::Sender::new(Some(stuck));
    let sub = seen.subscribe(&zms, &group, &held).await;
    // Of the key of that one, what lies behind it waits too.
    let waiting = (0..3 * TRANSACTION).filter(|n| *n > TRANSACTION && n % 4 == (TRANSACTION + 1) % 4).count();
    let valid = usize::try_from(3 * TRANSACTION).unwrap();
    eventually("all but one key is handled", || seen.count() == valid - waiting).await;
    let behind = stuck - 1;
    eventually("the position moves over holes up to what is not done", || {
        committed(&sub).is_some_and(|position| position > behind)
    })
    .await;
    sub.shutdown(Duration::from_secs(10)).await.unwrap_err();
    // Its end may be later than its deadline; until then the stuck handler may go on.
    eventually("it has ended", || sub.inspect().state == State::Closed).await;

    held.send_replace(None);
    let sub = seen.subscribe(&zms, &group, &held).await;
    eventually("the rest is handled", || seen.times().len() == valid).await;
    let last = 5 * (TRANSACTION + 1) + TRANSACTION - 1;
    eventually("the position is behind the last message", || committed(&sub) >= Some(last + 1)).await;
    send(&zms, &topic, "plain", 5).await;
    eventually("what comes behind a hole is handled", || seen.times().len() == valid + 5).await;
    let position = last + 2 + 5;
    eventually("and committed", || committed(&sub) == Some(position)).await;
    let twice: Vec<_> = seen.times().into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(twice.is_empty(), "only what was stuck is handled again, and it had not ended: {twice:?}");
    assert_eq!(sub.inspect().counts.rewinds, 0);
    zms.close(CLOSE_LIMIT).await.unwrap();
}

/// Sends transactions; `ends` tells which are committed. Numbers count the messages of those.
fn transactions(bootstrap: &str, topic: &str, ends: &[bool]) {
    let limit = Duration::from_secs(60);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("transactional.id", topic).set("log_level", "0");
    let producer: BaseProducer = config.create().unwrap();
    producer.init_transactions(limit).unwrap();
    let mut number = 0;
    for valid in ends {
        producer.begin_transaction().unwrap();
        for index in 0..TRANSACTION {
            let (payload, key) = if *valid {
                (format!("valid-{number}"), format!("key-{}", number % 4))
            } else {
                (format!("aborted-{index}"), format!("key-{}", index % 4))
            };
            producer
                .send(BaseRecord::to(topic).key(&key).payload(&payload))
                .map_err(|(error, _)| error)
                .unwrap();
            number += i64::from(*valid);
        }
        producer.flush(limit).unwrap();
        if *valid {
            producer.commit_transaction(limit).unwrap();
        } else {
            producer.abort_transaction(limit).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_deleted_and_created_again_is_handled_from_its_new_beginning() {
    if !require_services() {
        return;
    }
    let (estate, topic, group, zms) = estate().await;
    let seen = Seen::default();
    let sub = seen.subscribe(&zms, &group, &watch::Sender::new(None)).await;
    // Each new log ends below the old position. One that has grown past it before the reader looks cannot be told from
    // the old one.
    for (round, count) in [100, 50, 10].into_iter().enumerate() {
        if round > 0 {
            let (cluster, name) = (estate.clusters()[0].1.clone(), topic.to_string());
            tokio::task::spawn_blocking(move || {
                cluster.delete_topic(&name).unwrap();
                cluster.create_topic(&name, 1).unwrap();
            })
            .await
            .unwrap();
        }
        let before = seen.times().len();
        send(&zms, &topic, &format!("round-{round}"), count).await;
        eventually("all of the log is handled", || seen.times().len() == before + count).await;
        let end = i64::try_from(count).unwrap();
        eventually("and committed", || committed(&sub) == Some(end)).await;
    }
    println!("{} calls for 160 messages; {:?}", seen.count(), sub.inspect().counts);
    zms.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_retention_overtakes_goes_on_with_the_first_message_that_is_left() {
    if !require_services() {
        return;
    }
    let (estate, topic, group, zms) = estate().await;
    // Far more than a client fetches ahead, so that the end of the log is not in memory when its beginning goes.
    let padding = "x".repeat(256 << 10);
    for number in 0..MANY {
        let message = Message::new(format!("large-{number}-{padding}")).key("key");
        zms.send(topic.as_str(), message).await.unwrap();
    }
    let seen = Seen::default();
    let held = watch::Sender::new(Some(0));
    let sub = seen.subscribe(&zms, &group, &held).await;
    eventually("the first message is being handled", || queued(&sub) > 0).await;
    let (bootstrap, name) = (estate.clusters()[0].1.bootstrap(), topic.to_string());
    tokio::task::spawn_blocking(move || truncate(&bootstrap, &name, LEFT)).await.unwrap();

    held.send_replace(None);
    let last = || seen.0.lock().unwrap().last().map(|(offset, _)| *offset);
    eventually("the end is handled", || last() == Some(MANY - 1)).await;
    let offsets: Vec<i64> = seen.0.lock().unwrap().iter().map(|(offset, _)| *offset).collect();
    println!("{} of {MANY} were in memory", offsets.iter().filter(|offset| **offset < LEFT).count());
    let left: Vec<i64> = offsets.into_iter().filter(|offset| *offset >= LEFT).collect();
    assert_eq!(left, (LEFT..MANY).collect::<Vec<_>>());
    eventually("all is committed", || committed(&sub) == Some(MANY)).await;
    zms.close(CLOSE_LIMIT).await.unwrap();
}

const MANY: i64 = 120;
/// The first offset that retention leaves.
const LEFT: i64 = 110;

fn queued(sub: &Subscription) -> usize {
    sub.inspect().partitions.iter().map(|partition| partition.queued_messages).sum()
}

/// Deletes what lies below an offset, as retention does.
fn truncate(bootstrap: &str, topic: &str, offset: i64) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("log_level", "0");
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let mut to = TopicPartitionList::new();
    to.add_partition_offset(topic, 0, Offset::Offset(offset)).unwrap();
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(60)));
    tokio::runtime::Handle::current().block_on(admin.delete_records(&to, &options)).unwrap();
}
