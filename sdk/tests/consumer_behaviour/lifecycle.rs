//! Beginning, failing, ending.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use zms_sdk::{
    consumer::{Delivery, NotReady, ShutdownError, State, SubscribeError, Subscription},
    engine::port::FailureKind,
};

use crate::{
    fake::{Event, failure},
    rig::{LIMIT, Rig, Script, counts, now, until},
};

#[tokio::test]
async fn a_client_that_cannot_be_opened_is_reported_and_tried_again() {
    let (rig, cluster) = Rig::new(1);
    cluster.state().refusals = 1;
    cluster.fill(0, 1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    let refused = sub.ready().await.unwrap_err();
    assert!(matches!(&refused, NotReady::Refused { reason, .. } if reason.contains("no such property")));
    until("it is opened", || sub.inspect().state == State::Running).await;
    sub.ready().await.unwrap();
    until("it works", || cluster.committed(0) == Some(1)).await;
    assert_eq!(counts(&sub).open_failures, 1);
    assert_eq!(sub.inspect().failure, None);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn errors_of_the_client_pass_and_are_shown() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.ready().await.unwrap();
    for kind in [FailureKind::Unreachable, FailureKind::UnknownTopic, FailureKind::Denied] {
        cluster.tell(0, Event::Fail(failure(kind)));
    }
    cluster.fill(0, 1);
    until("it goes on", || cluster.committed(0) == Some(1)).await;
    assert_eq!(counts(&sub).poll_errors, 3);
    until("the failure is shown", || sub.inspect().failure.is_some_and(|f| f.contains("Denied"))).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_client_that_fails_for_good_is_replaced_and_order_holds() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 5);
    let script = Script::new();
    script.hold(0, 2);
    let sub = script.subscribe(rig.subscriber());
    until("the third message is being handled", || script.begun(0).len() == 3).await;
    until("what is before it is committed", || cluster.committed(0) == Some(2)).await;
    cluster.tell(0, Event::Fail(failure(FailureKind::Fatal)));
    until("another client has it", || cluster.state().members.len() == 2 && counts(&sub).assignments == 2)
        .await;
    assert_eq!(script.begun(0), [0, 1, 2], "its second delivery waits for the first run");
    script.release(0, 2);
    until("all is done", || cluster.committed(0) == Some(5)).await;
    assert_eq!(script.begun(0), [0, 1, 2, 2, 3, 4]);
    assert_eq!((script.overlaps(), counts(&sub).rebuilds), (0, 1));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_clean_shutdown_leaves_nothing_done_to_be_handled_again() {
    let (rig, cluster) = Rig::new(4);
    (0..4).for_each(|p| cluster.fill(p, 250));
    let script = Script::new();
    let never = Duration::from_secs(3600);
    let first = script.subscribe(rig.subscriber().workers(4).commit_interval(never));
    until("some are handled", || counts(&first).handled >= 200).await;
    first.shutdown(LIMIT).await.unwrap();
    first.shutdown(LIMIT).await.unwrap();
    assert!(matches!(first.ready().await, Err(NotReady::Closed { .. })));
    assert_eq!(first.inspect().state, State::Closed);

    let second = script.subscribe(rig.subscriber());
    until("the rest is handled", || (0..4).all(|p| cluster.committed(p) == Some(250))).await;
    for p in 0..4 {
        assert_eq!(script.begun(p), (0..250).collect::<Vec<_>>(), "partition {p}: each once");
    }
    second.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn shutdown_ends_at_its_deadline_with_dead_handlers() {
    for blocking in [false, true] {
        let (rig, cluster) = Rig::new(2);
        (0..2).for_each(|p| cluster.fill(p, 3));
        let (calls, count) = (Arc::new(AtomicU64::new(0)), |calls: &AtomicU64| calls.fetch_add(1, SeqCst));
        let (seen, subscriber) = (Arc::clone(&calls), rig.subscriber());
        let sub = if blocking {
            let dead = move |_: Delivery| {
                count(&seen);
                std::thread::park_timeout(Duration::from_secs(600));
            };
            now(subscriber.handle_blocking(dead)).unwrap()
        } else {
            let dead = move |_: Delivery| {
                count(&seen);
                std::future::pending::<()>()
            };
            now(subscriber.handle(dead)).unwrap()
        };
        until("both handlers run", || calls.load(SeqCst) == 2).await;
        let ended = tokio::time::timeout(LIMIT, sub.shutdown(Duration::from_secs(4))).await.unwrap();
        assert!(matches!(ended, Err(ShutdownError::HandlersRunning { running: 2, .. })), "{ended:?}");
        assert!(cluster.state().members[0].left);
    }
}

#[tokio::test]
async fn a_group_that_forms_anew_during_the_shutdown_takes_the_last_commit_when_it_stands() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().commit_interval(Duration::from_secs(3600)));
    until("all is handled", || counts(&sub).handled == 10).await;
    cluster.state().commit_errors.extend([FailureKind::Superseded; 3].map(failure));
    sub.shutdown(LIMIT).await.unwrap();
    assert_eq!((cluster.committed(0), counts(&sub).commit_failures), (Some(10), 3));
}

