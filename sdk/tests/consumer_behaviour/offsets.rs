//! What is committed, and when.

use std::sync::Arc;

use zms_core::{progress::Progress, route::ConsumeFrom};
use zms_sdk::{consumer::PauseReason, engine::port::FailureKind};

use crate::{
    fake::{Event, FakeCluster, failure},
    rig::{LIMIT, Rig, Script, counts, partition, until},
};

#[tokio::test]
async fn everything_handled_is_committed() {
    let (rig, cluster) = Rig::new(3);
    (0..3).for_each(|p| cluster.fill(p, 100));
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.ready().await.unwrap();
    until("all committed", || (0..3).all(|p| cluster.committed(p) == Some(100))).await;
    for p in 0..3 {
        assert_eq!(script.begun(p), (0..100).collect::<Vec<_>>());
    }
    assert_eq!(counts(&sub).handled, 300);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn closing_with_queued_messages_commits_only_what_is_done() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let script = Script::new();
    script.hold(0, 4);
    let sub = script.subscribe(rig.subscriber().workers(1));
    until("the fifth message is being handled", || script.begun(0).len() == 5).await;
    let stuck = sub.shutdown(std::time::Duration::from_secs(4)).await;
    assert!(stuck.is_err(), "a handler still ran");
    assert_eq!(cluster.committed(0), Some(4));

    let second = Script::new();
    let sub = second.subscribe(rig.subscriber());
    until("the rest is committed", || cluster.committed(0) == Some(10)).await;
    assert_eq!(second.begun(0), [4, 5, 6, 7, 8, 9]);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn gaps_in_the_log_do_not_stop_the_position() {
    let (rig, cluster) = Rig::new(1);
    cluster.append(0, 50, 3, 0);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("the last message is committed", || cluster.committed(0) == Some(148)).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn failed_commits_are_made_good_with_the_newest_position() {
    let kinds =
        [FailureKind::Superseded, FailureKind::Other, FailureKind::Unreachable, FailureKind::Superseded];
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.ready().await.unwrap();
    cluster.state().commit_errors.extend(kinds.map(failure));
    cluster.fill(0, 20);
    until("the newest position is committed", || cluster.committed(0) == Some(20)).await;
    assert_eq!(counts(&sub).commit_failures, 4);
    assert_eq!(script.begun(0).len(), 20, "nothing is handled twice for a failed commit");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn commits_never_go_backwards() {
    let (rig, cluster) = Rig::new(2);
    (0..2).for_each(|p| cluster.fill(p, 500));
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("all committed", || (0..2).all(|p| cluster.committed(p) == Some(500))).await;
    for p in 0..2 {
        let commits: Vec<i64> = cluster.state().commits.iter().filter(|c| c.0 == p).map(|c| c.1).collect();
        assert!(commits.is_sorted_by(|a, b| a < b), "{commits:?}");
    }
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_new_group_that_begins_at_the_end_commits_that_end_before_any_message() {
    let (rig, cluster) = Rig::new(1);
    rig.change(|route| route.consume_from = ConsumeFrom::Latest);
    cluster.fill(0, 7);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.ready().await.unwrap();
    assert_eq!(cluster.committed(0), Some(7));
    drop(sub);
    until("the member has left", || cluster.state().members[0].left).await;

    cluster.fill(0, 3);
    let sub = script.subscribe(rig.subscriber());
    until("what came between is handled", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), [7, 8, 9]);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_position_outside_the_log_starts_at_its_nearest_end() {
    let (rig, cluster) = Rig::new(2);
    rig.change(|route| route.consume_from = ConsumeFrom::Latest);
    (0..2).for_each(|p| cluster.fill(p, 20));
    cluster.truncate(0, 15);
    cluster.state().committed.extend([(0, 3), (1, 5000)]);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("the rest of one log is handled", || cluster.committed(0) == Some(20)).await;
    assert_eq!(script.begun(0), [15, 16, 17, 18, 19]);
    cluster.fill(1, 1);
    until("the next message of the other is handled", || cluster.committed(1) == Some(21)).await;
    assert_eq!(script.begun(1), [20]);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_log_that_starts_over_is_handled_from_its_beginning() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 100);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("the first log is done", || cluster.committed(0) == Some(100)).await;
    cluster.recreate(0);
    cluster.fill(0, 10);
    until("the second log is done", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0)[100..], (0..10).collect::<Vec<_>>());
    assert_eq!(counts(&sub).rewinds, 1);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_start_that_the_broker_does_not_tell_is_asked_for_again() {
    let (rig, cluster) = Rig::new(2);
    (0..2).for_each(|p| cluster.fill(p, 5));
    cluster.state().committed.insert(0, 2);
    cluster.state().leaderless.insert(0);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("the other partition goes on", || cluster.committed(1) == Some(5)).await;
    assert_eq!(script.begun(0), Vec::<i64>::new(), "nothing is handled from a guessed start");
    assert_eq!(partition(&sub, 0).position, None);
    cluster.state().leaderless.clear();
    until("it starts where it was committed", || cluster.committed(0) == Some(5)).await;
    assert_eq!(script.begun(0), [2, 3, 4]);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn records_that_arrive_with_their_assignment_are_fetched_again() {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    cluster.state().deliver_at_assignment = true;
    cluster.fill(0, 10);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0]));
    until("all is done", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), (0..10).collect::<Vec<_>>());
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn records_fetched_under_an_earlier_assignment_do_not_count_in_the_next() {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    cluster.fill(0, 10);
    cluster.state().committed.insert(0, 5);
    cluster.state().leftovers.extend([3, 4, 7]);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0]));
    until("all is done", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), [5, 6, 7, 8, 9]);
    assert_eq!((counts(&sub).rewinds, counts(&sub).dropped), (0, 3));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn the_view_names_the_oldest_unfinished_message() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let script = Script::new();
    script.hold(0, 3);
    let sub = Arc::new(script.subscribe(rig.subscriber()));
    until("it is being handled", || script.begun(0).len() == 4).await;
    until("what is before it is committed", || cluster.committed(0) == Some(3)).await;
    let view = partition(&sub, 0);
    assert_eq!((view.position, view.queued_messages), (Some(3), 7));
    assert_eq!(view.oldest.map(|oldest| oldest.offset), Some(3));
    script.release(0, 3);
    until("all is done", || cluster.committed(0) == Some(10)).await;
    until("nothing is left in memory", || sub.inspect().buffered_messages == 0).await;
    sub.shutdown(LIMIT).await.unwrap();
}

