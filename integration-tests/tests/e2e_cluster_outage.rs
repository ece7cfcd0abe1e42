//! The old cluster is dead when a topic is sent elsewhere.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::{Duration, Instant};

use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::services::{KafkaCluster, Shared, require_services};
use zms_integration_tests::wait::eventually;
use zms_sdk::ClusterName;
use zms_sdk::admin::Safety;
use zms_sdk::producer::ProducerOptions;

/// How long a message may be on its way.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(40);
/// By no limit but that for an unreachable cluster does a member leave the old one.
const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn services_leave_a_dead_cluster_and_its_remainder_is_handled_when_it_is_back() {
    if !require_services() {
        return;
    }
    let (shared, dying) =
        tokio::task::spawn_blocking(|| (Shared::get(), KafkaCluster::start(1).unwrap())).await.unwrap();
    let estate = Estate::on(shared.zookeeper(), &[("a", &dying), ("b", shared.b())]).await;
    let trial = Trial::begin(&estate, 4, &[Kept::NoLoss, Kept::AtLeastOnce, Kept::PartitionOrder]).await;
    let short =
        ProducerOptions::new().property("message.timeout.ms", &DELIVERY_TIMEOUT.as_millis().to_string());
    let short = short.property("request.timeout.ms", "3000");
    let sending = estate.builder("sender").producer(short).connect().await.unwrap();
    let handles = [estate.open("member-1").await, estate.open("member-2").await, sending];
    let limits =
        |s: zms_sdk::Subscriber| s.workers(4).switch_limit(NEVER).unreachable_limit(Duration::from_secs(5));
    let members =
        [trial.member_with(&handles[0], limits).await, trial.member_with(&handles[1], limits).await];
    let sender = trial.sender("steady", &handles[2]).await;
    eventually("messages are handled on a", || trial.handled().on("a") > 100).await;

    // A remainder on a: acknowledged there, and handled by nobody.
    let suspend = |group: &mut zms_sdk::admin::GroupMeta| group.suspend = true;
    estate.admin().set_group(trial.group(), Safety::Checked, suspend).await.unwrap();
    eventually("a remainder builds up", || trial.kept().outstanding() > 100).await;
    let before = trial.committed("a").await;
    dying.kill();
    let on_a = sender.sent();
    eventually("sends are stuck", || sender.sent().started > on_a.acknowledged() + 50).await;

    estate.set_topic_cluster(trial.topic(), "b").await;
    let changed = Instant::now();
    eventually("a send arrives on b", || sender.sent().by_cluster.contains_key("b")).await;
    let first_send = changed.elapsed();
    let b = ClusterName::new("b").unwrap();
    let follow = |group: &mut zms_sdk::admin::GroupMeta| {
        (group.suspend, group.cluster) = (false, b.clone());
    };
    estate.admin().set_group(trial.group(), Safety::Forced, follow).await.unwrap();
    let changed = Instant::now();
    eventually("messages are handled on b", || trial.handled().on("b") > 100).await;
    let first_handled = changed.elapsed();
    println!(
        "first send on b {first_send:?} after the change, handlers there {first_handled:?} after theirs"
    );
    assert!(first_send < DELIVERY_TIMEOUT, "{first_send:?}: sends waited for those stuck on a");
    let gave_up = || members.iter().all(|member| member.inspect().counts.forced_switches == 1);
    eventually("both members have given a up", gave_up).await;

    // The delivery timeout ends what was in flight to a.
    let sent = sender.finish().await;
    let stats = handles[2].status().sends;
    println!(
        "{} acknowledged, {} without: {:?}",
        sent.acknowledged(),
        sent.failed.len(),
        sent.failed.first()
    );
    println!("{stats:?}");
    assert!(sent.failed.iter().all(|error| error.contains("cluster a")), "{:?}", sent.failed);
    assert_eq!((stats.late_switches, stats.held), (1, 0), "{stats:?}");
    assert_eq!(stats.left_behind, sent.failed.len() as u64, "only what was in flight to a has failed");
    eventually("everything on b is handled", || trial.handled().on("b") == sent.by_cluster["b"]).await;
    let remainder = trial.kept().outstanding();
    assert!(remainder > 0, "the remainder on a waits");

    let back = dying.clone();
    tokio::task::spawn_blocking(move || back.restart().unwrap()).await.unwrap();
    let after = trial.committed("a").await;
    for (partition, position) in &before {
        let kept = after.get(partition).copied().unwrap_or_default();
        assert!(kept >= *position, "partition {partition}: {kept} after {position}");
    }
    assert_eq!(trial.kept().outstanding(), remainder, "nobody reads a as long as the group's route is b");
    estate.set_group_cluster(trial.group(), "a").await;
    trial.settled().await;
    println!("a is back: positions {before:?} then, {after:?} now; {remainder} left there were handled");
    for zms in &handles {
        zms.close(CLOSE_LIMIT).await.unwrap();
    }
    trial.assert_holds();
}
