//! Members share partitions, and start where they are told to.

use super::*;
use crate::testing::FAST_CONSUMER_PROTOCOL_PROPERTIES;

const COOPERATIVE: &[(&str, &str)] = &FAST_GROUP_PROPERTIES;

fn eager() -> Vec<(&'static str, &'static str)> {
    let mut properties = FAST_GROUP_PROPERTIES.to_vec();
    properties.push(("partition.assignment.strategy", "range"));
    properties
}

/// With sessions that members do not outlive for want of a processor: the tests count what is delivered.
fn protocols() -> [(&'static str, Vec<(&'static str, &'static str)>); 3] {
    let steady = |mut properties: Vec<_>| {
        properties.push(("session.timeout.ms", "6000"));
        properties
    };
    [
        ("cooperative", steady(COOPERATIVE.to_vec())),
        ("eager", steady(eager())),
        ("consumer", FAST_CONSUMER_PROTOCOL_PROPERTIES.to_vec()),
    ]
}

#[test]
fn two_members_share_the_partitions_and_one_takes_over_all() {
    for (name, properties) in protocols() {
        let cluster = cluster_with("orders", 4);
        let mut first = Member::join_with(&cluster, "orders", Listener::passive(), &properties);
        first.hold(4);
        let mut second = Member::join_with(&cluster, "orders", Listener::passive(), &properties);
        poll_both(&mut first, &mut second, name, |first, second| {
            first.listener.held().len() == 2 && second.listener.held().len() == 2
        });
        assert!(first.listener.held().is_disjoint(&second.listener.held()), "{name}");

        for partition in 0..4 {
            fill(&cluster, "orders", partition, 0..10);
        }
        poll_both(&mut first, &mut second, name, |first, second| {
            first.records.len() + second.records.len() >= 40
        });
        for member in [&first, &second] {
            let held = member.listener.held();
            assert!(member.records.iter().all(|record| held.contains(&record.partition)), "{name}");
            assert_eq!(member.records.len(), 20, "{name}");
        }

        second.client.close();
        assert!(second.listener.held().is_empty(), "{name}");
        first.hold(4);
        first.client.close();
    }
}

#[test]
fn a_member_that_dies_loses_its_partitions_to_the_others() {
    let cluster = cluster_with("orders", 2);
    let mut first = Member::join(&cluster, "orders", Listener::passive());
    first.hold(2);
    let mut second = Member::join(&cluster, "orders", Listener::passive());
    poll_both(&mut first, &mut second, "share", |first, second| {
        first.listener.held().len() == 1 && second.listener.held().len() == 1
    });
    drop(second.client);
    first.hold(2);
    first.client.close();
}

#[test]
fn reading_starts_where_the_listener_says() {
    for (name, properties) in protocols() {
        let cluster = cluster_with("orders", 4);
        for partition in 0..4 {
            fill(&cluster, "orders", partition, 0..10);
        }
        let on_assign: OnAssign = Box::new(|control, partitions| {
            assert_eq!(partitions.len(), 4);
            let range = control.log_ranges(&[1], PATIENCE).unwrap()[0].1;
            assert_eq!((range.low, range.high), (0, 10));
            assert_eq!(control.committed(partitions, PATIENCE).unwrap(), []);
            vec![(1, Start::At(7)), (2, Start::Latest), (3, Start::Earliest)]
        });
        let mut member = Member::join_with(&cluster, "orders", Listener::starting(on_assign), &properties);
        member.receive(3 + 10);
        // What was not answered for waits until it is known where it starts.
        member.client.seek(0, Start::At(4), PATIENCE).unwrap();
        member.poll_until("what was sought", |member| texts_of(member, 0).len() == 6);
        // The end of partition 2 is known to be where reading begins only once something arrives there.
        fill(&cluster, "orders", 2, 10..12);
        member.poll_until("later records", |member| texts_of(member, 2).contains(&"11".to_owned()));
        assert_eq!(texts_of(&member, 0), ["4", "5", "6", "7", "8", "9"], "{name}");
        assert_eq!(texts_of(&member, 1), ["7", "8", "9"], "{name}");
        assert_eq!(texts_of(&member, 3).len(), 10, "{name}");
        let end = texts_of(&member, 2);
        assert!(!end.contains(&"9".to_owned()), "{name}: {end:?}");
        member.client.close();
    }
}

fn texts_of(member: &Member, partition: i32) -> Vec<String> {
    member.records.iter().filter(|record| record.partition == partition).map(text).collect()
}

#[test]
fn a_partition_that_comes_back_is_delivered_whatever_was_paused_before() {
    for (name, properties) in protocols() {
        let cluster = cluster_with("orders", 2);
        let mut first = Member::join_with(&cluster, "orders", Listener::passive(), &properties);
        first.hold(2);
        first.client.pause(&[0, 1]);
        let mut second = Member::join_with(&cluster, "orders", Listener::passive(), &properties);
        poll_both(&mut first, &mut second, name, |_, second| second.listener.held().len() == 1);
        let moved = *second.listener.held().first().unwrap();
        second.client.close();
        first.hold(2);
        fill(&cluster, "orders", moved, 0..1);
        first.receive(1);
        first.client.close();
    }
}

#[test]
fn a_pause_while_being_assigned_holds_and_keeps_the_start() {
    for (name, properties) in protocols() {
        let cluster = cluster_with("orders", 2);
        for partition in 0..2 {
            fill(&cluster, "orders", partition, 0..10);
        }
        let on_assign: OnAssign = Box::new(|control, _| {
            control.pause(&[0, 1]);
            control.resume(&[1]);
            vec![(0, Start::At(6)), (1, Start::At(8))]
        });
        let mut member = Member::join_with(&cluster, "orders", Listener::starting(on_assign), &properties);
        member.receive(2);
        for _ in 0..10 {
            member.poll();
        }
        assert_eq!(texts_of(&member, 0), Vec::<String>::new(), "{name}");
        member.client.resume(&[0]);
        member.receive(6);
        assert_eq!(texts_of(&member, 0), ["6", "7", "8", "9"], "{name}");
        assert_eq!(texts_of(&member, 1), ["8", "9"], "{name}");
        member.client.close();
    }
}

#[test]
fn pausing_what_is_not_held_is_no_error() {
    let cluster = cluster_with("orders", 1);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.client.pause(&[0, 17]);
    member.client.resume(&[0, 17]);
    member.hold(1);
    fill(&cluster, "orders", 0, 0..1);
    member.receive(1);
    assert!(member.client.seek(17, Start::Earliest, Duration::from_secs(1)).is_err());
    member.client.close();
}

#[test]
fn a_seek_moves_the_position() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..10);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(10);
    member.client.seek(0, Start::At(8), PATIENCE).unwrap();
    member.receive(12);
    assert_eq!(member.texts()[10..], ["8", "9"]);
    member.client.close();
}

