//! Changes of the number of workers while messages flow.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use zms_sdk::consumer::{Delivery, Ordering, ResizeError, Subscription};

use crate::rig::{LIMIT, Rig, Script, counts, now, until};

/// Subscribes with either kind of handler.
fn subscribe(script: &Arc<Script>, rig: &Rig, ordering: Ordering, blocking: bool) -> Subscription {
    let subscriber = rig.subscriber().ordering(ordering);
    if !blocking {
        return script.subscribe(subscriber);
    }
    let script = Arc::clone(script);
    now(subscriber.handle_blocking(move |delivery: Delivery| script.call_blocking(&delivery))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_while_the_number_of_workers_changes() {
    const COUNT: i64 = 1000;
    for (ordering, blocking) in
        [(Ordering::Partition, false), (Ordering::Partition, true), (Ordering::Key, false)]
    {
        let (rig, cluster) = Rig::new(3);
        for p in 0..3 {
            cluster.fill_keys(p, (0..COUNT).map(|n| format!("p{p}k{}", n % 20)));
        }
        let script = Script::new();
        let sub = subscribe(&script, &rig, ordering, blocking);
        let mut sizes = [1, 5, 2, 8, 3].into_iter().cycle();
        until("all is done", || {
            sub.resize(sizes.next().unwrap()).unwrap();
            (0..3).all(|p| cluster.committed(p) == Some(COUNT))
        })
        .await;
        assert_eq!(script.key_overlaps(), 0);
        if ordering == Ordering::Partition {
            assert_eq!(script.overlaps(), 0);
            (0..3).for_each(|p| assert_eq!(script.begun(p), (0..COUNT).collect::<Vec<_>>()));
        }
        for (p, key) in (0..3).flat_map(|p| (0..20).map(move |key| (p, key))) {
            let offsets: Vec<i64> = (0..COUNT).filter(|offset| offset % 20 == key).collect();
            assert_eq!(script.begun_of(&format!("p{p}k{key}")), offsets);
        }
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn more_workers_go_on_where_all_were_stuck() {
    for blocking in [false, true] {
        for ordering in [Ordering::Partition, Ordering::Key, Ordering::Unordered] {
            let (rig, cluster) = Rig::new(2);
            (0..2).for_each(|p| cluster.fill_keys(p, (0..300).map(|n| format!("{n}"))));
            let script = Script::new();
            script.hold(0, 0);
            let sub = subscribe(&script, &rig, ordering, blocking);
            sub.resize(1).unwrap();
            until("one is stuck", || script.begun(0).contains(&0)).await;
            sub.resize(2).unwrap();
            until("the other partition is done", || cluster.committed(1) == Some(300)).await;
            script.release(0, 0);
            until("all is done", || cluster.committed(0) == Some(300)).await;
            assert_eq!(script.calls(), 600);
            sub.shutdown(LIMIT).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_partition_moves_when_its_running_message_has_ended() {
    let (rig, cluster) = Rig::new(4);
    (0..4).for_each(|p| cluster.fill(p, 300));
    let script = Script::new();
    script.hold(3, 10);
    let sub = script.subscribe(rig.subscriber().workers(4));
    until("the others are done", || (0..3).all(|p| cluster.committed(p) == Some(300))).await;
    until("one is being handled", || script.begun(3).len() == 11).await;
    sub.resize(1).unwrap();
    (0..3).for_each(|p| cluster.fill(p, 300));
    until("the others go on", || (0..3).all(|p| cluster.committed(p) == Some(600))).await;
    assert_eq!(script.begun(3).len(), 11);
    script.release(3, 10);
    until("it goes on where it belongs now", || cluster.committed(3) == Some(300)).await;
    assert_eq!(script.overlaps(), 0);
    assert_eq!(script.begun(3), (0..300).collect::<Vec<_>>());
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn surplus_workers_end_after_their_present_message() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 8);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let (inside, highest, gate) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&go));
    let handler = move |_: Delivery| {
        let (inside, highest, gate) = (Arc::clone(&inside), Arc::clone(&highest), Arc::clone(&gate));
        async move {
            highest.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            gate.acquire().await.unwrap().forget();
            inside.fetch_sub(1, SeqCst);
        }
    };
    let subscriber = rig.subscriber().workers(8).ordering(Ordering::Unordered);
    let sub = now(subscriber.handle(handler)).unwrap();
    until("all workers are busy", || running.load(SeqCst) == 8).await;
    cluster.fill(0, 100);
    sub.resize(2).unwrap();
    until("more is there than is handled", || sub.inspect().buffered_messages > 50).await;
    go.add_permits(8);
    until("the first are done", || counts(&sub).handled == 8).await;
    until("two go on", || running.load(SeqCst) == 2).await;
    most.store(0, SeqCst);
    go.add_permits(100);
    until("all is done", || cluster.committed(0) == Some(108)).await;
    assert!(most.load(SeqCst) <= 2, "{} at a time", most.load(SeqCst));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_changes_nothing() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 3);
    let script = Script::new();
    let sub = script.subscribe(rig.subscriber());
    assert!(matches!(sub.resize(0), Err(ResizeError::None { .. })));
    until("it works on", || cluster.committed(0) == Some(3)).await;
    sub.shutdown(LIMIT).await.unwrap();
    assert!(matches!(sub.resize(2), Err(ResizeError::Closed { .. })));
}
