//! An operator changes the cluster of a topic and of its group by hand while traffic flows.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::Duration;

use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, Sender, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::services::require_services;
use zms_integration_tests::wait::eventually;
use zms_sdk::consumer::Ordering;
use zms_sdk::{Subscription, Zms};

/// Handled on a cluster before the next change, so that each change meets running traffic.
const SOME: u64 = 300;

/// How long a send or the group may stand still at a change; far more than a change takes on a busy machine.
const GAP_LIMIT: Duration = Duration::from_secs(45);

const BY_KEY: &[Kept] = &[Kept::NoLoss, Kept::AtLeastOnce, Kept::KeyOrder, Kept::NoDuplicates];

/// Four senders in two processes, a group of two members in two more.
struct Running {
    trial: Trial,
    handles: Vec<Zms>,
    senders: Vec<Sender>,
    members: Vec<Subscription>,
}

#[tokio::test(flavor = "multi_thread")]
async fn services_follow_a_change_by_hand_without_loss_duplicates_or_reordering() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let running = Running::start(&estate, Ordering::Partition).await;
    running.until_handled_on("a").await;
    running.change(&estate, "b").await;
    running.finish("a to b", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_follow_there_and_back() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let running = Running::start(&estate, Ordering::Partition).await;
    running.until_handled_on("a").await;
    running.change(&estate, "b").await;
    running.change(&estate, "a").await;
    running.finish("a to b to a", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_in_the_order_of_keys_follows_there_and_back() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let running = Running::start(&estate, Ordering::Key).await;
    running.until_handled_on("a").await;
    running.change(&estate, "b").await;
    running.change(&estate, "a").await;
    running.finish("a to b to a by key", 2).await;
}

impl Running {
    async fn start(estate: &Estate, ordering: Ordering) -> Self {
        let kept = if ordering == Ordering::Key { BY_KEY } else { Kept::CLEAN };
        let trial = Trial::begin(estate, 8, kept).await;
        let (mut handles, mut members, mut senders) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=2 {
            let zms = estate.open(&format!("member-{number}")).await;
            members.push(trial.member_with(&zms, |s| s.workers(4).ordering(ordering)).await);
            handles.push(zms);
        }
        for process in 1..=2 {
            let zms = estate.open(&format!("sender-{process}")).await;
            for task in 1..=2 {
                senders.push(trial.sender(&format!("process-{process}-task-{task}"), &zms).await);
            }
            handles.push(zms);
        }
        Self { trial, handles, senders, members }
    }

    async fn change(&self, estate: &Estate, cluster: &str) {
        estate.set_topic_cluster(self.trial.topic(), cluster).await;
        estate.set_group_cluster(self.trial.group(), cluster).await;
        // A member that is still on the old cluster at the next change may have no move to make.
        let arrived = || self.members.iter().all(|member| member.inspect().cluster.as_str() == cluster);
        eventually(&format!("all members are on {cluster}"), arrived).await;
        self.until_handled_on(cluster).await;
    }

    async fn until_handled_on(&self, cluster: &str) {
        let before = self.trial.handled().on(cluster);
        let handled = || self.trial.handled().on(cluster) > before + SOME;
        eventually(&format!("messages are handled on {cluster}"), handled).await;
    }

    async fn finish(self, what: &str, changes: u64) {
        let mut sent = Vec::new();
        for sender in self.senders {
            sent.push(sender.finish().await);
        }
        self.trial.settled().await;
        let gap = self.trial.handled().longest_gap();
        let stall = sent.iter().map(|sent| sent.longest).max().unwrap_or_default();
        let total: u64 = sent.iter().map(zms_integration_tests::estate::Sent::acknowledged).sum();
        println!(
            "{what}: {total} messages, longest send {stall:?}, longest time without a handler call {gap:?}"
        );
        assert!(gap < GAP_LIMIT && stall < GAP_LIMIT);

        let failed: Vec<&String> = sent.iter().flat_map(|sent| &sent.failed).collect();
        assert_eq!(failed, Vec::<&String>::new());
        for member in &self.members {
            let counts = member.inspect().counts;
            assert_eq!((counts.switches, counts.forced_switches), (changes, 0), "{counts:?}");
        }
        for zms in &self.handles {
            let stats = zms.status().sends;
            assert_eq!((stats.late_switches, stats.left_behind, stats.unusable), (0, 0, 0), "{stats:?}");
            zms.close(CLOSE_LIMIT).await.unwrap();
        }
        assert_eq!(self.trial.handled().count(), total);
        self.trial.assert_holds();
    }
}
