//! Moves to another cluster.

use std::{sync::Arc, time::Duration};

use zms_core::route::ConsumeFrom;
use zms_sdk::consumer::State;

use crate::{
    fake::Event,
    rig::{LIMIT, Rig, Script, counts, until},
};

const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_old_cluster_is_handled_to_its_end_before_the_new_one_begins() {
    let (rig, old) = Rig::new(3);
    let new = rig.engine.cluster("b", 3);
    rig.change(|route| route.consume_from = ConsumeFrom::Latest);
    old.state().committed.extend([(0, 0), (1, 0), (2, 0)]);
    (0..3).for_each(|p| old.fill(p, 20));
    (0..3).for_each(|p| new.fill(p, 10));
    let script = Script::new();
    script.hold(1, 12);
    let sub = script.subscribe(rig.subscriber().switch_limit(NEVER));
    until("one message is stuck", || script.begun(1).len() == 13).await;
    rig.move_to("b");
    until("it is switching", || sub.inspect().state == State::Switching).await;
    until("the others are done", || [0, 2].iter().all(|p| old.committed(*p) == Some(20))).await;
    old.fill(0, 5);
    until("what still comes is handled", || old.committed(0) == Some(25)).await;
    assert!(new.state().members.is_empty());

    script.release(1, 12);
    until("the new cluster is handled", || (0..3).all(|p| new.committed(p) == Some(10))).await;
    let history = script.history();
    let boundary = history.iter().position(|call| call.0 == "b").unwrap();
    assert_eq!(boundary, 65, "everything on the old cluster comes first");
    assert_eq!(history.len(), 65 + 30, "each once, and the new cluster from its beginning");
    assert_eq!((counts(&sub).switches, counts(&sub).forced_switches), (1, 0));
    until("the old client is closed", || old.state().members[0].left).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_member_waits_for_the_partitions_of_others() {
    let (rig, old) = Rig::new(2);
    let new = rig.engine.cluster("b", 2);
    (0..2).for_each(|p| old.fill(p, 5));
    (0..2).for_each(|p| new.fill(p, 5));
    let (one, two) = (Script::new(), Script::new());
    (0..2).for_each(|p| two.hold(p, 7));
    let first = one.subscribe(rig.subscriber().switch_limit(NEVER).workers(1));
    until("the first messages are done", || (0..2).all(|p| old.committed(p) == Some(5))).await;
    let second = two.subscribe(rig.subscriber().switch_limit(NEVER).workers(1));
    until("partitions are shared", || {
        first.inspect().partitions.len() == 1 && second.inspect().partitions.len() == 1
    })
    .await;
    (0..2).for_each(|p| old.fill(p, 5));
    until("one member is stuck and the other has nothing left", || {
        let stuck = second.inspect().partitions.iter().all(|p| p.oldest.is_some_and(|o| o.offset == 7));
        stuck && (0..2).any(|p| old.committed(p) == Some(10))
    })
    .await;
    rig.move_to("b");
    until("both are switching", || {
        [&first, &second].iter().all(|sub| sub.inspect().state == State::Switching)
    })
    .await;
    // Several readings by the member that has nothing left to do.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(new.state().members.is_empty(), "nobody is on the new cluster yet");
    (0..2).for_each(|p| two.release(p, 7));
    until("the new cluster is handled", || (0..2).all(|p| new.committed(p) == Some(5))).await;
    first.shutdown(LIMIT).await.unwrap();
    second.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_group_without_progress_moves_at_the_limit_and_says_so() {
    let (rig, old) = Rig::new(1);
    let new = rig.engine.cluster("b", 1);
    old.fill(0, 5);
    new.fill(0, 5);
    let script = Script::new();
    script.hold(0, 2);
    let limit = Duration::from_millis(500);
    let sub = script.subscribe(rig.subscriber().switch_limit(limit).drain_limit(limit));
    until("one message is stuck", || script.begun(0).len() == 3).await;
    rig.move_to("b");
    until("the new cluster is joined", || !new.state().members.is_empty()).await;
    assert_eq!(old.committed(0), Some(2));
    script.release(0, 2);
    until("the new cluster is handled", || new.committed(0) == Some(5)).await;
    let counts = counts(&sub);
    assert_eq!((counts.switches, counts.forced_switches, counts.late_completions), (1, 1, 1));
    assert_eq!(old.committed(0), Some(2), "the late end is not committed");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn an_unreachable_old_cluster_is_left_at_its_own_limit() {
    let (rig, old) = Rig::new(1);
    let new = rig.engine.cluster("b", 1);
    old.fill(0, 5);
    new.fill(0, 5);
    let script = Script::new();
    let subscriber = rig.subscriber().switch_limit(NEVER).unreachable_limit(Duration::from_millis(500));
    let sub = script.subscribe(subscriber);
    until("the old cluster is handled", || old.committed(0) == Some(5)).await;
    old.state().down = true;
    old.state().slow = Duration::from_millis(200);
    rig.move_to("b");
    until("the new cluster is handled", || new.committed(0) == Some(5)).await;
    assert_eq!(counts(&sub).forced_switches, 1);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_route_that_comes_back_leaves_the_member_where_it_is() {
    let (rig, old) = Rig::new(1);
    let new = rig.engine.cluster("b", 1);
    old.fill(0, 5);
    let script = Script::new();
    script.hold(0, 2);
    let sub = script.subscribe(rig.subscriber().switch_limit(NEVER));
    until("one message is stuck", || script.begun(0).len() == 3).await;
    rig.move_to("b");
    until("it is switching", || sub.inspect().state == State::Switching).await;
    rig.move_to("a");
    until("it is back", || sub.inspect().state == State::Running).await;
    script.release(0, 2);
    old.fill(0, 5);
    until("it goes on", || old.committed(0) == Some(10)).await;
    assert!(new.state().members.is_empty());
    assert_eq!((old.state().members.len(), counts(&sub).switches), (1, 0));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn every_cluster_on_the_way_is_handled() {
    let (rig, a) = Rig::new(1);
    let (b, c) = (rig.engine.cluster("b", 1), rig.engine.cluster("c", 1));
    for cluster in [&a, &b, &c] {
        cluster.fill(0, 5);
    }
    let script = Script::new();
    script.hold(0, 2);
    let sub = script.subscribe(rig.subscriber().switch_limit(NEVER));
    until("one message is stuck", || script.begun(0).len() == 3).await;
    for cluster in ["b", "c"] {
        rig.move_to(cluster);
        until("it has heard", || sub.inspect().route.as_str() == cluster).await;
    }
    script.release(0, 2);
    until("the last cluster is handled", || c.committed(0) == Some(5)).await;
    let clusters: Vec<String> = script.history().into_iter().map(|call| call.0).collect();
    assert_eq!(clusters, [["a"; 5], ["b"; 5], ["c"; 5]].concat());
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn changed_settings_of_the_cluster_bring_a_new_client_at_the_same_positions() {
    let (rig, cluster) = Rig::new(2);
    (0..2).for_each(|p| cluster.fill(p, 100));
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().commit_interval(NEVER));
    until("all is handled", || counts(&sub).handled == 200).await;
    rig.change(|route| Arc::make_mut(&mut route.cluster).bootstrap = "elsewhere:9092".to_owned());
    until("a new client is there", || cluster.state().members.len() == 2).await;
    assert_eq!(cluster.state().members[1].bootstrap, "elsewhere:9092");
    (0..2).for_each(|p| cluster.fill(p, 10));
    until("it goes on", || counts(&sub).handled == 220).await;
    for p in 0..2 {
        assert_eq!(script.begun(p), (0..110).collect::<Vec<_>>(), "each once");
    }
    assert_eq!((counts(&sub).rebuilds, counts(&sub).switches), (1, 0));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_suspended_group_does_not_give_its_old_cluster_up() {
    let (rig, old) = Rig::new(1);
    let new = rig.engine.cluster("b", 1);
    rig.change(|route| route.suspended = true);
    old.fill(0, 5);
    new.fill(0, 5);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().switch_limit(Duration::from_secs(2)));
    sub.ready().await.unwrap();
    rig.move_to("b");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(new.state().members.is_empty());
    rig.change(|route| route.suspended = false);
    until("both are handled", || old.committed(0) == Some(5) && new.committed(0) == Some(5)).await;
    assert_eq!(counts(&sub).forced_switches, 0);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_client_that_fails_during_a_move_is_replaced_on_the_old_cluster_first() {
    let (rig, old) = Rig::new(1);
    let new = rig.engine.cluster("b", 1);
    old.fill(0, 5);
    new.fill(0, 5);
    let script = Script::new();
    script.hold(0, 2);
    let sub = script.subscribe(rig.subscriber().switch_limit(NEVER));
    until("one message is stuck", || script.begun(0).len() == 3).await;
    rig.move_to("b");
    until("it is switching", || sub.inspect().state == State::Switching).await;
    let fatal = zms_sdk::engine::port::FailureKind::Fatal;
    old.tell(0, Event::Fail(crate::fake::failure(fatal)));
    until("another client is there", || old.state().members.len() == 2).await;
    script.release(0, 2);
    until("both are handled", || old.committed(0) == Some(5) && new.committed(0) == Some(5)).await;
    assert_eq!(counts(&sub).forced_switches, 0);
    sub.shutdown(LIMIT).await.unwrap();
}
