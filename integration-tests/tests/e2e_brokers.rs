//! Brokers of a replicated cluster die under a group: one that leads partitions, and the one that coordinates the group.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, Sender, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::services::{Broker, KafkaCluster, ZooKeeperServer, require_services};
use zms_integration_tests::wait::eventually;
use zms_sdk::consumer::Ordering;
use zms_sdk::{Subscription, Zms};

/// One for each broker to lead.
const PARTITIONS: i32 = 3;
const KEPT: [Kept; 4] = [Kept::NoLoss, Kept::AtLeastOnce, Kept::KeyOrder, Kept::NoCopies];
const OFFSETS: &str = "__consumer_offsets";

#[tokio::test(flavor = "multi_thread")]
async fn a_group_outlives_the_broker_that_leads_its_partitions_and_the_one_that_coordinates_it() {
    if !require_services() {
        return;
    }
    let (zookeeper, cluster) =
        tokio::task::spawn_blocking(|| (ZooKeeperServer::start().unwrap(), KafkaCluster::start(3).unwrap()))
            .await
            .unwrap();
    let estate = Estate::on(&zookeeper, &[("a", &cluster)]).await;

    let group = Group::start(&estate).await;
    let coordinator = coordinator(&cluster, group.trial.group().as_str());
    let other = cluster.brokers().iter().find(|broker| broker.id() != coordinator).unwrap();
    let led = led_by(&cluster, group.trial.topic().as_str(), other.id());
    assert!(!led.is_empty(), "each broker leads a partition");
    group.survives(&cluster, other).await;
    group.finish("a leader died").await;

    let group = Group::start(&estate).await;
    let coordinator = self::coordinator(&cluster, group.trial.group().as_str());
    let broker = cluster.brokers().iter().find(|broker| broker.id() == coordinator).unwrap();
    group.survives(&cluster, broker).await;
    assert_ne!(self::coordinator(&cluster, group.trial.group().as_str()), coordinator);
    group.finish("the coordinator died").await;
}

/// Two members of a group, in the order of keys, and a sender.
struct Group {
    trial: Trial,
    handles: Vec<Zms>,
    members: Vec<Subscription>,
    sender: Sender,
}

impl Group {
    async fn start(estate: &Estate) -> Self {
        let trial = Trial::begin(estate, PARTITIONS, &KEPT).await;
        let (mut handles, mut members) = (Vec::new(), Vec::new());
        for name in ["member-1", "member-2", "sender"] {
            handles.push(estate.open(name).await);
        }
        for zms in &handles[..2] {
            // Members must not be taken for dead in the time that a new coordinator takes to load the group.
            let member = trial.member_with(zms, |subscriber| {
                subscriber.workers(8).ordering(Ordering::Key).property("session.timeout.ms", "60000")
            });
            members.push(member.await);
        }
        let sender = trial.sender("steady", &handles[2]).await;
        let group = Self { trial, handles, members, sender };
        group.goes_on("messages are handled and committed").await;
        group
    }

    /// Kills a broker, sees the group go on without it, and starts it again.
    async fn survives(&self, cluster: &KafkaCluster, broker: &Broker) {
        broker.kill();
        let dead = broker.id();
        let topics = [self.trial.topic().as_str(), OFFSETS];
        eventually("what it led is led by others", || {
            topics.iter().all(|topic| led_by(cluster, topic, dead).is_empty())
        })
        .await;
        self.goes_on("messages are handled and committed without it").await;
        let (cluster, index) = (cluster.clone(), usize::try_from(dead - 1).unwrap());
        tokio::task::spawn_blocking(move || cluster.broker(index).restart().unwrap()).await.unwrap();
        self.goes_on("messages are handled and committed with it").await;
    }

    /// What is sent from now on is handled, and positions beyond what was committed are committed, on every partition.
    async fn goes_on(&self, what: &str) {
        let target = self.trial.handled().count() + 300;
        let (before, after) = (self.committed(), || self.committed());
        let moved = |before: &[i64], after: &[i64]| after.iter().zip(before).all(|(now, then)| now > then);
        eventually(what, || self.trial.handled().count() > target && moved(&before, &after())).await;
    }

    /// As the members know it, by partition; -1 where nobody holds it.
    fn committed(&self) -> Vec<i64> {
        let mut committed = vec![-1; usize::try_from(PARTITIONS).unwrap()];
        for view in self.members.iter().flat_map(|member| member.inspect().partitions) {
            committed[usize::try_from(view.partition).unwrap()] = view.committed.unwrap_or(-1);
        }
        committed
    }

    async fn finish(self, what: &str) {
        let sent = self.sender.finish().await;
        self.trial.settled().await;
        assert_eq!(sent.failed, Vec::<String>::new());
        for zms in &self.handles {
            zms.close(CLOSE_LIMIT).await.unwrap();
        }
        let counts: Vec<_> = self.members.iter().map(|member| member.inspect().counts).collect();
        println!(
            "{what}: {} messages, longest send {:?}, longest time without a handler call {:?}, {} handled again; {counts:?}",
            sent.acknowledged(),
            sent.longest,
            self.trial.handled().longest_gap(),
            self.trial.handled().count() - sent.acknowledged(),
        );
        self.trial.assert_holds();
    }
}

/// The partitions of a topic that a broker leads, as the others know it.
fn led_by(cluster: &KafkaCluster, topic: &str, broker: i32) -> BTreeSet<i32> {
    leaders(cluster, topic).into_iter().filter(|(_, leader)| *leader == broker).map(|(p, _)| p).collect()
}

fn leaders(cluster: &KafkaCluster, topic: &str) -> Vec<(i32, i32)> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.direct_bootstrap()).set("log_level", "0");
    let client: BaseConsumer = config.create().unwrap();
    let metadata = client.fetch_metadata(Some(topic), Duration::from_secs(30)).unwrap();
    let partitions = metadata.topics()[0].partitions();
    partitions.iter().map(|partition| (partition.id(), partition.leader())).collect()
}

/// The broker that leads the partition of the topic of offsets in which the group's are.
fn coordinator(cluster: &KafkaCluster, group: &str) -> i32 {
    let leaders = leaders(cluster, OFFSETS);
    // Java's hash of a string.
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    let count = i32::try_from(leaders.len()).unwrap();
    let partition = hash.checked_abs().unwrap_or(0) % count;
    leaders.into_iter().find(|(id, _)| *id == partition).unwrap().1
}