#[test]
fn what_was_fetched_before_a_seek_of_a_paused_partition_does_not_come() {
    for (name, properties) in protocols() {
        let cluster = cluster_with("orders", 2);
        for partition in 0..2 {
            fill(&cluster, "orders", partition, 0..10);
        }
        let on_assign: OnAssign = Box::new(|control, _| {
            control.pause(&[0]);
            vec![(0, Start::Earliest), (1, Start::Earliest)]
        });
        let mut member = Member::join_with(&cluster, "orders", Listener::starting(on_assign), &properties);
        member.receive(10);
        member.client.seek(0, Start::At(7), PATIENCE).unwrap();
        member.client.resume(&[0]);
        member.receive(13);
        assert_eq!(texts_of(&member, 0), ["7", "8", "9"], "{name}");
        assert_eq!(texts_of(&member, 1), (0..10).map(|n| n.to_string()).collect::<Vec<_>>(), "{name}");
        member.client.close();
    }
}

#[test]
fn a_batch_holds_no_more_than_asked_for() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..10);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    let mut batch = Vec::new();
    let mut got = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while got.len() < 10 {
        assert!(Instant::now() < deadline);
        member.client.poll(Duration::from_millis(20), 3, &mut batch).unwrap();
        assert!(batch.iter().map(Records::len).sum::<usize>() <= 3);
        let records = batch.iter().flat_map(Records::iter).map(OwnRecord::from);
        got.extend(records.map(|record| text(&record)));
        batch.clear();
    }
    assert_eq!(got, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    member.client.close();
}

#[test]
fn a_listener_that_panics_keeps_nobody_waiting() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..1);
    let on_assign: OnAssign = Box::new(|_, _| panic!("a listener of the test panics"));
    let on_revoke: OnRevoke = Box::new(|_, _, _| panic!("a listener of the test panics"));
    let mut member = Member::join(&cluster, "orders", Listener::with(on_assign, on_revoke));
    member.receive(1);
    member.client.close();
}

#[test]
fn a_partition_without_an_answer_does_not_hide_the_others() {
    let cluster = cluster_with("orders", 2);
    fill(&cluster, "orders", 1, 0..3);
    let on_assign: OnAssign = Box::new(|control, _| {
        let logs = control.log_ranges(&[0, 9, 1], PATIENCE).unwrap();
        assert_eq!(
            logs.iter().map(|(partition, log)| (*partition, log.high)).collect::<Vec<_>>(),
            [(0, 0), (1, 3)]
        );
        assert!(control.log_ranges(&[9], PATIENCE).is_err());
        vec![(1, Start::Earliest)]
    });
    let mut member = Member::join_with(&cluster, "orders", Listener::starting(on_assign), COOPERATIVE);
    member.receive(3);
    member.client.close();
}
