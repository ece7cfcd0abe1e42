//! Other ways to read than as a member of a group, and what is read at all.

use std::{sync::Arc, time::Duration};

use zms_sdk::{
    consumer::{AssignmentStrategy, ConsumeFrom, Fault, NotReady, State, Subscription},
    engine::port::FailureKind,
};

use crate::{
    fake::{Event, FakeCluster, failure},
    rig::{LIMIT, Rig, Script, counts, partition, until},
};

const NEVER: Duration = Duration::from_secs(3600);

/// Everything up to `end` is handled here, whoever else handles it.
async fn until_handled(sub: &Subscription, partitions: usize, end: i64) {
    until("all is handled", || {
        let held = sub.inspect().partitions;
        held.len() == partitions && held.iter().all(|p| p.position == Some(end))
    })
    .await;
}

fn property(cluster: &FakeCluster, member: usize, name: &str) -> Option<String> {
    cluster.state().members[member].properties.get(name).cloned()
}

#[tokio::test]
async fn a_new_group_begins_at_the_time_that_it_is_told() {
    for (from, first) in [(4500, 5), (0, 0), (99_000, 10)] {
        let (rig, cluster) = Rig::new(1);
        rig.change(|route| route.consume_from = ConsumeFrom::Timestamp(from));
        cluster.fill(0, 10);
        let script = Script::new();
        let sub = script.subscribe(rig.subscriber());
        until("its start is committed", || cluster.committed(0).is_some_and(|start| start >= first)).await;
        cluster.fill(0, 1);
        until("all is handled", || cluster.committed(0) == Some(11)).await;
        assert_eq!(script.begun(0), (first..11).collect::<Vec<_>>());
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_time_that_the_broker_does_not_tell_at_once_is_asked_for_again() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    cluster.state().time_errors.push_back(failure(FailureKind::Unreachable));
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().consume_from(ConsumeFrom::Timestamp(7000)));
    until("all is handled", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), [7, 8, 9]);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn the_service_knows_better_than_the_registry_where_to_begin() {
    let (rig, cluster) = Rig::new(1);
    rig.change(|route| route.consume_from = ConsumeFrom::Latest);
    cluster.fill(0, 3);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().consume_from(ConsumeFrom::Earliest));
    until("all is handled", || cluster.committed(0) == Some(3)).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_static_member_names_itself_and_ends_when_another_takes_its_place() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 3);
    let script = Script::new();
    let subscriber = rig.subscriber().instance_id("pod-1").assignment(AssignmentStrategy::Range);
    let sub = script.subscribe(subscriber);
    until("all is handled", || cluster.committed(0) == Some(3)).await;
    assert_eq!(property(&cluster, 0, "group.instance.id").as_deref(), Some("pod-1"));
    assert_eq!(property(&cluster, 0, "partition.assignment.strategy").as_deref(), Some("range"));

    cluster.tell(0, Event::Fail(failure(FailureKind::Fenced)));
    let ended = tokio::time::timeout(LIMIT, sub.ended()).await.unwrap();
    assert!(matches!(&ended, Err(Fault::Fenced { instance, .. }) if instance == "pod-1"), "{ended:?}");
    assert!(matches!(sub.ready().await, Err(NotReady::Failed(Fault::Fenced { .. }))));
    let seen = sub.inspect();
    assert_eq!(seen.state, State::Closed);
    assert!(seen.failure.unwrap().contains("pod-1"));
    assert_eq!(cluster.state().members.len(), 1, "it does not fight for its place");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn all_instances_of_a_broadcast_group_handle_every_message() {
    let (rig, cluster) = Rig::new(2);
    rig.change(|route| route.broadcast = true);
    (0..2).for_each(|p| cluster.fill(p, 5));
    let scripts = [Script::new(), Script::new()];
    let subs = scripts.each_ref().map(|script| script.subscribe(rig.subscriber()));
    for sub in &subs {
        sub.ready().await.unwrap();
        until_handled(sub, 2, 5).await;
    }
    (0..2).for_each(|p| cluster.fill(p, 5));
    for (sub, script) in subs.iter().zip(&scripts) {
        until_handled(sub, 2, 10).await;
        (0..2).for_each(|p| assert_eq!(script.begun(p), (0..10).collect::<Vec<_>>()));
        assert_eq!(counts(sub).commit_failures, 0);
    }
    for sub in subs {
        sub.shutdown(LIMIT).await.unwrap();
    }
    assert_eq!(cluster.state().commits, [], "nothing is kept");
    assert!(cluster.state().members.iter().all(|member| member.alone));
}

