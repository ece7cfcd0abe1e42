//! Pause, resume, seek, suspend: orders to a subscription that runs.

use std::time::Duration;

use zms_sdk::{
    consumer::{PauseReason, SeekError, SeekTo, State, Subscription},
    engine::port::FailureKind,
};

use crate::{
    fake::{Event, failure},
    rig::{LIMIT, Rig, Script, counts, partition, until},
};

const NEVER: Duration = Duration::from_secs(3600);

fn is_paused(sub: &Subscription, number: i32) -> bool {
    partition(sub, number).paused == Some(PauseReason::Requested)
}

#[tokio::test]
async fn a_paused_subscription_fetches_nothing_and_stays_in_the_group() {
    let (rig, cluster) = Rig::new(2);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("both are held", || sub.inspect().partitions.len() == 2).await;
    sub.pause();
    until("both are paused", || (0..2).all(|p| is_paused(&sub, p))).await;
    (0..2).for_each(|p| cluster.fill(p, 5));
    let polls = cluster.state().members[0].polls;
    until("it polls on", || cluster.state().members[0].polls > polls + 5).await;
    assert_eq!(script.calls(), 0);
    assert!(!cluster.state().members[0].left);
    sub.resume();
    until("all is handled", || (0..2).all(|p| cluster.committed(p) == Some(5))).await;
    assert_eq!(counts(&sub).handled, 10);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_pause_by_number_holds_its_partition_alone_and_survives_a_rebalance() {
    let (rig, cluster) = Rig::new(2);
    let cluster = cluster.scripted();
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.pause_partitions(&[1, 7]);
    until("it has joined", || !cluster.state().members.is_empty()).await;
    (0..2).for_each(|p| cluster.fill(p, 5));
    cluster.tell(0, Event::Assign(vec![0, 1]));
    until("the other one flows", || cluster.committed(0) == Some(5)).await;
    assert!(is_paused(&sub, 1));
    cluster.tell(0, Event::Revoke(vec![1]));
    cluster.tell(0, Event::Assign(vec![1]));
    until("it is given again", || counts(&sub).assignments == 2).await;
    cluster.fill(0, 5);
    until("the other one flows on", || cluster.committed(0) == Some(10)).await;
    assert!(is_paused(&sub, 1));
    assert_eq!(script.begun(1).len(), 0);
    sub.resume();
    cluster.fill(0, 1);
    until("the other one flows on", || cluster.committed(0) == Some(11)).await;
    assert!(is_paused(&sub, 1), "it was not paused with all");
    sub.resume_partitions(&[1]);
    until("it flows", || cluster.committed(1) == Some(5)).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_pause_holds_a_move_up_instead_of_leaving_messages_behind() {
    let (rig, old) = Rig::new(1);
    let new = rig.engine.cluster("b", 1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().switch_limit(Duration::from_secs(2)));
    sub.ready().await.unwrap();
    sub.pause();
    until("it is paused", || is_paused(&sub, 0)).await;
    old.fill(0, 5);
    new.fill(0, 5);
    rig.move_to("b");
    until("it is switching", || sub.inspect().state == State::Switching).await;
    // Beyond the limit.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(new.state().members.is_empty());
    sub.resume();
    until("both are handled", || old.committed(0) == Some(5) && new.committed(0) == Some(5)).await;
    assert_eq!(counts(&sub).forced_switches, 0);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_suspended_group_stays_joined_handles_nothing_and_goes_on() {
    let (rig, cluster) = Rig::new(2);
    rig.change(|route| route.suspended = true);
    (0..2).for_each(|p| cluster.fill(p, 5));
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.ready().await.unwrap();
    until("both are suspended", || {
        let held = sub.inspect().partitions;
        held.len() == 2 && held.iter().all(|p| p.paused == Some(PauseReason::Suspended))
    })
    .await;
    let polls = cluster.state().members[0].polls;
    until("it polls on", || cluster.state().members[0].polls > polls + 5).await;
    assert_eq!((script.calls(), cluster.state().members[0].left), (0, false));
    rig.change(|route| route.suspended = false);
    until("all is handled", || (0..2).all(|p| cluster.committed(p) == Some(5))).await;
    assert_eq!((counts(&sub).assignments, counts(&sub).rebuilds), (2, 0), "one for each partition");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_seek_back_handles_again_and_is_committed_below_the_old_position() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("all is handled", || cluster.committed(0) == Some(10)).await;
    script.hold(0, 4);
    assert_eq!(sub.seek(0, SeekTo::Offset(3)).await, Ok(3));
    until("the position went back", || cluster.committed(0) == Some(4)).await;
    script.release(0, 4);
    until("all is handled again", || cluster.committed(0) == Some(10)).await;
    let expected: Vec<i64> = (0..10).chain(3..10).collect();
    assert_eq!(script.begun(0), expected);
    assert!(cluster.state().commits.contains(&(0, 3)) || cluster.state().commits.contains(&(0, 4)));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn each_place_to_seek_to_is_found() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    cluster.truncate(0, 2);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("all is handled", || cluster.committed(0) == Some(10)).await;
    for (to, offset) in [
        (SeekTo::Earliest, 2),
        (SeekTo::Latest, 10),
        (SeekTo::Offset(0), 2),
        (SeekTo::Offset(7), 7),
        (SeekTo::Offset(99), 10),
        (SeekTo::Timestamp(4500), 5),
        (SeekTo::Timestamp(0), 2),
        (SeekTo::Timestamp(99_000), 10),
    ] {
        let before = script.calls();
        assert_eq!(sub.seek(0, to).await, Ok(offset), "{to:?}");
        let again = usize::try_from(10 - offset).unwrap();
        until("it is handled from there", || script.calls() == before + again).await;
        until("and committed", || partition(&sub, 0).committed == Some(10)).await;
    }
    assert_eq!(script.overlaps(), 0);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn what_ran_and_waited_before_a_seek_does_not_count() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let script = Script::new();
    script.hold(0, 5);
    let sub = script.subscribe(rig.subscriber());
    until("one message runs, and more wait", || script.begun(0).len() == 6).await;
    until("what was done before is committed", || cluster.committed(0) == Some(5)).await;
    assert_eq!(sub.seek(0, SeekTo::Offset(8)).await, Ok(8));
    until("the seek is committed", || cluster.committed(0) == Some(8)).await;
    assert_eq!(script.begun(0).len(), 6, "the next one begins after the one that runs");
    script.release(0, 5);
    until("all is handled", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), [0, 1, 2, 3, 4, 5, 8, 9]);
    assert_eq!((script.overlaps(), counts(&sub).late_completions), (0, 1));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_seek_that_cannot_be_is_refused_and_changes_nothing() {
    let (rig, cluster) = Rig::new(2);
    cluster.fill(0, 5);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("all is handled", || cluster.committed(0) == Some(5)).await;
    let refused = sub.seek(7, SeekTo::Earliest).await;
    assert!(matches!(refused, Err(SeekError::NotHeld { partition: 7, .. })), "{refused:?}");
    cluster.state().leaderless.insert(0);
    let refused = sub.seek(0, SeekTo::Earliest).await;
    assert!(matches!(refused, Err(SeekError::NoAnswer { partition: 0, .. })), "{refused:?}");
    cluster.state().leaderless.clear();
    cluster.state().time_errors.push_back(failure(FailureKind::Unreachable));
    let refused = sub.seek(0, SeekTo::Timestamp(1)).await;
    assert!(matches!(refused, Err(SeekError::NoAnswer { partition: 0, .. })), "{refused:?}");
    cluster.fill(0, 5);
    until("it goes on where it was", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), (0..10).collect::<Vec<_>>());
    sub.shutdown(LIMIT).await.unwrap();
    let refused = sub.seek(0, SeekTo::Earliest).await;
    assert!(matches!(refused, Err(SeekError::Closed { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_seek_while_no_client_is_open_is_answered() {
    let (rig, cluster) = Rig::new(1);
    cluster.state().refusals = usize::MAX;
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    let refused = tokio::time::timeout(LIMIT, sub.seek(0, SeekTo::Latest)).await.unwrap();
    assert!(matches!(refused, Err(SeekError::NotHeld { .. })), "{refused:?}");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_seek_is_not_lost_to_a_shutdown_right_after_it() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().commit_interval(NEVER));
    until("all is handled", || counts(&sub).handled == 10).await;
    sub.pause();
    until("it is paused", || is_paused(&sub, 0)).await;
    assert_eq!(sub.seek(0, SeekTo::Earliest).await, Ok(0));
    sub.shutdown(LIMIT).await.unwrap();
    assert_eq!(cluster.committed(0), Some(0));
}
