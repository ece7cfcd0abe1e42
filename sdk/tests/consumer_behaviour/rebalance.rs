//! Partitions that come and go while handlers run.

use std::time::Duration;

use zms_sdk::engine::port::FailureKind;

use crate::{
    fake::{Event, failure},
    rig::{LIMIT, Rig, Script, counts, partition, until},
};

#[tokio::test]
async fn a_partition_given_back_is_not_confused_with_its_earlier_assignment() {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    cluster.fill(0, 3);
    let script = Script::new();
    script.hold(0, 0);
    let sub = script.subscribe(rig.subscriber().drain_limit(Duration::from_millis(50)));
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0]));
    until("the first message is being handled", || script.begun(0) == [0]).await;
    cluster.tell(0, Event::Revoke(vec![0]));
    cluster.tell(0, Event::Assign(vec![0]));
    until("it is given back", || counts(&sub).assignments == 2 && !sub.inspect().partitions.is_empty()).await;
    until("its messages are there again", || partition(&sub, 0).queued_messages == 3).await;
    assert_eq!(script.begun(0), [0], "the second delivery waits for the first run");

    script.release(0, 0);
    until("all is done", || cluster.committed(0) == Some(3)).await;
    assert_eq!(script.begun(0), [0, 0, 1, 2]);
    assert_eq!((script.overlaps(), counts(&sub).late_completions), (0, 1));
    assert_eq!(counts(&sub).handled, 3);
    cluster.fill(0, 1);
    until("it goes on", || cluster.committed(0) == Some(4)).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn an_earlier_run_does_not_count_for_a_later_delivery() {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    cluster.fill(0, 1);
    let script = Script::new();
    script.hold(0, 0);
    let sub = script.subscribe(rig.subscriber().drain_limit(Duration::from_millis(50)));
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0]));
    until("it is being handled", || script.begun(0) == [0]).await;
    cluster.tell(0, Event::Lose(vec![0]));
    until("it is lost", || counts(&sub).losses == 1).await;
    script.release(0, 0);
    until("the late end is noticed", || counts(&sub).late_completions == 1).await;
    assert_eq!(cluster.committed(0), Some(0), "only the start was ever committed");
    sub.shutdown(LIMIT).await.unwrap();
    assert_eq!(cluster.committed(0), Some(0));
}

#[tokio::test]
async fn a_late_end_does_not_touch_the_new_owners_position() {
    let (rig, cluster) = Rig::new(2);
    (0..2).for_each(|p| cluster.fill(p, 10));
    let script = Script::new();
    script.hold(1, 3);
    let limit = Duration::from_millis(50);
    let first = script.subscribe(rig.subscriber().drain_limit(limit));
    until("one message is stuck", || script.begun(1).len() == 4).await;
    let other = Script::new();
    let second = other.subscribe(rig.subscriber());
    until("the new owner has handled it all", || cluster.committed(1) == Some(10)).await;
    assert_eq!(other.begun(1), (3..10).collect::<Vec<_>>());
    script.release(1, 3);
    until("the late end is noticed", || counts(&first).late_completions == 1).await;
    first.shutdown(LIMIT).await.unwrap();
    assert_eq!(cluster.committed(1), Some(10));
    assert_eq!(counts(&first).drain_timeouts, 1);
    second.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn what_ends_within_the_drain_limit_is_committed_and_not_handled_again() {
    let (rig, cluster) = Rig::new(2);
    (0..2).for_each(|p| cluster.fill(p, 10));
    let script = Script::new();
    script.hold(1, 3);
    let first = script.subscribe(rig.subscriber().commit_interval(Duration::from_secs(3600)));
    until("one message is being handled", || script.begun(1).len() == 4).await;
    let other = Script::new();
    let second = other.subscribe(rig.subscriber());
    let shown = || first.inspect().partitions.iter().any(|view| view.partition == 1);
    until("its partition is being taken", || !shown()).await;
    script.release(1, 3);
    until("the new owner is done", || cluster.committed(1) == Some(10)).await;
    assert_eq!(script.begun(1), [0, 1, 2, 3], "what was queued behind it is left to the new owner");
    assert_eq!(other.begun(1), (4..10).collect::<Vec<_>>());
    assert_eq!(counts(&first).late_completions, 0);
    first.shutdown(LIMIT).await.unwrap();
    second.shutdown(LIMIT).await.unwrap();
    assert_eq!((cluster.committed(0), script.begun(0).len() + other.begun(0).len()), (Some(10), 10));
}

#[tokio::test]
async fn other_partitions_go_on_while_one_is_drained() {
    let (rig, cluster) = Rig::new(2);
    let cluster = cluster.scripted();
    (0..2).for_each(|p| cluster.fill(p, 5));
    let script = Script::new();
    script.hold(1, 0);
    let sub = script.subscribe(rig.subscriber().drain_limit(Duration::from_millis(100)));
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0, 1]));
    until("one message is stuck", || script.begun(1) == [0]).await;
    cluster.tell(0, Event::Revoke(vec![1]));
    cluster.fill(0, 50);
    until("the other partition is handled", || cluster.committed(0) == Some(55)).await;
    assert_eq!(script.begun(1), [0], "queued messages of the partition taken are skipped");
    script.release(1, 0);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_commit_refused_during_a_revocation_does_not_stop_the_member() {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    cluster.fill(0, 5);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().commit_interval(Duration::from_secs(3600)));
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0]));
    until("all is done", || counts(&sub).handled == 5).await;
    cluster.state().commit_errors.push_back(failure(FailureKind::Superseded));
    cluster.tell(0, Event::Revoke(vec![0]));
    cluster.tell(0, Event::Assign(vec![0]));
    until("it is handled again", || counts(&sub).handled == 10).await;
    sub.shutdown(LIMIT).await.unwrap();
    assert_eq!(cluster.committed(0), Some(5));
}

#[tokio::test]
async fn members_come_and_go_and_everything_is_handled_in_order() {
    let (rig, cluster) = Rig::new(6);
    let script = Script::new();
    let steady = script.subscribe(rig.subscriber());
    for round in 1..=8 {
        (0..6).for_each(|p| cluster.fill(p, 200));
        let guest = script.subscribe(rig.subscriber());
        guest.ready().await.unwrap();
        until("this round is handled", || (0..6).all(|p| cluster.committed(p) == Some(round * 200))).await;
        guest.shutdown(LIMIT).await.unwrap();
    }
    for p in 0..6 {
        assert_eq!(script.begun(p), (0..1600).collect::<Vec<_>>(), "partition {p}: each once and in order");
    }
    assert_eq!(script.overlaps(), 0);
    steady.shutdown(LIMIT).await.unwrap();
}