/// Commits `position` of partition 0, with what is done above it.
fn commit(cluster: &FakeCluster, position: i64, done: impl IntoIterator<Item = i64>) {
    let progress = Progress { start: None, done: done.into_iter().collect() };
    let mut state = cluster.state();
    state.committed.insert(0, position);
    state.texts.insert(0, progress.encode(position, 4000));
}

#[tokio::test]
async fn what_a_commit_names_as_done_is_not_handled_again() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    commit(&cluster, 2, [4, 6, 7]);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("the rest is done", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), [2, 3, 5, 8, 9]);
    assert_eq!((counts(&sub).handled, counts(&sub).already_done), (5, 3));
    assert_eq!(cluster.state().texts[&0], "", "nothing is done above the position");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn what_was_done_before_one_crash_is_not_handled_after_the_next() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 12);
    commit(&cluster, 2, [4, 7, 9, 11]);
    let script = Script::new();
    script.hold(0, 5);
    let sub = script.subscribe(rig.subscriber());
    until("it is stuck", || cluster.committed(0) == Some(5)).await;
    // Of what ends from now on nobody learns.
    cluster.state().down = true;
    script.release(0, 5);
    until("the first member is through", || counts(&sub).handled == 6).await;
    drop(sub);
    until("it has left", || cluster.state().members[0].left).await;
    cluster.state().down = false;

    let second = Script::new();
    let sub = second.subscribe(rig.subscriber());
    until("the rest is done", || cluster.committed(0) == Some(12)).await;
    assert_eq!(script.begun(0), [2, 3, 5, 6, 8, 10]);
    assert_eq!(second.begun(0), [5, 6, 8, 10]);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn texts_of_others_beside_a_position_change_nothing() {
    let of_another_position = Progress { start: None, done: [4, 5].into_iter().collect() }.encode(3, 4000);
    for text in ["", "{\"host\":\"a\"}", "zms2 done:AAAA", "zms1 done:AAAAAAAAAAAA", &of_another_position] {
        let (rig, cluster) = Rig::new(1);
        cluster.fill(0, 6);
        cluster.state().committed.insert(0, 2);
        cluster.state().texts.insert(0, text.to_owned());
        let script = Script::new();
        let sub = script.subscribe(rig.subscriber());
        until("the rest is done", || cluster.committed(0) == Some(6)).await;
        assert_eq!(script.begun(0), [2, 3, 4, 5], "{text}");
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn brokers_that_take_no_such_text_get_positions_alone() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    commit(&cluster, 2, [6]);
    cluster.state().longest_text = Some(5);
    let script = Script::new();
    script.hold(0, 4);
    let sub = script.subscribe(rig.subscriber());
    until("what is before the held one is committed", || cluster.committed(0) == Some(4)).await;
    assert_eq!(cluster.state().texts[&0], "");
    assert_eq!(counts(&sub).commit_failures, 1);
    script.release(0, 4);
    until("the rest is done", || cluster.committed(0) == Some(10)).await;
    assert_eq!(counts(&sub).commit_failures, 1, "it is not tried again");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_commit_without_an_answer_keeps_nothing_from_being_handled() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.ready().await.unwrap();
    cluster.state().mute = true;
    for round in 1..=5 {
        cluster.fill(0, 10);
        until("all is handled", || script.begun(0).len() == round * 10).await;
    }
    assert_eq!(cluster.committed(0), Some(0));
    sub.shutdown(LIMIT).await.unwrap();
    assert_eq!(cluster.committed(0), Some(50), "the last commit waits for its answer");
}

#[tokio::test]
async fn a_partition_waits_for_a_message_that_it_is_far_ahead_of() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 5000);
    commit(&cluster, 0, 1..4000);
    let script = Script::new();
    script.hold(0, 0);
    let sub = script.subscribe(rig.subscriber().max_ahead(100));
    until("it is paused", || {
        sub.inspect().partitions.iter().any(|p| p.paused == Some(PauseReason::FarAhead))
    })
    .await;
    let queued = partition(&sub, 0).queued_messages;
    assert!((100..=600).contains(&queued), "at most one fetch beyond the limit: {queued}");
    script.release(0, 0);
    until("all is done", || cluster.committed(0) == Some(5000)).await;
    assert_eq!((script.begun(0).len(), counts(&sub).already_done), (1001, 3999));
    sub.shutdown(LIMIT).await.unwrap();
}