#[tokio::test]
async fn shutdown_ends_at_its_deadline_with_a_dead_broker() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 3);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().commit_interval(Duration::from_secs(3600)));
    until("all is handled", || counts(&sub).handled == 3).await;
    (cluster.state().down, cluster.state().slow) = (true, Duration::from_secs(5));
    let ended = tokio::time::timeout(LIMIT, sub.shutdown(Duration::from_millis(300))).await.unwrap();
    assert!(matches!(ended, Err(ShutdownError::Unfinished { .. })), "{ended:?}");
}

#[tokio::test]
async fn shutdown_from_within_a_handler_does_not_deadlock() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 1);
    let handle: Arc<OnceLock<Subscription>> = Arc::default();
    let inner = Arc::clone(&handle);
    let (ended, mut result) = tokio::sync::mpsc::channel(1);
    let handler = move |_: Delivery| {
        let (inner, ended) = (Arc::clone(&inner), ended.clone());
        async move {
            while inner.get().is_none() {
                tokio::task::yield_now().await;
            }
            let outcome = inner.get().unwrap().shutdown(Duration::from_millis(500)).await;
            ended.send(outcome).await.unwrap();
        }
    };
    let sub = now(rig.subscriber().handle(handler)).unwrap();
    handle.set(sub).unwrap();
    // The handler is cancelled at the deadline, or hears of it just before.
    let within = tokio::time::timeout(LIMIT, result.recv()).await;
    until("it has ended", || handle.get().unwrap().inspect().state == State::Closed).await;
    drop(within);
}

#[tokio::test]
async fn a_dropped_subscription_ends_in_the_background_without_blocking() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 5);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().commit_interval(Duration::from_secs(3600)));
    until("all is handled", || counts(&sub).handled == 5).await;
    cluster.state().slow = Duration::from_secs(10);
    let before = Instant::now();
    drop(sub);
    assert!(before.elapsed() < Duration::from_secs(8));
    until("it commits", || cluster.committed(0) == Some(5)).await;
    until("it leaves", || cluster.state().members[0].left).await;
}

#[tokio::test]
async fn impossible_options_are_refused() {
    let (rig, _) = Rig::new(1);
    let none = now(rig.subscriber().workers(0).handle_blocking(|_| ()));
    assert!(matches!(none, Err(SubscribeError::Option { .. })));
    let elsewhere = now(rig.subscriber().partitions([0]).handle_blocking(|_| ()));
    assert!(matches!(elsewhere, Err(SubscribeError::Option { .. })));
}

#[test]
fn a_future_needs_a_runtime() {
    let (rig, _) = Rig::new(1);
    let begun = now(rig.subscriber().handle(|_| async {}));
    assert!(matches!(begun, Err(SubscribeError::NoRuntime { .. })));
}
