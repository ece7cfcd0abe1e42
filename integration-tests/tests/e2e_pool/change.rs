//! The number of workers changes, and the group stands still and goes on, under load.

use std::time::Duration;

use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, Trial};
use zms_integration_tests::guarantees::{Kept, Record};
use zms_integration_tests::services::require_services;
use zms_integration_tests::wait::eventually;
use zms_sdk::admin::{GroupMeta, Safety};
use zms_sdk::consumer::Ordering;

const KEPT: &[Kept] = &[Kept::NoLoss, Kept::AtLeastOnce, Kept::KeyOrder, Kept::NoDuplicates];
const SIZES: [usize; 12] = [1, 64, 2, 300, 3, 1, 16, 5, 128, 1, 8, 4];

/// Some take long, so that every change finds work under way.
fn uneven(record: &Record) -> Duration {
    Duration::from_millis(record.number * 7 % 20)
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_size_and_suspensions_under_load_lose_repeat_and_reorder_nothing() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let trial = Trial::begin(&estate, 4, KEPT).await.paced(uneven);
    let (one, two) = (estate.open("member-1").await, estate.open("member-2").await);
    let mut members = Vec::new();
    for zms in [&one, &two] {
        members
            .push(trial.member_with(zms, |subscriber| subscriber.workers(4).ordering(Ordering::Key)).await);
    }
    let sender = trial.sender("steady", &one).await;
    for (round, size) in SIZES.into_iter().enumerate() {
        let target = trial.handled().count() + 100;
        members[round % 2].resize(size).unwrap();
        if round % 4 == 3 {
            set_suspended(&estate, &trial, true).await;
            members[0].resize(SIZES[round - 1]).unwrap();
            set_suspended(&estate, &trial, false).await;
        }
        eventually("messages are handled", || trial.handled().count() > target).await;
    }
    let sent = sender.finish().await;
    trial.settled().await;
    assert_eq!(sent.failed, Vec::<String>::new());
    assert_eq!(trial.handled().count(), sent.acknowledged());
    for zms in [&one, &two] {
        zms.close(CLOSE_LIMIT).await.unwrap();
    }
    trial.assert_holds();
}

async fn set_suspended(estate: &Estate, trial: &Trial, suspended: bool) {
    let change = |meta: &mut GroupMeta| meta.suspend = suspended;
    estate.admin().set_group(trial.group(), Safety::Forced, change).await.unwrap();
}
