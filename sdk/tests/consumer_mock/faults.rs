//! Brokers that fail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use tokio::{task::JoinHandle, time::timeout};
use zms_sdk::{
    consumer::{Health, LastingKind},
    testing::{Api, BrokerError},
};

use crate::rig::{Kafka, LIMIT, LONG_SESSION, Log, until, until_committed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_the_broker_refuses_are_made_good() {
    let errors = [
        BrokerError::IllegalGeneration,
        BrokerError::RebalanceInProgress,
        BrokerError::CoordinatorLoading,
        BrokerError::UnknownMember,
    ];
    for error in errors {
        let kafka = Kafka::start("a", 1);
        kafka.fill(0, 5);
        let log = Log::new();
        let sub = log.subscribe(kafka.subscriber());
        until_committed(&kafka, 1, 5).await;
        kafka.mock.fail_requests(Api::OffsetCommit, &[error]);
        kafka.fill(0, 15);
        until_committed(&kafka, 1, 20).await;
        assert_eq!(log.distinct(), 20, "{error:?}");
        assert!(log.count() <= 35, "{error:?}: what is handled again is bounded");
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_passes_without_a_restart() {
    let kafka = Kafka::start("a", 2);
    (0..2).for_each(|p| kafka.fill(p, 5));
    let log = Log::new();
    let sub = log.subscribe(kafka.subscriber());
    until_committed(&kafka, 2, 5).await;
    kafka.mock.all_brokers_down().unwrap();
    until("it is noticed", || matches!(sub.health(), Health::Degraded { .. })).await;
    kafka.mock.all_brokers_up().unwrap();
    (0..2).for_each(|p| kafka.fill(p, 5));
    until_committed(&kafka, 2, 10).await;
    assert_eq!(log.distinct(), 20);
    until("it is well again", || sub.health() == Health::Healthy).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_appears_late_is_found() {
    let kafka = Kafka::start("a", 1);
    kafka.fill(0, 3);
    kafka.mock.hide_topic(crate::rig::TOPIC).unwrap();
    let log = Log::new();
    let subscriber = kafka.subscriber().property("topic.metadata.refresh.interval.ms", "200");
    let sub = log.subscribe(subscriber);
    until("its absence is shown", || sub.inspect().failure.is_some()).await;
    kafka.mock.show_topic(crate::rig::TOPIC).unwrap();
    until("it is handled", || log.distinct() == 3).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_refused_is_told_once_until_it_is_open_again() {
    let kafka = Kafka::start("a", 1);
    kafka.mock.deny_topic(crate::rig::TOPIC).unwrap();
    let log = Log::new();
    let subscriber = kafka.subscriber().property("topic.metadata.refresh.interval.ms", "200");
    let sub = log.subscribe(subscriber);
    let mut failures = sub.failures();
    let denied = timeout(LIMIT, failures.next()).await.unwrap().unwrap();
    assert_eq!(denied.kind, LastingKind::Denied, "{denied:?}");
    assert!(!sub.health().is_ready());
    kafka.mock.show_topic(crate::rig::TOPIC).unwrap();
    kafka.fill(0, 3);
    until("it is handled", || log.distinct() == 3).await;
    until("it is well", || sub.health() == Health::Healthy).await;
    assert_eq!(failures.next().now_or_never(), None, "told once");
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_refused_is_told_once_until_it_is_open_again() {
    let kafka = Kafka::start("a", 1);
    kafka.mock.fail_requests(Api::JoinGroup, &[BrokerError::GroupDenied; 100]);
    kafka.fill(0, 3);
    let log = Log::new();
    let sub = log.subscribe(kafka.subscriber());
    let mut failures = sub.failures();
    let denied = timeout(LIMIT, failures.next()).await.unwrap().unwrap();
    assert_eq!(denied.kind, LastingKind::Denied, "{denied:?}");
    assert!(!sub.health().is_ready());
    kafka.mock.heal_requests(Api::JoinGroup);
    until("it is handled", || log.distinct() == 3).await;
    until("it is well", || sub.health() == Health::Healthy).await;
    assert_eq!(failures.next().now_or_never(), None, "told once");
    sub.shutdown(LIMIT).await.unwrap();
}

/// One thread runs everything async here, so that a call that blocks it stops the ticks.
#[tokio::test]
async fn with_the_broker_down_neither_drop_nor_shutdown_blocks_the_runtime() {
    let kafka = Kafka::start("a", 1);
    kafka.fill(0, 5);
    let log = Log::new();
    let dropped = log.subscribe(kafka.subscriber());
    let ended = Log::new().subscribe(kafka.subscriber());
    until("all is handled", || log.distinct() == 5 || ended.inspect().counts.handled == 5).await;
    let ticks = Ticks::start();
    kafka.mock.all_brokers_down().unwrap();
    drop(dropped);
    let before = Instant::now();
    let _ = ended.shutdown(Duration::from_secs(1)).await;
    assert!(before.elapsed() < LIMIT / 2);
    ticks.assert_never_blocked().await;
}

/// Everything that a subscription asks a broker, it asks on threads of its own.
#[tokio::test]
async fn a_broker_that_answers_after_seconds_blocks_no_runtime() {
    let kafka = Kafka::start("a", 2);
    (0..2).for_each(|p| kafka.fill(p, 5));
    kafka.mock.round_trip_time(Duration::from_secs(2)).unwrap();
    let ticks = Ticks::start();
    let log = Log::new();
    let sub = log.subscribe(kafka.subscriber().property(LONG_SESSION.0, LONG_SESSION.1));
    timeout(LIMIT, sub.ready()).await.expect("the group answers").unwrap();
    until("all is handled", || log.distinct() == 10).await;
    sub.shutdown(LIMIT).await.unwrap();
    ticks.assert_never_blocked().await;
    kafka.mock.round_trip_time(Duration::ZERO).unwrap();
    until_committed(&kafka, 2, 5).await;
}

/// A task that wants to run every 10 ms until it is asked, and a thread that does and tells how long the machine lets one
/// wait that nothing blocks.
struct Ticks {
    task: JoinHandle<Duration>,
    machine: thread::JoinHandle<Duration>,
    enough: Arc<AtomicBool>,
}

const TICK: Duration = Duration::from_millis(10);

impl Ticks {
    fn start() -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let (one, other) = (Arc::clone(&enough), Arc::clone(&enough));
        let task = tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            while !one.load(Relaxed) {
                let before = Instant::now();
                tokio::time::sleep(TICK).await;
                longest = longest.max(before.elapsed());
            }
            longest
        });
        let machine = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !other.load(Relaxed) {
                let before = Instant::now();
                thread::sleep(TICK);
                longest = longest.max(before.elapsed());
            }
            longest
        });
        Self { task, machine, enough }
    }

    async fn assert_never_blocked(self) {
        self.enough.store(true, Relaxed);
        let (longest, usual) = (self.task.await.unwrap(), self.machine.join().unwrap());
        assert!(
            longest < Duration::from_secs(1) + 10 * usual,
            "the runtime was blocked for {longest:?}; other threads wait up to {usual:?}"
        );
    }
}
