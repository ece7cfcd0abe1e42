//! What cannot work is refused with an error that names it and says what to do, within its limit.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::Duration;

use tokio::time::timeout;
use zms_integration_tests::estate::{CLOSE_LIMIT, Estate};
use zms_integration_tests::services::require_services;
use zms_integration_tests::wait::eventually;
use zms_sdk::admin::Format;
use zms_sdk::consumer::{IntoOutcome, State};
use zms_sdk::engine::port::FailureKind;
use zms_sdk::producer::{ProducerOptions, SendOutcome};
use zms_sdk::registry::port::Registry as _;
use zms_sdk::registry::{ZooKeeper, ZooKeeperOptions};
use zms_sdk::{
    ClusterName, Delivery, GroupName, Message, Outcome, ResolveError, SendError, SubscribeError,
    Subscription, TopicName, Zms,
};

/// How long a name that leads nowhere is waited for, and one that leads somewhere at most.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a message may be on its way.
const DELIVERY_TIMEOUT: &str = "9000";
/// None of the refusals here may take longer.
const LIMIT: Duration = Duration::from_secs(60);

struct Table {
    estate: Estate,
    registry: ZooKeeper,
    zms: Zms,
}

impl Table {
    async fn lay() -> Self {
        let estate = Estate::shared().await;
        let registry = ZooKeeper::connect(ZooKeeperOptions::new(estate.connect_string())).await.unwrap();
        let producer = ProducerOptions::new().property("message.timeout.ms", DELIVERY_TIMEOUT);
        let producer = producer.property("request.timeout.ms", "2000");
        let builder = estate.builder("refused").resolve_timeout(RESOLVE_TIMEOUT).producer(producer);
        let zms = builder.connect().await.unwrap();
        Self { estate, registry, zms }
    }

    async fn node(&self, path: &str, data: &str) {
        for (end, _) in path.match_indices('/').skip(1) {
            // Somebody may have made it.
            let _ = self.registry.create(&path[..end], "".into()).await;
        }
        self.registry.create(path, data.to_owned().into()).await.unwrap();
    }

    async fn send_error(&self, topic: &str) -> SendError {
        let sent = timeout(LIMIT, self.zms.send(topic, Message::new("refused"))).await;
        sent.expect("it ends within its limit").unwrap_err()
    }

    async fn resolve_error(&self, topic: &str) -> ResolveError {
        let error = self.send_error(topic).await;
        assert_eq!((error.outcome(), error.topic()), (SendOutcome::NotSent, topic));
        let SendError::Unresolved { source, message, .. } = error else { panic!("{error:?}") };
        assert_eq!(message.into_inner(), Some(Message::new("refused")), "the message comes back");
        source
    }

    async fn subscribe_error(&self, group: &str) -> SubscribeError {
        let begun = timeout(LIMIT, self.zms.subscribe(group).handle(done)).await;
        begun.expect("it ends within its limit").unwrap_err()
    }
}

async fn done(_: Delivery) -> impl IntoOutcome {
    Outcome::Done
}

