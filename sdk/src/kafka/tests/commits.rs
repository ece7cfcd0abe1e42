//! Committed positions.

use super::*;
use crate::{
    engine::port::{FailureKind, Position},
    testing::{Api, BrokerError},
};

fn at(partition: i32, offset: i64) -> Position {
    Position { partition, offset, metadata: String::new() }
}

fn committed(cluster: &MockCluster, to: &str) -> Vec<Position> {
    admin(cluster).committed(&group(), &topic(to), PATIENCE).unwrap()
}

#[test]
fn a_position_is_read_back_as_it_was_committed_with_its_text() {
    let cluster = cluster_with("orders", 3);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.hold(3);
    let positions =
        vec![Position { partition: 0, offset: 5, metadata: "z1;done:7,9 é".to_owned() }, at(2, 8)];
    member.client.commit(&positions).unwrap();
    assert_eq!(member.client.committed(&[0, 1, 2], PATIENCE).unwrap(), positions);
    assert_eq!(committed(&cluster, "orders"), positions);
    member.client.close();
}

#[test]
fn the_next_member_begins_exactly_at_the_committed_position() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..5);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(5);
    member.client.commit(&[at(0, 5)]).unwrap();
    member.client.close();
    assert_eq!(committed(&cluster, "orders"), [at(0, 5)], "closing commits nothing of its own");

    fill(&cluster, "orders", 0, 5..6);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(1);
    assert_eq!(member.texts(), ["5"]);
    member.client.close();
}

#[test]
fn closing_without_a_commit_moves_no_position() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..5);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(5);
    member.client.close();
    assert_eq!(committed(&cluster, "orders"), []);
}

#[test]
fn a_failed_commit_is_reported_and_the_member_goes_on() {
    let errors = [
        (BrokerError::IllegalGeneration, FailureKind::Superseded),
        (BrokerError::RebalanceInProgress, FailureKind::Superseded),
        (BrokerError::UnknownMember, FailureKind::Superseded),
    ];
    for (error, kind) in errors {
        let cluster = cluster_with("orders", 1);
        fill(&cluster, "orders", 0, 0..10);
        let mut member = Member::join(&cluster, "orders", Listener::passive());
        member.receive(10);
        member.client.commit(&[at(0, 5)]).unwrap();
        cluster.fail_requests(Api::OffsetCommit, &[error]);
        let failed = member.client.commit(&[at(0, 10)]).unwrap_err();
        assert_eq!(failed.kind, kind, "{error:?}: {failed}");
        assert_eq!(committed(&cluster, "orders"), [at(0, 5)], "{error:?}");

        fill(&cluster, "orders", 0, 10..20);
        member.poll_until("go on", |member| member.texts().contains(&"19".to_owned()));
        member.client.commit(&[at(0, 20)]).unwrap();
        assert_eq!(committed(&cluster, "orders"), [at(0, 20)], "{error:?}");
        member.client.close();
    }
}

#[test]
fn a_coordinator_that_is_starting_is_waited_for() {
    let cluster = cluster_with("orders", 1);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.hold(1);
    cluster.fail_requests(Api::OffsetCommit, &[BrokerError::CoordinatorLoading]);
    member.client.commit(&[at(0, 3)]).unwrap();
    assert_eq!(committed(&cluster, "orders"), [at(0, 3)]);
    member.client.close();
}

#[test]
fn metadata_that_the_broker_finds_too_long_is_an_error() {
    let cluster = cluster_with("orders", 1);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.hold(1);
    cluster.fail_requests(Api::OffsetCommit, &[BrokerError::OffsetMetadataTooLarge]);
    let error = member.client.commit(&[at(0, 3)]).unwrap_err();
    assert_eq!(error.kind, FailureKind::TooLarge);
    member.client.commit(&[at(0, 3)]).unwrap();
    member.client.close();
}

#[test]
fn positions_can_be_committed_while_partitions_are_taken_away() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..5);
    let on_revoke: OnRevoke = Box::new(|control, partitions, lost| {
        assert!(!lost);
        assert_eq!(partitions, [0]);
        control.commit(&[at(0, 4)]).unwrap();
    });
    let mut member = Member::join(&cluster, "orders", Listener::with(Box::new(as_committed), on_revoke));
    member.receive(5);
    let listener = Arc::clone(&member.listener);
    member.client.close();
    assert!(listener.held().is_empty(), "closing tells the listener");
    assert_eq!(committed(&cluster, "orders"), [at(0, 4)]);
}

/// The answer to the commit that was begun last.
fn answered(member: &mut Member) -> Result<(), EngineError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = member.client.poll_commit() {
            return answer;
        }
        assert!(Instant::now() < deadline, "a commit is not answered");
        member.poll();
    }
}

#[test]
fn a_commit_that_is_not_waited_for_is_answered_between_polls() {
    let cluster = cluster_with("orders", 2);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.hold(2);
    assert!(member.client.poll_commit().is_none());
    let positions = vec![Position { partition: 0, offset: 5, metadata: "text".to_owned() }, at(1, 8)];
    member.client.begin_commit(&positions).unwrap();
    answered(&mut member).unwrap();
    assert!(member.client.poll_commit().is_none(), "the answer comes once");
    assert_eq!(committed(&cluster, "orders"), positions);

    cluster.fail_requests(Api::OffsetCommit, &[BrokerError::RebalanceInProgress]);
    member.client.begin_commit(&[at(0, 6)]).unwrap();
    assert_eq!(answered(&mut member).unwrap_err().kind, FailureKind::Superseded);
    member.client.begin_commit(&[at(0, 7)]).unwrap();
    answered(&mut member).unwrap();
    assert_eq!(committed(&cluster, "orders")[0], at(0, 7));
    member.client.close();
}

#[test]
fn a_commit_on_its_way_holds_up_neither_the_next_nor_the_end() {
    let cluster = cluster_with("orders", 1);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.hold(1);
    for offset in 1..=50 {
        member.client.begin_commit(&[at(0, offset)]).unwrap();
    }
    answered(&mut member).unwrap();
    assert_eq!(committed(&cluster, "orders"), [at(0, 50)]);
    member.client.begin_commit(&[at(0, 51)]).unwrap();
    member.client.close();
}
