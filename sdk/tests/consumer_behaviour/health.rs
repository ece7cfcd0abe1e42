//! Whether it works, and what the application is told.

use std::time::Duration;

use futures_util::FutureExt;
use zms_sdk::{
    consumer::{Cause, Delivery, Failure, Failures, Fault, Health, LastingKind, RetryPolicy, Subscription},
    engine::port::{EngineError, FailureKind},
};

use crate::{
    fake::{Event, failure},
    rig::{LIMIT, Rig, Script, counts, now, until},
};

fn causes(sub: &Subscription) -> Vec<Cause> {
    match sub.health() {
        Health::Starting { causes } | Health::Degraded { causes } => causes,
        _ => Vec::new(),
    }
}

fn broker_reason(sub: &Subscription) -> Option<String> {
    causes(sub).into_iter().find_map(|cause| match cause {
        Cause::Broker { reason, .. } => Some(reason),
        _ => None,
    })
}

fn present(sub: &Subscription) -> Option<Failure> {
    match sub.health() {
        Health::Failed { failure } => Some(failure),
        _ => None,
    }
}

async fn next(failures: &mut Failures) -> Failure {
    tokio::time::timeout(LIMIT, failures.next()).await.expect("it is told").expect("it goes on")
}

fn told(failures: &mut Failures) -> Option<Failure> {
    failures.next().now_or_never().flatten()
}

#[tokio::test]
async fn a_passing_error_degrades_ends_nothing_and_is_told_to_nobody() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    let mut failures = sub.failures();
    sub.ready().await.unwrap();
    until("it is well", || sub.health() == Health::Healthy).await;
    cluster.state().down = true;
    for _ in 0..3 {
        cluster.tell(0, Event::Fail(failure(FailureKind::Unreachable)));
    }
    until("the error is seen", || broker_reason(&sub).is_some_and(|reason| reason.contains("Unreachable")))
        .await;
    assert!(sub.health().is_ready() && sub.health().is_alive());
    let Some(Cause::Broker { since, .. }) = causes(&sub).pop() else { panic!("{:?}", sub.health()) };
    until("all are counted", || counts(&sub).poll_errors == 3).await;
    assert!(
        causes(&sub).iter().all(|cause| matches!(cause, Cause::Broker { since: then, .. } if *then == since))
    );
    cluster.state().down = false;
    cluster.fill(0, 1);
    until("it goes on", || cluster.committed(0) == Some(1)).await;
    until("it is well again", || sub.health() == Health::Healthy).await;
    assert_eq!(told(&mut failures), None);
    sub.shutdown(LIMIT).await.unwrap();
    assert_eq!(failures.next().await, None, "it has ended");
}

