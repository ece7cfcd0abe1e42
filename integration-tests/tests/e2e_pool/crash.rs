//! A member dies while messages are done out of order.

use std::path::Path;

use zms_integration_tests::estate::{CLOSE_LIMIT, Committed, Estate, RemoteMember, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::services::require_services;
use zms_integration_tests::wait::{LIMIT, eventually};
use zms_sdk::consumer::Ordering;

/// Noted as done beside positions when the member is killed.
const ENOUGH: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn after_a_member_is_killed_what_it_noted_as_done_out_of_order_is_not_handled_again() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let kept = [Kept::NoLoss, Kept::AtLeastOnce, Kept::KeyOrder, Kept::NoCopies, Kept::NothingCommittedAgain];
    let trial = Trial::prepare(&estate, 8, &kept).await;
    let zms = estate.open("survivor").await;
    // The survivor comes first: what a process tells is heard of late, and would seem to overlap with its successor.
    let by_key = |subscriber: zms_sdk::Subscriber| {
        subscriber.workers(16).ordering(Ordering::Key).property("session.timeout.ms", "10000")
    };
    let survivor = trial.member_with(&zms, by_key).await;
    let program = Path::new(env!("CARGO_BIN_EXE_member"));
    let start = || RemoteMember::start_with(program, &estate, &trial, &["uneven"]);
    let mut victim = tokio::task::block_in_place(start);
    let sender = trial.sender("steady", &zms).await;
    let limit = std::time::Instant::now() + LIMIT;
    while noted(&trial.progress("a").await) < ENOUGH {
        assert!(std::time::Instant::now() < limit, "the victim notes what it did out of order");
    }

    tokio::task::block_in_place(|| victim.kill());
    let left = trial.progress("a").await;
    assert!(noted(&left) > 0, "the victim left something done out of order");
    tell(&trial, &left);
    eventually("the survivor holds all partitions", || survivor.inspect().partitions.len() == 8).await;
    let target = sender.sent().acknowledged();
    eventually("the survivor catches up", || trial.handled().count() > target).await;

    let sent = sender.finish().await;
    trial.settled().await;
    assert_eq!(sent.failed, Vec::<String>::new());
    zms.close(CLOSE_LIMIT).await.unwrap();
    let counts = survivor.inspect().counts;
    println!(
        "{} noted as done above positions; {} of {} handled again; {counts:?}",
        noted(&left),
        trial.handled().count() - sent.acknowledged(),
        sent.acknowledged(),
    );
    assert!(counts.already_done > 0, "the survivor took over what was noted");
    tell(&trial, &trial.progress("a").await);
    trial.assert_holds();
}

fn noted(progress: &[Committed]) -> usize {
    progress.iter().map(|partition| partition.done.len()).sum()
}

fn tell(trial: &Trial, progress: &[Committed]) {
    for Committed { partition, position, done } in progress {
        trial.kept().committed("a", *partition, *position);
        for offset in done {
            trial.kept().noted("a", *partition, *offset);
        }
    }
}
