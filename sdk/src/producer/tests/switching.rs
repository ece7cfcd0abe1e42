use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::time::Instant;

use super::*;
use crate::{
    engine::port::{FailureKind, Outcome},
    producer::{SendOutcome, tests::fake::failure},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_during_switches_all_end_well_and_in_order() {
    const TASKS: usize = 8;
    const EACH: usize = 1_250;
    let bench = Bench::with(ProducerOptions::new().switch_stall(Duration::from_secs(60)));
    let producer = bench.producer("orders", "a").await;
    bench.pump_for_ever(Duration::from_millis(1));
    // The last quarter comes after the last switch, so that whatever takes long all switches fall among the sends.
    let time = tokio::sync::watch::Sender::new(false);
    let senders: Vec<_> = (0..TASKS)
        .map(|task| {
            let (producer, mut time) = (producer.clone(), time.subscribe());
            tokio::spawn(async move {
                let mut results = Vec::new();
                for n in 0..EACH {
                    if n == EACH * 3 / 4 {
                        time.wait_for(|come| *come).await.unwrap();
                    }
                    let (done, result) = tokio::sync::oneshot::channel();
                    let message = Message::new(n.to_string()).key(task.to_string());
                    producer.send_with(message, |result| drop(done.send(result))).await;
                    results.push(result);
                    if n % 25 == 0 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                let mut clusters = BTreeMap::<String, usize>::new();
                for result in results {
                    let receipt = result.await.expect("one result each").expect("no send fails");
                    *clusters.entry(receipt.cluster.to_string()).or_default() += 1;
                }
                clusters
            })
        })
        .collect();
    until(|| !bench.engine.log().is_empty()).await;
    for cluster in ["b", "a", "b"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
        bench.adopt(route("orders", cluster)).await;
    }
    time.send_replace(true);
    let mut acknowledged = BTreeMap::<String, usize>::new();
    for sender in senders {
        for (cluster, count) in sender.await.unwrap() {
            *acknowledged.entry(cluster).or_default() += count;
        }
    }
    let mut delivered = BTreeMap::<String, usize>::new();
    let mut next = BTreeMap::<Vec<u8>, usize>::new();
    for record in bench.engine.log() {
        *delivered.entry(record.cluster).or_default() += 1;
        let next = next.entry(record.message.key_bytes().unwrap().to_vec()).or_default();
        assert_eq!(record.message.payload().unwrap(), next.to_string().as_bytes(), "order of a key");
        *next += 1;
    }
    assert_eq!(acknowledged, delivered);
    assert_eq!(acknowledged.len(), 2, "the switches fell among the sends");
    assert_eq!(acknowledged.values().sum::<usize>(), TASKS * EACH);
    let stats = bench.producers.stats();
    assert_eq!((stats.switches, stats.late_switches), (3, 0));
    bench.assert_everything_returned();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_survives_holds_switches_and_failing_clients_in_any_mixture() {
    let patient = ProducerOptions::new().switch_stall(Duration::from_secs(60));
    let bench = Bench::with(patient);
    let producer = bench.producer("orders", "a").await;
    bench.pump_for_ever(Duration::from_millis(1));
    let stop = Arc::new(AtomicBool::new(false));
    let results = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..4)
        .map(|task: usize| {
            let (producer, stop, results) = (producer.clone(), stop.clone(), results.clone());
            tokio::spawn(async move {
                let mut sent = 0_usize;
                while !stop.load(Ordering::SeqCst) {
                    let results = results.clone();
                    let message = Message::new(sent.to_string()).key(task.to_string());
                    let count = move |_| {
                        results.fetch_add(1, Ordering::SeqCst);
                    };
                    producer.send_with(message, count).await;
                    sent += 1;
                    if sent.is_multiple_of(20) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                sent
            })
        })
        .collect();
    for cluster in ["b", "a", "b"] {
        let current = producer.cluster().unwrap();
        bench.engine.cluster(current.as_str()).fail_clients();
        bench.adopt(route("orders", cluster)).await;
        bench.adopt(held("orders", cluster)).await;
        until(|| bench.producers.stats().held > 0).await;
        bench.adopt(route("orders", cluster)).await;
        let before = bench.engine.log().len();
        until(|| bench.engine.log().len() > before + 100).await;
        bench.engine.cluster(cluster).fail_clients();
        let replaced = bench.producers.stats().replaced_clients;
        until(|| bench.producers.stats().replaced_clients > replaced).await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut sent = 0;
    for sender in senders {
        sent += sender.await.unwrap();
    }
    bench.producers.close(Duration::from_secs(10)).await;
    assert_eq!(results.load(Ordering::SeqCst), sent, "one result each");
    let mut last = BTreeMap::<Vec<u8>, usize>::new();
    for record in bench.engine.log() {
        let n: usize = std::str::from_utf8(record.message.payload().unwrap()).unwrap().parse().unwrap();
        let before = last.insert(record.message.key_bytes().unwrap().to_vec(), n);
        assert!(before < Some(n), "{before:?} before {n}");
    }
    assert_eq!(bench.producers.stats().late_switches, 0);
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn a_switch_waits_for_the_reports_of_the_old_cluster() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let first = start(&bench, &producer, "1").await;
    let switching = tokio::spawn(bench.producers.clone().adopt(Arc::new(route("orders", "b"))));
    until(|| bench.producers.lookup("orders").unwrap().topic.gate.is_held()).await;
    let second = start(&bench, &producer, "2").await;
    let third = start(&bench, &producer, "3").await;
    assert_eq!(bench.engine.cluster("b").queued(), 0, "nothing overtakes what is on the old cluster");
    bench.engine.pump();
    switching.await.unwrap();
    bench.engine.pump();
    let receipts =
        [first, second, third].map(|task| async { task.await.unwrap().unwrap().cluster.to_string() });
    assert_eq!(futures_util::future::join_all(receipts).await, ["a", "b", "b"]);
    assert_eq!(texts(&bench), ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn leaving_a_dead_cluster_takes_a_second_or_two_whatever_the_number_of_topics() {
    let bench = Bench::new();
    let names: Vec<_> = (0..20).map(|n| format!("topic-{n}")).collect();
    let mut stuck = Vec::new();
    bench.engine.cluster("a").dead.store(true, Ordering::SeqCst);
    for name in &names {
        let producer = bench.producer(name, "a").await;
        stuck.push(start(&bench, &producer, "stuck").await);
    }
    let started = Instant::now();
    let switches = names.iter().map(|name| bench.adopt(route(name, "b")));
    futures_util::future::join_all(switches).await;
    for name in &names {
        let sent = send(&bench.producers.lookup(name).unwrap(), "fresh");
        until(|| bench.engine.cluster("b").queued() > 0).await;
        bench.engine.pump();
        assert_eq!(sent.await.unwrap().unwrap().cluster.as_str(), "b");
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?} of virtual time", started.elapsed());
    let stats = bench.producers.stats();
    assert_eq!((stats.switches, stats.late_switches, stats.left_behind), (20, 20, 20));
    bench.producers.close(Duration::from_secs(1)).await;
    for task in stuck {
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, SendError::NotSent { .. } | SendError::Unknown { .. }), "{error}");
        assert_eq!(error.cluster().unwrap().as_str(), "a");
    }
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn messages_left_behind_neither_take_the_room_of_later_ones_nor_delay_the_next_switch() {
    let bench = Bench::with(ProducerOptions::new().buffer(8 << 20));
    let producer = bench.producer("orders", "a").await;
    bench.engine.cluster("a").dead.store(true, Ordering::SeqCst);
    let big = "x".repeat(1 << 20);
    for _ in 0..3 {
        drop(start(&bench, &producer, &big).await);
    }
    let waits = send(&producer, &big);
    until(|| bench.producers.stats().waiting == 1).await;
    bench.adopt(route("orders", "b")).await;
    until(|| bench.engine.cluster("b").queued() == 1).await;
    bench.engine.pump();
    assert_eq!(waits.await.unwrap().unwrap().cluster.as_str(), "b");
    bench.adopt(route("orders", "c")).await;
    let stats = bench.producers.stats();
    assert_eq!((stats.switches, stats.late_switches), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn reports_that_keep_coming_keep_a_switch_waiting_up_to_its_limit() {
    let bench = Bench::with(ProducerOptions::new().property("message.timeout.ms", "60000"));
    let producer = bench.producer("orders", "a").await;
    for n in 0..20 {
        drop(start(&bench, &producer, &n.to_string()).await);
    }
    let started = Instant::now();
    let switching = tokio::spawn(bench.producers.clone().adopt(Arc::new(route("orders", "b"))));
    let a = bench.engine.cluster("a");
    while !switching.is_finished() {
        tokio::time::sleep(Duration::from_millis(500)).await;
        a.report_first(&Outcome::Delivered { partition: 0, offset: None, timestamp_ms: None });
    }
    assert!(started.elapsed() >= Duration::from_secs(5), "{:?} of virtual time", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(8), "{:?} of virtual time", started.elapsed());
    assert_eq!(bench.producers.stats().late_switches, 1);
}

#[tokio::test(start_paused = true)]
async fn held_sends_go_out_in_order_and_before_new_ones() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.adopt(held("orders", "a")).await;
    let mut tasks = Vec::new();
    for n in 0..1_000 {
        tasks.push(start(&bench, &producer, &n.to_string()).await);
    }
    assert_eq!(bench.producers.stats().held, 1_000);
    bench.adopt(route("orders", "b")).await;
    tasks.push(start(&bench, &producer, "1000").await);
    bench.engine.pump();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().cluster.as_str(), "b");
    }
    assert_eq!(texts(&bench), (0..=1_000).map(|n| n.to_string()).collect::<Vec<_>>());
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn a_new_send_in_the_midst_of_the_release_goes_behind_the_held_ones() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.adopt(held("orders", "a")).await;
    for n in 0..3 {
        drop(start(&bench, &producer, &n.to_string()).await);
    }
    let late = producer.clone();
    let hook = move || late.send_oneway(message("new"));
    *bench.engine.cluster("a").on_produce.lock().unwrap() = Some(Box::new(hook));
    bench.adopt(route("orders", "a")).await;
    bench.engine.pump();
    assert_eq!(texts(&bench), ["0", "1", "2", "new"]);
}

#[tokio::test(start_paused = true)]
async fn a_send_held_past_its_deadline_ends_as_not_sent_and_comes_back() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.adopt(held("orders", "a")).await;
    let error = send(&producer, "late").await.unwrap().unwrap_err();
    assert!(matches!(&error, SendError::Held { reason, waited, .. }
        if reason == "a move is on" && *waited >= Duration::from_secs(30)));
    assert_eq!(error.outcome(), SendOutcome::NotSent);
    assert!(error.is_retryable());
    assert_eq!(error.into_message(), Some(message("late")));
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn a_held_topic_leaves_room_for_the_others() {
    let bench = Bench::with(ProducerOptions::new().buffer(4 << 20));
    let stuck = bench.producer("stuck", "a").await;
    let lively = bench.producer("lively", "a").await;
    bench.adopt(held("stuck", "a")).await;
    for _ in 0..4 {
        stuck.send_oneway(Message::new(vec![0; 1_000_000]));
    }
    let stats = bench.producers.stats();
    assert_eq!((stats.held, stats.dropped_oneway), (2, 2), "half of the buffer is the most it gets");
    let waiter = send(&stuck, &"x".repeat(1_000_000));
    until(|| bench.producers.stats().waiting == 1).await;
    let sent = start(&bench, &lively, "on").await;
    bench.engine.pump();
    assert!(sent.await.unwrap().is_ok());
    let error = waiter.await.unwrap().unwrap_err();
    assert!(
        matches!(error, SendError::BufferFull { waited, .. } if waited >= Duration::from_secs(10)),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn adopting_the_same_route_again_changes_nothing() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    drop(start(&bench, &producer, "in flight").await);
    bench.adopt(route("orders", "a")).await;
    bench.adopt(TopicRoute { changed: ChangeId(2), ..route("orders", "a") }).await;
    assert_eq!(bench.producers.stats().switches, 0);
    assert_eq!(bench.engine.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_nobody_waits_for_is_finished() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let in_flight = start(&bench, &producer, "1").await;
    let adoption = bench.producers.clone().adopt(Arc::new(route("orders", "b")));
    assert!(tokio::time::timeout(Duration::from_millis(100), adoption).await.is_err());
    bench.engine.pump();
    assert!(in_flight.await.unwrap().is_ok());
    until(|| producer.cluster().unwrap().as_str() == "b").await;
    let sent = start(&bench, &producer, "2").await;
    bench.engine.pump();
    assert_eq!(sent.await.unwrap().unwrap().cluster.as_str(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_failed_for_good_is_replaced_and_no_caller_notices() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.engine.cluster("a").fail_clients();
    let tasks: Vec<_> = (0..10).map(|n| send(&producer, &n.to_string())).collect();
    until(|| bench.engine.cluster("a").queued() == 10).await;
    bench.engine.pump();
    for task in tasks {
        assert!(task.await.unwrap().is_ok());
    }
    assert_eq!(bench.engine.opened(), 2);
    assert_eq!(bench.producers.stats().replaced_clients, 1);
    until(|| bench.engine.cluster("a").closed() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn held_sends_keep_their_order_when_the_client_fails_under_them() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.adopt(held("orders", "a")).await;
    let mut tasks = Vec::new();
    for n in 0..10 {
        tasks.push(start(&bench, &producer, &n.to_string()).await);
    }
    bench.engine.cluster("a").refusals.lock().unwrap().push_back(failure(FailureKind::Fatal, "fenced"));
    bench.adopt(route("orders", "a")).await;
    until(|| bench.engine.cluster("a").queued() == 10).await;
    bench.engine.pump();
    for task in tasks {
        assert!(task.await.unwrap().is_ok());
    }
    assert_eq!(texts(&bench), (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_fatal_report_ends_its_own_send_and_has_the_client_replaced() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let first = start(&bench, &producer, "1").await;
    bench.engine.cluster("a").report_first(&Outcome::Unknown(failure(FailureKind::Fatal, "fenced")));
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), SendOutcome::Unknown);
    let second = send(&producer, "2");
    until(|| bench.engine.cluster("a").queued() == 1).await;
    bench.engine.pump();
    assert!(second.await.unwrap().is_ok());
    assert_eq!(bench.engine.opened(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_no_client_can_be_opened_for_refuses_sends_until_it_can() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    *bench.engine.refuse_open.lock().unwrap() = Some("no such property: lingr".to_owned());
    bench.adopt(route("orders", "b")).await;
    let error = producer.send(message("1")).await.unwrap_err();
    assert!(error.to_string().contains("lingr") && error.cluster().unwrap().as_str() == "b", "{error}");
    assert_eq!(error.into_message(), Some(message("1")));
    *bench.engine.refuse_open.lock().unwrap() = None;
    until(|| producer.cluster().unwrap().as_str() == "b").await;
    let sent = start(&bench, &producer, "2").await;
    bench.engine.pump();
    assert_eq!(sent.await.unwrap().unwrap().cluster.as_str(), "b");
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_leave_the_client_of_the_same_cluster_in_use() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let mut broken = route("orders", "a");
    broken.producer.insert("linger".to_owned(), "40s".to_owned());
    bench.adopt(broken).await;
    let sent = start(&bench, &producer, "1").await;
    bench.engine.pump();
    assert!(sent.await.unwrap().is_ok());
    assert_eq!(bench.producers.stats().unusable, 1);
}