#[tokio::test]
async fn a_named_instance_of_a_broadcast_group_goes_on_where_it_was() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 5);
    let script = Script::new();
    let subscriber = || rig.subscriber().broadcast().instance_id("pod-1");
    let first = script.subscribe(subscriber());
    until("all is handled", || cluster.committed(0) == Some(5)).await;
    assert_eq!(cluster.state().members[0].group, "billing.pod-1");
    assert_eq!(property(&cluster, 0, "group.instance.id"), None);
    first.shutdown(LIMIT).await.unwrap();
    cluster.fill(0, 5);
    let second = script.subscribe(subscriber());
    until("the rest is handled", || cluster.committed(0) == Some(10)).await;
    assert_eq!(script.begun(0), (0..10).collect::<Vec<_>>());
    second.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_broadcast_group_follows_its_route_and_loses_nothing_to_a_new_client() {
    let (rig, old) = Rig::new(2);
    let new = rig.engine.cluster("b", 2);
    rig.change(|route| (route.broadcast, route.consume_from) = (true, ConsumeFrom::Latest));
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().switch_limit(NEVER));
    until_handled(&sub, 2, 0).await;
    old.fill(0, 5);
    until("all is handled and kept", || partition(&sub, 0).committed == Some(5)).await;
    old.tell(0, Event::Fail(failure(FailureKind::Fatal)));
    until("another client is there", || old.state().members.len() == 2).await;
    (0..2).for_each(|p| old.fill(p, 5));
    until("it goes on where the last one was", || counts(&sub).handled == 15).await;
    assert_eq!(script.begun(0), (0..10).collect::<Vec<_>>());

    script.hold(1, 7);
    old.fill(1, 5);
    (0..2).for_each(|p| new.fill(p, 3));
    until("one message is stuck", || script.begun(1).contains(&7)).await;
    rig.move_to("b");
    until("it is switching", || sub.inspect().state == State::Switching).await;
    assert!(new.state().members.is_empty());
    script.release(1, 7);
    until("the new cluster is handled from its beginning", || counts(&sub).handled == 15 + 5 + 6).await;
    let history = script.history();
    assert!(history[..20].iter().all(|call| call.0 == "a"), "the old cluster comes first: {history:?}");
    assert_eq!((counts(&sub).switches, counts(&sub).forced_switches), (1, 0));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_group_becomes_a_broadcast_group_while_it_runs() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 3);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("all is handled", || cluster.committed(0) == Some(3)).await;
    rig.change(|route| route.broadcast = true);
    until("it reads by itself", || cluster.state().members.get(1).is_some_and(|member| member.alone)).await;
    until("it handles all of it", || counts(&sub).handled == 6).await;
    assert!(cluster.state().members[0].left);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_standalone_reader_begins_where_it_is_told_and_commits_nothing() {
    let (rig, cluster) = Rig::new(3);
    (0..3).for_each(|p| cluster.fill(p, 5));
    let script = Script::new();
    let subscriber = rig.subscriber().standalone().partitions([0, 2]);
    let subscriber = subscriber.consume_from(ConsumeFrom::Latest).start_at("a", [(0, 3)]);
    let sub = script.subscribe(subscriber);
    until_handled(&sub, 2, 5).await;
    cluster.fill(2, 1);
    until("what is sent is handled", || counts(&sub).handled == 3).await;
    assert_eq!([script.begun(0), script.begun(1), script.begun(2)], [vec![3, 4], vec![], vec![5]]);
    sub.shutdown(LIMIT).await.unwrap();
    assert_eq!(cluster.state().commits, []);
}

#[tokio::test]
async fn a_standalone_reader_may_keep_its_positions_under_a_name() {
    let (rig, cluster) = Rig::new(2);
    (0..2).for_each(|p| cluster.fill(p, 5));
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().standalone().positions_as("replay"));
    until("all is handled", || (0..2).all(|p| cluster.committed(p) == Some(5))).await;
    assert_eq!(cluster.state().members[0].group, "replay");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn positions_of_another_cluster_are_not_taken_for_this_ones() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 5);
    let script = Script::new();
    let subscriber = rig.subscriber().standalone().consume_from(ConsumeFrom::Latest);
    let sub = script.subscribe(subscriber.start_at("elsewhere", [(0, 4)]));
    until_handled(&sub, 1, 5).await;
    assert_eq!(script.begun(0), (0..5).collect::<Vec<_>>());
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_partition_that_does_not_exist_is_named_and_the_others_are_read() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 5);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().standalone().partitions([0, 4]));
    until_handled(&sub, 1, 5).await;
    until("the other one is named", || {
        sub.inspect().failure.is_some_and(|failure| failure.contains("no partition 4"))
    })
    .await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn only_wanted_tags_reach_the_handler_and_the_rest_counts_as_done() {
    let (rig, cluster) = Rig::new(1);
    cluster.tagged(0, &[Some("paid"), Some("lost"), None, Some("sent"), Some("lost"), Some("lost")]);
    let script = Script::new();
    script.hold(0, 0);
    let sub = script.subscribe(rig.subscriber().tags(["paid", "sent"]));
    until("the first one runs", || script.begun(0).len() == 1).await;
    until("the others are passed over", || counts(&sub).filtered == 4).await;
    assert_eq!(cluster.committed(0), Some(0), "not in front of one that runs");
    script.release(0, 0);
    until("all of it is done", || cluster.committed(0) == Some(6)).await;
    assert_eq!(script.begun(0), [0, 3]);
    let counts = counts(&sub);
    assert_eq!((counts.handled, counts.filtered, counts.dropped), (2, 4, 0));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_log_of_unwanted_messages_alone_is_drained_by_a_move() {
    let (rig, old) = Rig::new(1);
    let new = rig.engine.cluster("b", 1);
    old.tagged(0, &[Some("lost"); 700]);
    new.tagged(0, &[Some("paid")]);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().tags(["paid"]).switch_limit(NEVER));
    sub.ready().await.unwrap();
    rig.move_to("b");
    until("the new cluster is handled", || new.committed(0) == Some(1)).await;
    assert_eq!((old.committed(0), counts(&sub).filtered), (Some(700), 700));
    assert_eq!(Arc::strong_count(&script), 2, "no call is left");
    sub.shutdown(LIMIT).await.unwrap();
}
