//! Members that join and leave in a loop. It goes on for `ZMS_SOAK_SECONDS`, 45 unless that says otherwise, and for three
//! rounds of each member at least.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout;
use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::services::require_services;
use zms_integration_tests::wait::eventually;
use zms_sdk::consumer::Ordering;
use zms_sdk::{Subscriber, Zms};

const BY_KEY: &[Kept] = &[Kept::NoLoss, Kept::AtLeastOnce, Kept::KeyOrder, Kept::NoDuplicates];
const ROUNDS: u64 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_and_each_message_is_handled_once_and_in_order() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let until = Instant::now() + soak_time();
    // Another group on another topic, in the same processes.
    let by_partition = Trial::begin(&estate, 8, Kept::CLEAN).await;
    let by_key = Trial::begin(&estate, 6, BY_KEY).await;
    let mut services = Vec::new();
    for number in 1..=3 {
        services.push(estate.open(&format!("service-{number}")).await);
    }
    let senders =
        [by_partition.sender("steady", &services[0]).await, by_key.sender("steady", &services[1]).await];

    let rounds = join_all((0..).zip(&services).map(async |(seed, zms): (u64, &Zms)| {
        let in_partitions = come_and_go(&by_partition, zms, (until, seed), Ordering::Partition);
        let in_keys = come_and_go(&by_key, zms, (until, seed + 3), Ordering::Key);
        tokio::join!(in_partitions, in_keys)
    }))
    .await;
    println!("rounds by service, (by partition, by key): {rounds:?}");

    let last = by_partition.member(&services[0]).await;
    let last_by_key = by_key.member_with(&services[1], |s| options(s, Ordering::Key)).await;
    for (sender, trial) in senders.into_iter().zip([&by_partition, &by_key]) {
        let sent = sender.finish().await;
        trial.settled().await;
        assert_eq!(sent.failed, Vec::<String>::new());
        println!("{} messages, {} calls", sent.acknowledged(), trial.handled().count());
    }
    println!("{:?}\n{:?}", last.inspect().counts, last_by_key.inspect().counts);
    for zms in &services {
        zms.close(CLOSE_LIMIT).await.unwrap();
    }
    by_partition.assert_holds();
    by_key.assert_holds();
}

fn soak_time() -> Duration {
    let asked = std::env::var("ZMS_SOAK_SECONDS").ok().map(|text| text.parse().unwrap());
    Duration::from_secs(asked.unwrap_or(45))
}

fn options(subscriber: Subscriber, ordering: Ordering) -> Subscriber {
    // A member that gets no processor for a while is none that has died, and a handler none that hangs.
    let subscriber = subscriber.property("session.timeout.ms", "60000").drain_limit(Duration::from_secs(60));
    subscriber.workers(4).ordering(ordering)
}

/// Joins, handles some messages and leaves, until the time is over; how many times.
async fn come_and_go(trial: &Trial, zms: &Zms, (until, seed): (Instant, u64), ordering: Ordering) -> u64 {
    let mut rounds = 0;
    while Instant::now() < until || rounds < ROUNDS {
        let joining = trial.member_with(zms, |subscriber| options(subscriber, ordering));
        let member = timeout(4 * CLOSE_LIMIT, joining).await.expect("it gets an answer from its group");
        if rounds % 2 == 0 {
            let target = trial.handled().count() + 100 * (1 + (seed + rounds) % 5);
            eventually("messages are handled", || trial.handled().count() > target).await;
        }
        member.shutdown(4 * CLOSE_LIMIT).await.unwrap();
        let counts = member.inspect().counts;
        assert_eq!((counts.losses, counts.late_completions), (0, 0), "{counts:?}");
        rounds += 1;
    }
    rounds
}