#[tokio::test]
async fn an_error_is_not_over_because_the_client_says_nothing_more() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    sub.ready().await.unwrap();
    cluster.state().down = true;
    cluster.tell(0, Event::Fail(failure(FailureKind::Unreachable)));
    until("the error is seen", || broker_reason(&sub).is_some()).await;
    until("it is asked whether the cluster is back", || cluster.state().questions > 1).await;
    assert!(broker_reason(&sub).is_some(), "{:?}", sub.health());
    cluster.state().down = false;
    until("it is well again", || sub.health() == Health::Healthy).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_refusal_is_told_once_while_the_client_goes_on_polling() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    let mut failures = sub.failures();
    sub.ready().await.unwrap();
    cluster.state().down = true;
    for kind in [FailureKind::Denied, FailureKind::Unreachable, FailureKind::Denied] {
        cluster.tell(0, Event::Fail(failure(kind)));
    }
    let first = next(&mut failures).await;
    assert_eq!((first.number, first.kind, first.cluster.as_str()), (1, LastingKind::Denied, "a"));
    until("all are counted", || counts(&sub).poll_errors == 3).await;
    assert_eq!(present(&sub).as_ref(), Some(&first), "what follows from it does not hide it");
    assert!(!sub.health().is_ready() && sub.health().is_alive());
    let polls = cluster.state().members[0].polls;
    until("it is polled on", || cluster.state().members[0].polls > polls + 3).await;
    assert_eq!((told(&mut failures), counts(&sub).rebuilds), (None, 0));
    cluster.tell(0, Event::Fail(EngineError { kind: FailureKind::Denied, reason: "group".to_owned() }));
    assert_eq!(next(&mut failures).await.reason, "group", "another refusal is news");
    cluster.state().down = false;
    until("it is well again", || sub.health() == Health::Healthy).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn commits_that_are_refused_show_although_polling_works() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    let mut failures = sub.failures();
    until("it is well", || sub.health() == Health::Healthy).await;
    let refusals = (0..4).map(|_| failure(FailureKind::Denied));
    cluster.state().commit_errors.extend(refusals);
    cluster.fill(0, 1);
    assert_eq!(next(&mut failures).await.kind, LastingKind::Denied);
    until("it is committed in the end", || cluster.committed(0) == Some(1)).await;
    until("it is well again", || sub.health() == Health::Healthy).await;
    assert_eq!(told(&mut failures), None);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_client_that_dies_again_and_again_is_rebuilt_ever_more_slowly_and_told_once() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    let mut failures = sub.failures();
    for round in 0..3 {
        until("a client is open", || cluster.state().members.len() == round + 1).await;
        until("it is well", || sub.health() == Health::Healthy).await;
        cluster.tell(round, Event::Fail(failure(FailureKind::Fatal)));
        until("it is replaced", || counts(&sub).rebuilds == round as u64 + 1).await;
    }
    until("the last one works", || sub.health() == Health::Healthy).await;
    let first = next(&mut failures).await;
    assert_eq!((first.number, first.kind), (1, LastingKind::Fatal));
    assert_eq!(told(&mut failures), None, "the same each time");
    cluster.fill(0, 1);
    until("it works", || cluster.committed(0) == Some(1)).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_client_that_cannot_be_opened_is_told_once_and_recovery_seen() {
    let (rig, cluster) = Rig::new(1);
    cluster.state().refusals = 3;
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    let mut failures = sub.failures();
    assert!(matches!(sub.health(), Health::Starting { .. } | Health::Failed { .. }));
    let refused = next(&mut failures).await;
    assert_eq!(refused.kind, LastingKind::Refused);
    assert!(refused.reason.contains("no such property"));
    until("it is opened", || sub.health() == Health::Healthy).await;
    assert_eq!((counts(&sub).open_failures, told(&mut failures)), (3, None));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn whose_place_is_taken_is_told_and_is_no_longer_alive() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber().instance_id("pod-0"));
    let mut failures = sub.failures();
    sub.ready().await.unwrap();
    cluster.tell(0, Event::Fail(failure(FailureKind::Fenced)));
    assert!(matches!(sub.ended().await, Err(Fault::Fenced { .. })));
    assert!(matches!(sub.health(), Health::Stopped { fault: Some(Fault::Fenced { .. }) }));
    assert!(!sub.health().is_alive());
    assert_eq!(next(&mut failures).await.kind, LastingKind::Ended);
    assert_eq!(failures.next().await, None);
}

#[tokio::test]
async fn a_panic_of_the_client_is_the_end_and_told() {
    let (rig, cluster) = Rig::new(1);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    let mut failures = sub.failures();
    sub.ready().await.unwrap();
    cluster.tell(0, Event::Panic);
    assert!(matches!(sub.ended().await, Err(Fault::Panicked { .. })));
    assert!(!sub.health().is_alive());
    assert_eq!(next(&mut failures).await.kind, LastingKind::Ended);
}

#[tokio::test]
async fn partitions_that_wait_for_a_message_without_attempts_are_named() {
    let (rig, cluster) = Rig::new(3);
    (0..3).for_each(|p| cluster.fill(p, 3));
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let state = broken.clone();
    let handler = move |delivery: Delivery| {
        let fails = delivery.partition() != 1 && delivery.offset() == 1;
        if fails && state.load(std::sync::atomic::Ordering::SeqCst) { Err("mend me") } else { Ok(()) }
    };
    let quick = Duration::from_millis(1);
    let retry = RetryPolicy::new().attempts(2).backoff(quick, quick);
    let sub = now(rig.subscriber().workers(3).retry(retry).handle_blocking(handler)).unwrap();
    let blocked = Cause::Blocked { partitions: vec![0, 2] };
    until("both are named", || causes(&sub).contains(&blocked)).await;
    assert!(sub.health().is_ready());
    let views = sub.inspect().partitions;
    assert_eq!(views.iter().map(|view| view.blocked_messages).collect::<Vec<_>>(), [1, 0, 1]);
    broken.store(false, std::sync::atomic::Ordering::SeqCst);
    until("it is well again", || sub.health() == Health::Healthy).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn before_the_first_assignment_it_is_starting_and_at_the_end_stopped() {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    until("a client is open", || cluster.state().members.len() == 1).await;
    assert_eq!(sub.health(), Health::Starting { causes: Vec::new() });
    cluster.tell(0, Event::Fail(failure(FailureKind::Unreachable)));
    until("it tells what it waits for", || broker_reason(&sub).is_some()).await;
    assert!(!sub.health().is_ready() && sub.health().is_alive());
    cluster.tell(0, Event::Assign(vec![0]));
    until("it has begun", || sub.health().is_ready()).await;
    sub.shutdown(LIMIT).await.unwrap();
    assert_eq!(sub.health(), Health::Stopped { fault: None });
    assert!(sub.health().is_alive() && !sub.health().is_ready());
}
