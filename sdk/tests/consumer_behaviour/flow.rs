//! Back-pressure: what is paused, and that it goes on.

use std::time::Duration;

use zms_sdk::consumer::PauseReason;

use crate::{
    fake::Event,
    rig::{LIMIT, Rig, Script, counts, partition, until},
};

#[tokio::test]
async fn a_stuck_message_fills_its_share_and_no_more() {
    let (rig, cluster) = Rig::new(4);
    (0..4).for_each(|p| cluster.fill(p, 3000));
    let script = Script::new();
    script.hold(0, 0);
    let sub = script.subscribe(rig.subscriber().workers(2).max_buffered_messages(400));
    until("the other worker's partitions are done", || {
        [1, 3].iter().all(|p| cluster.committed(*p) == Some(3000))
    })
    .await;
    until("the stuck partition is paused", || partition(&sub, 0).paused == Some(PauseReason::ShareFull))
        .await;
    for p in [0, 2] {
        assert!(partition(&sub, p).queued_messages <= 100, "{:?}", partition(&sub, p));
    }
    let stuck = partition(&sub, 0);
    assert_eq!(stuck.oldest.map(|oldest| oldest.offset), Some(0));
    assert!(script.begun(2).len() <= 100);
    script.release(0, 0);
    until("everything is done", || (0..4).all(|p| cluster.committed(p) == Some(3000))).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn bytes_are_limited_whatever_the_number_of_messages() {
    let (rig, cluster) = Rig::new(2);
    (0..2).for_each(|p| cluster.append(p, 1000, 1, 10_000));
    let script = Script::new();
    (0..2).for_each(|p| script.hold(p, 0));
    let sub = script.subscribe(rig.subscriber().max_buffered_bytes(300_000));
    until("both are paused", || {
        let view = sub.inspect();
        view.partitions.len() == 2 && view.partitions.iter().all(|p| p.paused.is_some())
    })
    .await;
    assert!(sub.inspect().buffered_bytes <= 300_000, "{}", sub.inspect().buffered_bytes);
    (0..2).for_each(|p| script.release(p, 0));
    let mut highest = 0;
    until("all is done", || {
        highest = highest.max(sub.inspect().buffered_bytes);
        (0..2).all(|p| cluster.committed(p) == Some(1000))
    })
    .await;
    assert!(highest <= 300_000, "{highest}");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn partitions_that_arrive_while_the_buffer_is_full_wait_and_then_flow() {
    let (rig, cluster) = Rig::new(4);
    let cluster = cluster.scripted();
    (0..4).for_each(|p| cluster.fill(p, 10_000));
    let script = Script::new();
    (0..4).for_each(|p| script.hold(p, 0));
    let sub = script.subscribe(rig.subscriber().workers(4).max_buffered_messages(1000));
    until("a member is there", || !cluster.state().members.is_empty()).await;
    let paused = || sub.inspect().partitions.iter().filter(|p| p.paused.is_some()).count();
    cluster.tell(0, Event::Assign(vec![0]));
    until("the first is paused", || paused() == 1).await;
    cluster.tell(0, Event::Assign(vec![1, 2, 3]));
    until("all four are paused", || paused() == 4).await;
    assert!(sub.inspect().buffered_messages <= 1000, "shares shrink, but the total holds all the same");
    (0..4).for_each(|p| script.release(p, 0));
    until("everything is done", || (0..4).all(|p| cluster.committed(p) == Some(10_000))).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_paused_partition_that_is_taken_and_given_back_flows_again() {
    let (rig, cluster) = Rig::new(2);
    let cluster = cluster.scripted();
    (0..2).for_each(|p| cluster.fill(p, 1000));
    let script = Script::new();
    (0..2).for_each(|p| script.hold(p, 0));
    let limit = Duration::from_millis(50);
    let sub = script.subscribe(rig.subscriber().max_buffered_messages(100).drain_limit(limit));
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0, 1]));
    until("both are paused", || cluster.state().members[0].paused.len() == 2).await;
    cluster.tell(0, Event::Revoke(vec![0, 1]));
    until("both are taken", || counts(&sub).revocations == 1).await;
    (0..2).for_each(|p| script.release(p, 0));
    cluster.tell(0, Event::Assign(vec![0, 1]));
    until("all is done", || (0..2).all(|p| cluster.committed(p) == Some(1000))).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn memory_of_a_taken_partition_is_freed_although_its_worker_is_stuck() {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    cluster.fill(0, 10_000);
    let script = Script::new();
    script.hold(0, 0);
    let limit = Duration::from_millis(10);
    let sub = script.subscribe(rig.subscriber().max_buffered_messages(3000).drain_limit(limit));
    until("a member is there", || !cluster.state().members.is_empty()).await;
    for round in 1..=5 {
        cluster.tell(0, Event::Assign(vec![0]));
        until("it is full", || sub.inspect().partitions.iter().any(|p| p.paused.is_some())).await;
        cluster.tell(0, Event::Revoke(vec![0]));
        until("it is taken", || counts(&sub).revocations == round).await;
        until("its messages are gone", || sub.inspect().buffered_messages <= 64).await;
    }
    script.release(0, 0);
    until("all are gone", || sub.inspect().buffered_messages == 0).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn polling_goes_on_while_everything_is_stuck() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 100);
    let script = Script::new();
    script.hold(0, 0);
    let sub = script.subscribe(rig.subscriber().max_buffered_messages(10));
    until("it is full", || sub.inspect().partitions.iter().any(|p| p.paused.is_some())).await;
    let polls = cluster.state().members[0].polls;
    until("it is polled on", || cluster.state().members[0].polls > polls + 20).await;
    assert_eq!(script.begun(0), [0]);
    script.release(0, 0);
    until("all is done", || cluster.committed(0) == Some(100)).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_suspended_group_stays_joined_and_handles_nothing() {
    let (rig, cluster) = Rig::new(1);
    rig.change(|route| route.suspended = true);
    cluster.fill(0, 5);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.ready().await.unwrap();
    until("it is paused", || {
        sub.inspect().partitions.iter().any(|p| p.paused == Some(PauseReason::Suspended))
    })
    .await;
    let calls = script.calls();
    assert_eq!(calls, 0);
    rig.change(|route| route.suspended = false);
    until("it goes on", || cluster.committed(0) == Some(5)).await;
    rig.change(|route| route.suspended = true);
    until("it is paused again", || partition(&sub, 0).paused == Some(PauseReason::Suspended)).await;
    cluster.fill(0, 5);
    rig.change(|route| route.suspended = false);
    until("it goes on again", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), (0..10).collect::<Vec<_>>());
    sub.shutdown(LIMIT).await.unwrap();
}
