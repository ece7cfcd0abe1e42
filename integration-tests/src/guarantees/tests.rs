use super::*;

fn record(number: u64) -> Record {
    at(number, 0, i64::try_from(number).unwrap())
}

fn at(number: u64, partition: i32, offset: i64) -> Record {
    let stream = Stream { producer: "p".into(), key: "k".into() };
    Record { stream, number, at: Position { cluster: "a".into(), partition, offset } }
}

fn all() -> Guarantees {
    Guarantees::of_group("g", Kept::CLEAN)
}

fn broken(kept: &Guarantees) -> String {
    kept.verdict().unwrap_err()
}

#[test]
fn a_clean_run_keeps_all_promises() {
    let kept = all();
    for number in 0..10 {
        kept.acknowledged(&record(number));
        drop(kept.handling(&record(number))); // fails once
        kept.handling(&record(number)).done();
        kept.committed("a", 0, i64::try_from(number).unwrap() + 1);
    }
    assert_eq!(kept.outstanding(), 0);
    kept.assert_holds();
}

#[test]
#[should_panic(expected = "group `g` breaks its guarantees\nG1 no loss: 2 acknowledged, 1 handled, 1 lost")]
fn an_acknowledged_message_that_is_never_done_is_a_loss() {
    let kept = all();
    kept.acknowledged(&record(0));
    kept.acknowledged(&record(1));
    kept.handling(&record(0)).done();
    drop(kept.handling(&record(1)));
    assert_eq!(kept.outstanding(), 1);
    kept.assert_holds();
}

#[test]
fn a_message_settled_by_policy_is_no_loss_and_lets_others_pass() {
    let kept = all();
    kept.acknowledged(&record(0));
    drop(kept.handling(&record(0)));
    kept.settled(&record(0));
    kept.handling(&record(1)).done();
    kept.committed("a", 0, 2);
    kept.assert_holds();
}

#[test]
fn a_position_above_a_running_call_is_a_breach() {
    let kept = all();
    let running = kept.handling(&record(3));
    kept.committed("a", 0, 3);
    kept.assert_holds();
    kept.committed("a", 0, 4);
    running.done();
    assert!(broken(&kept).contains("a/0: position 4 was committed when 3 was not done"), "{kept:?}");
}

#[test]
fn a_position_above_an_acknowledged_message_that_never_started_is_a_breach() {
    for early in [true, false] {
        let kept = all();
        if early {
            kept.acknowledged(&record(0));
        }
        kept.committed("a", 0, 1);
        if !early {
            kept.acknowledged(&record(0));
        }
        kept.handling(&record(0)).done();
        assert!(broken(&kept).contains("G2 at least once: 1 times"), "{}", broken(&kept));
    }
}

#[test]
fn a_position_that_goes_back_is_a_breach() {
    let kept = all();
    kept.committed("a", 0, 10);
    kept.committed("b", 0, 3);
    kept.assert_holds();
    kept.committed("a", 0, 3);
    assert!(broken(&kept).contains("a/0: position 3 was committed after 10"));
}

#[test]
fn two_calls_of_one_partition_at_once_are_a_breach_and_of_two_partitions_are_not() {
    let kept = Guarantees::of_group("g", &[Kept::PartitionOrder]);
    let calls = (kept.handling(&at(0, 0, 0)), kept.handling(&at(1, 1, 0)));
    kept.assert_holds();
    kept.handling(&at(2, 0, 1)).done();
    calls.0.done();
    calls.1.done();
    assert!(broken(&kept).contains("a/0: 1 started while 0 was running"));
}

#[test]
fn key_order_reaches_across_partitions() {
    let kept = Guarantees::of_group("g", &[Kept::KeyOrder]);
    kept.handling(&at(1, 0, 0)).done();
    kept.handling(&at(0, 1, 0)).done();
    assert!(broken(&kept).contains("key `k` from `p`: 0 came first time after 1"));
}

#[test]
fn a_duplicate_is_a_breach_where_none_may_be_and_only_there() {
    let (clean, crash) = (all(), Guarantees::of_group("g", Kept::ALWAYS));
    for kept in [&clean, &crash] {
        kept.handling(&record(0)).done();
        kept.handling(&record(0)).done();
    }
    assert!(broken(&clean).contains("G4 no duplicates") && broken(&clean).contains("1 delivered again"));
    crash.assert_holds();
}

#[test]
fn a_promise_of_the_scenarios_own_is_asked_too() {
    struct Never;
    impl Guarantee for Never {
        fn name(&self) -> &'static str {
            "never"
        }
        fn verdict(&self) -> Result<(), String> {
            Err("no".into())
        }
    }
    assert_eq!(broken(&all().and(Box::new(Never))), "never: no");
}

#[test]
fn copies_and_redeliveries_are_told_apart() {
    let kept = Guarantees::of_group("g", &[Kept::NoCopies]);
    kept.handling(&record(0)).done();
    kept.handling(&record(0)).done();
    kept.assert_holds();
    kept.handling(&at(0, 1, 0)).done();
    assert!(broken(&kept).contains("1 stored twice"), "{}", broken(&kept));
}

#[test]
fn what_was_committed_must_not_come_again_and_the_rest_may() {
    let kept = Guarantees::of_group("g", &[Kept::NothingCommittedAgain]);
    kept.handling(&record(6)).done();
    kept.committed("a", 0, 5);
    kept.handling(&record(5)).done();
    kept.assert_holds();
    kept.handling(&record(4)).done();
    assert!(broken(&kept).contains("after position 5"), "{}", broken(&kept));
}

#[test]
fn what_was_noted_as_done_must_not_come_again_either() {
    let kept = Guarantees::of_group("g", &[Kept::NothingCommittedAgain]);
    kept.committed("a", 0, 5);
    kept.noted("a", 0, 7);
    kept.noted("b", 0, 6);
    kept.handling(&record(6)).done();
    kept.handling(&record(8)).done();
    kept.assert_holds();
    kept.handling(&record(7)).done();
    assert!(broken(&kept).contains("noted as done"), "{}", broken(&kept));
}
