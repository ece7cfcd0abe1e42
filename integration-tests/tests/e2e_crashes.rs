//! Members and brokers die under load.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::path::Path;
use std::time::Instant;

use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, RemoteMember, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::services::{KafkaCluster, Shared, require_services};
use zms_integration_tests::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn after_a_member_is_killed_only_uncommitted_work_is_delivered_again() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let kept = [Kept::NoLoss, Kept::AtLeastOnce, Kept::NoCopies, Kept::NothingCommittedAgain];
    let trial = Trial::prepare(&estate, 8, &kept).await;
    let program = Path::new(env!("CARGO_BIN_EXE_member"));
    let mut victim = tokio::task::block_in_place(|| RemoteMember::start(program, &estate, &trial));
    let zms = estate.open("survivor").await;
    let sender = trial.sender("steady", &zms).await;
    let short =
        |subscriber: zms_sdk::Subscriber| subscriber.workers(4).property("session.timeout.ms", "10000");
    let survivor = trial.member_with(&zms, short).await;
    eventually("both members handle messages", || {
        let own = survivor.inspect().counts.handled;
        own > 200 && trial.handled().count() > own + 200
    })
    .await;

    tokio::task::block_in_place(|| victim.kill());
    let killed = Instant::now();
    for (partition, position) in trial.committed("a").await {
        trial.kept().committed("a", partition, position);
    }
    eventually("the survivor holds all partitions", || survivor.inspect().partitions.len() == 8).await;
    let taken = killed.elapsed();
    let target = sender.sent().acknowledged();
    eventually("the survivor catches up", || trial.handled().count() > target).await;

    let sent = sender.finish().await;
    trial.settled().await;
    assert_eq!(sent.failed, Vec::<String>::new());
    zms.close(CLOSE_LIMIT).await.unwrap();
    let again = trial.handled().count() - sent.acknowledged();
    println!(
        "partitions taken over {taken:?} after the kill; {again} of {} handled again",
        sent.acknowledged()
    );
    for (partition, position) in trial.committed("a").await {
        trial.kept().committed("a", partition, position);
    }
    trial.assert_holds();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_restart_loses_nothing_and_keeps_the_order() {
    if !require_services() {
        return;
    }
    let (shared, cluster) =
        tokio::task::spawn_blocking(|| (Shared::get(), KafkaCluster::start(1).unwrap())).await.unwrap();
    let estate = Estate::on(shared.zookeeper(), &[("a", &cluster)]).await;
    let kept = [Kept::NoLoss, Kept::AtLeastOnce, Kept::PartitionOrder, Kept::KeyOrder, Kept::NoCopies];
    let trial = Trial::begin(&estate, 8, &kept).await;
    let handles = [estate.open("member-1").await, estate.open("member-2").await, estate.open("sender").await];
    let members = [trial.member(&handles[0]).await, trial.member(&handles[1]).await];
    let sender = trial.sender("steady", &handles[2]).await;
    eventually("messages are handled", || trial.handled().count() > 200).await;

    let broker = cluster.clone();
    tokio::task::spawn_blocking(move || {
        broker.kill();
        broker.restart().unwrap();
    })
    .await
    .unwrap();
    let target = sender.sent().started + 200;
    eventually("messages are handled after the restart", || trial.handled().count() > target).await;

    let sent = sender.finish().await;
    trial.settled().await;
    assert_eq!(sent.failed, Vec::<String>::new());
    for zms in &handles {
        zms.close(CLOSE_LIMIT).await.unwrap();
    }
    let counts = members.map(|member| member.inspect().counts);
    let again = trial.handled().count() - sent.acknowledged();
    println!(
        "longest send {:?}, longest time without a handler call {:?}, {again} of {} handled again; {counts:?}",
        sent.longest,
        trial.handled().longest_gap(),
        sent.acknowledged()
    );
    trial.assert_holds();
}
