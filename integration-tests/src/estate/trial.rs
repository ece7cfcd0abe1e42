//! One topic and one group under observation.

use std::collections::BTreeMap;
use std::time::Duration;

use zms_core::sequence::Position;
use zms_sdk::{Delivery, GroupName, Outcome, Subscriber, Subscription, TopicName, Zms};

use super::positions::{Committed, Place, Watch};
use super::{Estate, Handled, Sender};
use crate::guarantees::{Guarantees, Kept, Record};
use crate::wait::eventually;

const PACE: Duration = Duration::from_millis(1);

/// A topic with senders and a group with members, held to guarantees over every message.
pub struct Trial {
    topic: TopicName,
    group: GroupName,
    kept: Guarantees,
    handled: Handled,
    clusters: Vec<(String, String)>,
    partitions: i32,
    watch: Option<Watch>,
    pace: fn(&Record) -> Duration,
}

impl Trial {
    /// A new topic and a new group on the estate's first cluster; the group's positions on all clusters are watched.
    ///
    /// # Panics
    /// When the estate refuses.
    pub async fn begin(estate: &Estate, partitions: i32, kept: &[Kept]) -> Self {
        Self::prepare(estate, partitions, kept).await.watched()
    }

    /// As [`begin`](Self::begin), without watching positions: for members in other processes, whose doings are heard
    /// of later than their commits.
    ///
    /// # Panics
    /// When the estate refuses.
    pub async fn prepare(estate: &Estate, partitions: i32, kept: &[Kept]) -> Self {
        let topic = estate.topic("orders", partitions).await;
        let group = estate.group(&topic).await;
        let kept = Guarantees::of_group(group.as_str(), kept);
        let bootstrap = |(name, cluster): &(zms_sdk::ClusterName, crate::services::KafkaCluster)| {
            (name.to_string(), cluster.direct_bootstrap())
        };
        let clusters = estate.clusters().iter().map(bootstrap).collect();
        Self {
            topic,
            group,
            kept,
            handled: Handled::default(),
            clusters,
            partitions,
            watch: None,
            pace: |_| PACE,
        }
    }

    /// Sets how long members that join from now on take for a message. Default: a millisecond, long enough for a second
    /// call on the same lane to be seen, if there were one.
    #[must_use]
    pub fn paced(mut self, pace: fn(&Record) -> Duration) -> Self {
        self.pace = pace;
        self
    }

    fn watched(mut self) -> Self {
        let places = self.clusters.iter().map(|(cluster, _)| self.place(cluster)).collect();
        self.watch = Some(Watch::start(places, self.kept.clone()));
        self
    }

    fn place(&self, cluster: &str) -> Place {
        let (cluster, bootstrap) =
            self.clusters.iter().find(|(name, _)| name == cluster).expect("a cluster of the estate").clone();
        let (group, topic) = (self.group.to_string(), self.topic.to_string());
        Place { cluster, bootstrap, group, topic, partitions: self.partitions }
    }

    /// The topic.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// The group.
    pub fn group(&self) -> &GroupName {
        &self.group
    }

    /// What the group is held to.
    pub fn kept(&self) -> &Guarantees {
        &self.kept
    }

    /// What its members handled.
    pub fn handled(&self) -> &Handled {
        &self.handled
    }

    /// Starts a sender; its name must be its own.
    ///
    /// # Panics
    /// When the topic cannot be resolved.
    pub async fn sender(&self, name: &str, zms: &Zms) -> Sender {
        let producer = zms.producer(self.topic.as_str()).await.expect("the topic is known");
        Sender::start(name, producer, &self.kept)
    }

    /// Joins a member with four workers, and waits for its assignment.
    ///
    /// # Panics
    /// When it cannot join.
    pub async fn member(&self, zms: &Zms) -> Subscription {
        self.member_with(zms, |subscriber| subscriber.workers(4)).await
    }

    /// Joins a member, and waits for its assignment.
    ///
    /// # Panics
    /// When it cannot join.
    pub async fn member_with(
        &self,
        zms: &Zms,
        options: impl FnOnce(Subscriber) -> Subscriber,
    ) -> Subscription {
        let (kept, handled, pace) = (self.kept.clone(), self.handled.clone(), self.pace);
        let subscriber = options(zms.subscribe(self.group.as_str()));
        let subscription = subscriber
            .handle(move |delivery: Delivery| handle(delivery, kept.clone(), handled.clone(), pace))
            .await
            .expect("the group is known");
        subscription.ready().await.expect("the group can be joined");
        subscription
    }

    /// Waits until everything acknowledged so far is handled.
    ///
    /// # Panics
    /// When it is not within the limit of the wait.
    pub async fn settled(&self) {
        eventually("everything acknowledged is handled", || self.kept.outstanding() == 0).await;
    }

    /// The group's committed positions on a cluster, by partition.
    ///
    /// # Panics
    /// When the cluster does not answer.
    pub async fn committed(&self, cluster: &str) -> BTreeMap<i32, i64> {
        self.progress(cluster).await.into_iter().map(|found| (found.partition, found.position)).collect()
    }

    /// What the group has committed on a cluster: its positions, and what is noted beside them.
    ///
    /// # Panics
    /// When the cluster does not answer.
    pub async fn progress(&self, cluster: &str) -> Vec<Committed> {
        let place = self.place(cluster);
        let found = tokio::task::spawn_blocking(move || place.committed()).await;
        found.expect("the cluster answers")
    }

    /// Ends the observation.
    ///
    /// # Panics
    /// When a guarantee was broken.
    #[track_caller]
    pub fn assert_holds(mut self) {
        drop(self.watch.take());
        self.kept.assert_holds();
        assert_eq!(self.handled.foreign(), 0, "only numbered messages were sent");
    }
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial")
            .field("topic", &self.topic)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

async fn handle(
    delivery: Delivery,
    kept: Guarantees,
    handled: Handled,
    pace: fn(&Record) -> Duration,
) -> Outcome {
    let at = Position {
        cluster: delivery.cluster().to_string(),
        partition: delivery.partition(),
        offset: delivery.offset(),
    };
    let Some(record) = Record::read(delivery.payload().unwrap_or_default(), delivery.key(), at) else {
        handled.note_foreign();
        return Outcome::Done;
    };
    let call = kept.handling(&record);
    tokio::time::sleep(pace(&record)).await;
    handled.note(&record.at.cluster);
    call.done();
    Outcome::Done
}