fn assert_says(error: &impl std::fmt::Display, words: &[&str]) {
    let text = error.to_string();
    println!("{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_lead_nowhere_are_told_with_the_way_to_mend_them() {
    if !require_services() {
        return;
    }
    let table = Table::lay().await;
    let error = table.resolve_error("nowhere").await;
    assert!(matches!(error, ResolveError::UnknownTopic { .. }), "{error:?}");
    assert_says(&error, &["nowhere", "zmsctl topic add"]);

    let error = table.subscribe_error("nobody").await;
    assert!(matches!(error, SubscribeError::Unresolved(ResolveError::UnknownGroup { .. })), "{error:?}");
    assert_says(&error, &["nobody", "zmsctl group add"]);

    table.node("/zms/topic/torn", r#"{"schema":1,"cluster":"#).await;
    let error = table.resolve_error("torn").await;
    assert!(matches!(error, ResolveError::Unreadable { .. }), "{error:?}");
    assert_says(&error, &["/zms/topic/torn", "doctor"]);

    table.node("/zms/topic/lost", "clusterName=atlantis\ntype=topic").await;
    let error = table.resolve_error("lost").await;
    assert!(matches!(error, ResolveError::UnknownCluster { .. }), "{error:?}");
    assert_says(&error, &["topic lost", "atlantis", "zmsctl cluster add"]);

    table.node("/zms/cluster/rocket", "bootAddr=127.0.0.1:9876\nbrokerType=rocketmq").await;
    table.node("/zms/topic/launch", "clusterName=rocket\ntype=topic").await;
    let error = table.resolve_error("launch").await;
    assert!(matches!(error, ResolveError::UnsupportedBroker { .. }), "{error:?}");
    assert_says(&error, &["topic launch", "rocket", "rocketmq", "kafka"]);

    table.node("/zms/cluster/empty", r#"{"schema":1,"bootstrap":""}"#).await;
    table.node("/zms/topic/homeless", r#"{"schema":1,"cluster":"empty"}"#).await;
    assert_says(&table.resolve_error("homeless").await, &["/zms/cluster/empty", "bootstrap"]);

    let error = table.resolve_error("no/name").await;
    assert!(matches!(error, ResolveError::Name(_)), "{error:?}");
    table.zms.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_does_not_take_comes_back_with_the_reason() {
    if !require_services() {
        return;
    }
    let table = Table::lay().await;
    table.node("/zms/cluster/dark", r#"{"schema":1,"bootstrap":"127.0.0.1:1"}"#).await;
    table.node("/zms/topic/unheard", r#"{"schema":1,"cluster":"dark"}"#).await;
    let error = table.send_error("unheard").await;
    assert_eq!(error.outcome(), SendOutcome::NotSent, "{error:?}");
    assert!(error.is_retryable());
    assert_says(&error, &["topic unheard", "cluster dark"]);

    let topic = table.estate.topic("narrow", 1).await;
    let large = Message::new(vec![7; 2_000_000]);
    let error = timeout(LIMIT, table.zms.send(topic.as_str(), large.clone())).await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::TooLarge { .. }), "{error:?}");
    assert_says(&error, &[topic.as_str(), "2000000", "limit"]);
    assert_eq!(error.into_message(), Some(large));

    let (absent, a) = (TopicName::new("absent").unwrap(), ClusterName::new("a").unwrap());
    table.estate.admin().add_topic(&absent, Format::Json, &a, |_| ()).await.unwrap();
    let error = table.send_error("absent").await;
    let is_unknown = matches!(error, SendError::NotSent { kind: FailureKind::UnknownTopic, .. });
    assert!(is_unknown, "{error:?}");
    assert_says(&error, &["topic absent", "cluster a"]);
    let (_, cluster) = table.estate.clusters()[0].clone();
    tokio::task::spawn_blocking(move || cluster.create_topic("absent", 1).unwrap()).await.unwrap();
    let receipt = timeout(LIMIT, send_until_taken(&table.zms, "absent")).await.expect("it is found");
    assert_eq!(receipt.offset, Some(0));
    table.zms.close(CLOSE_LIMIT).await.unwrap();
}

async fn send_until_taken(zms: &Zms, topic: &str) -> zms_sdk::Receipt {
    loop {
        if let Ok(receipt) = zms.send(topic, Message::new("found")).await {
            return receipt;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_and_a_group_that_appear_while_they_are_waited_for_are_found() {
    if !require_services() {
        return;
    }
    let table = Table::lay().await;
    let patient = table.estate.builder("patient").resolve_timeout(LIMIT).connect().await.unwrap();
    let topic = table.estate.topic("late", 1).await;
    table.estate.admin().remove_topic(&topic, zms_sdk::admin::Safety::Forced).await.unwrap();
    let (zms, name) = (patient.clone(), topic.to_string());
    let sending = tokio::spawn(async move { zms.send(&name, Message::new("early")).await });
    let zms = patient.clone();
    let joining = tokio::spawn(async move { zms.subscribe("latecomer").handle(done).await });
    eventually("both are waited for", || patient.status().troubles.len() == 2).await;
    assert!(!sending.is_finished() && !joining.is_finished());

    let (admin, group) = (table.estate.admin(), GroupName::new("latecomer").unwrap());
    admin.add_topic(&topic, Format::Properties, &ClusterName::new("b").unwrap(), |_| ()).await.unwrap();
    admin.add_group(&group, Format::Properties, &topic, |_| ()).await.unwrap();
    let receipt = timeout(LIMIT, sending).await.expect("the topic is found").unwrap().unwrap();
    assert_eq!(receipt.cluster.as_str(), "b");
    let subscription: Subscription =
        timeout(LIMIT, joining).await.expect("the group is found").unwrap().unwrap();
    eventually("its message is handled", || subscription.inspect().counts.handled == 1).await;
    patient.close(CLOSE_LIMIT).await.unwrap();
    assert_eq!(subscription.inspect().state, State::Closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_subscribed_to_once_and_a_closed_handle_takes_nothing() {
    if !require_services() {
        return;
    }
    let table = Table::lay().await;
    let topic = table.estate.topic("once", 1).await;
    let group = table.estate.group(&topic).await;
    let producer = table.zms.producer(topic.as_str()).await.unwrap();
    let first = table.zms.subscribe(group.as_str()).handle(done).await.unwrap();
    let error = table.subscribe_error(group.as_str()).await;
    assert!(matches!(error, SubscribeError::AlreadySubscribed { .. }), "{error:?}");
    assert_says(&error, &[group.as_str(), "workers"]);
    first.shutdown(LIMIT).await.unwrap();
    let again = table.zms.subscribe(group.as_str()).handle(done).await.unwrap();
    again.ready().await.unwrap();

    table.zms.close(CLOSE_LIMIT).await.unwrap();
    let message = Message::new("late").key("k");
    let error = timeout(LIMIT, producer.send(message.clone())).await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::Closed { .. }), "{error:?}");
    assert_says(&error, &[topic.as_str(), "closed"]);
    assert_eq!(error.into_message(), Some(message));
    let error = table.send_error("another").await;
    assert_eq!(error.outcome(), SendOutcome::NotSent);
    assert_says(&error, &["closed"]);
    assert_says(&table.subscribe_error(group.as_str()).await, &["closed"]);
    timeout(LIMIT, table.zms.close(CLOSE_LIMIT)).await.expect("a second close returns").unwrap();
}
