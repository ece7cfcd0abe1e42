use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn stream(name: u8) -> Stream {
    Stream { producer: format!("p{}", name % 2), key: format!("k{}", name / 2) }
}

fn at(partition: i32, offset: i64) -> Position {
    Position { cluster: "a".into(), partition, offset }
}

fn numbers(list: &[u64]) -> NumberSet {
    let mut set = NumberSet::default();
    for number in list {
        set.insert(*number);
    }
    set
}

#[test]
fn a_clean_run_is_clean_whatever_comes_first_acknowledgement_or_handling() {
    let mut checker = Checker::default();
    for number in 0..100 {
        if number % 2 == 0 {
            checker.acknowledged(&stream(0), number);
        }
        checker.handled(&stream(0), number, &at(0, i64::try_from(number).unwrap()));
        checker.acknowledged(&stream(0), number);
    }
    let report = checker.report();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.acknowledged, report.handled, checker.outstanding()), (100, 100, 0));
}

#[test]
fn a_message_that_nobody_acknowledged_may_be_missing() {
    let mut checker = Checker::default();
    checker.acknowledged(&stream(0), 0);
    checker.acknowledged(&stream(0), 2);
    checker.handled(&stream(0), 0, &at(0, 0));
    checker.handled(&stream(0), 2, &at(0, 1));
    assert!(checker.report().is_clean());
}

#[test]
fn a_repetition_is_told_from_a_copy_by_where_it_was_read() {
    let mut checker = Checker::default();
    checker.handled(&stream(0), 0, &at(0, 10));
    checker.handled(&stream(0), 1, &at(0, 11));
    checker.handled(&stream(0), 0, &at(0, 10));
    checker.handled(&stream(0), 0, &at(0, 12));
    checker.handled(&stream(0), 0, &at(1, 5));
    let report = checker.report();
    assert_eq!((report.redelivered.count, report.copied.count), (1, 2), "{report}");
    assert_eq!(report.reordered.count, 0, "a repetition breaks no order");
}

#[test]
fn a_report_names_examples() {
    let mut checker = Checker::default();
    for number in 0..20 {
        checker.acknowledged(&stream(0), number);
    }
    checker.handled(&stream(0), 3, &at(1, 7));
    checker.handled(&stream(0), 2, &at(1, 9));
    let text = checker.report().to_string();
    assert!(text.starts_with("20 acknowledged, 2 handled, 18 lost, 0 delivered again"), "{text}");
    assert!(
        text.contains("out of order: message 2 of key `k0` from `p0` at a/1@9, handled up to 3"),
        "{text}"
    );
    assert_eq!(text.matches("\n  lost: ").count(), 5, "{text}");
}

#[test]
fn memory_follows_gaps_and_not_messages() {
    let mut set = NumberSet::default();
    for number in 0..100_000 {
        set.insert(number);
    }
    assert_eq!((set.runs(), set.len()), (1, 100_000));
}

#[test]
fn the_ends_of_the_number_range_are_no_special_case() {
    let set = numbers(&[u64::MAX, 0, u64::MAX - 1]);
    assert_eq!((set.len(), set.runs(), set.last()), (3, 2, Some(u64::MAX)));
    assert!(set.contains(u64::MAX) && !set.contains(1));
    let missing: Vec<_> = set.missing_in(&numbers(&[u64::MAX])).collect();
    assert_eq!(missing, [(0, 0), (u64::MAX - 1, u64::MAX - 1)]);
}

#[test]
fn a_stamp_is_read_back_and_nothing_else_is() {
    assert_eq!(read_stamp(stamp("sender one", 7).as_bytes()), Some(("sender one", 7)));
    for other in ["", "zms", "zms 7", "zms x p", "hello", "zms -1 p"] {
        assert_eq!(read_stamp(other.as_bytes()), None, "{other}");
    }
    assert_eq!(read_stamp(&[0xff, 0xfe]), None);
}

#[test]
fn calls_in_order_one_at_a_time_with_repetitions_break_nothing() {
    let mut order = Order::default();
    for (number, done) in
        [(3, true), (5, false), (5, true), (9, true), (3, true), (5, true), (9, true), (10, true)]
    {
        assert_eq!(order.start(number), Ok(()));
        order.end(number, done);
    }
}

#[test]
fn overlap_lateness_and_overtaking_are_told_apart() {
    let mut order = Order::default();
    order.start(4).unwrap();
    assert_eq!(order.start(5), Err(Violation::Overlap { number: 5, running: 4 }));
    order.end(4, false);
    order.end(5, true);
    assert_eq!(order.start(2), Err(Violation::Late { number: 2, highest: 5 }));
    order.end(2, true);
    assert_eq!(order.start(6), Err(Violation::Overtook { number: 6, unfinished: 4 }));
}

/// One event: acknowledged, or handled at a partition and offset.
#[derive(Clone, Debug)]
enum Event {
    Acknowledged(u8, u64),
    Handled(u8, u64, i32, i64),
}

fn event() -> impl Strategy<Value = Event> {
    let (name, number) = (0..3_u8, 0..12_u64);
    prop_oneof![
        (name.clone(), number.clone()).prop_map(|(name, number)| Event::Acknowledged(name, number)),
        (name, number, 0..2_i32, 0..12_i64)
            .prop_map(|(name, number, p, o)| Event::Handled(name, number, p, o)),
    ]
}

/// The counts of lost, redelivered, copied and reordered, from the whole history.
fn by_definition(history: &[Event]) -> [u64; 4] {
    let mut counts = [0; 4];
    let mut acknowledged = BTreeSet::new();
    for (index, event) in history.iter().enumerate() {
        let (name, number, partition, offset) = match *event {
            Event::Acknowledged(name, number) => {
                acknowledged.insert((name, number));
                continue;
            }
            Event::Handled(name, number, partition, offset) => (name, number, partition, offset),
        };
        let before = || {
            history[..index].iter().filter_map(|earlier| match *earlier {
                Event::Handled(n, number, p, o) if n == name => Some((number, p, o)),
                _ => None,
            })
        };
        let again = before().any(|(earlier, ..)| earlier == number);
        let read = before().any(|(_, p, o)| p == partition && o >= offset);
        let late = before().any(|(earlier, ..)| earlier > number);
        let kind = if again { Some(if read { 1 } else { 2 }) } else { late.then_some(3) };
        if let Some(kind) = kind {
            counts[kind] += 1;
        }
    }
    let handled = |name, number| {
        history.iter().any(|e| matches!(*e, Event::Handled(n, m, ..) if (n, m) == (name, number)))
    };
    counts[0] = acknowledged.iter().filter(|(name, number)| !handled(*name, *number)).count() as u64;
    counts
}

proptest! {
    #[test]
    fn the_checker_counts_as_defined(history in prop::collection::vec(event(), 0..80)) {
        let mut checker = Checker::default();
        for event in &history {
            match *event {
                Event::Acknowledged(name, number) => checker.acknowledged(&stream(name), number),
                Event::Handled(name, number, p, o) => checker.handled(&stream(name), number, &at(p, o)),
            }
        }
        let report = checker.report();
        let counts = [&report.lost, &report.redelivered, &report.copied, &report.reordered].map(|found| found.count);
        prop_assert_eq!(counts, by_definition(&history));
        prop_assert_eq!(checker.outstanding(), report.lost.count);
        for findings in [&report.lost, &report.redelivered, &report.copied, &report.reordered] {
            prop_assert_eq!(findings.examples.len() as u64, findings.count.min(5));
        }
    }

    #[test]
    fn a_number_set_is_a_set(list in prop::collection::vec(0..40_u64, 0..60), other in prop::collection::vec(0..40_u64, 0..60)) {
        let (mut set, mut naive) = (NumberSet::default(), BTreeSet::new());
        for number in &list {
            prop_assert_eq!(set.insert(*number), naive.insert(*number));
        }
        prop_assert_eq!(set.len(), naive.len() as u64);
        prop_assert_eq!(set.last(), naive.last().copied());
        prop_assert_eq!(set.is_empty(), naive.is_empty());
        for number in 0..41 {
            prop_assert_eq!(set.contains(number), naive.contains(&number));
        }
        let starts = naive.iter().filter(|number| **number == 0 || !naive.contains(&(**number - 1))).count();
        prop_assert_eq!(set.runs(), starts);

        let other_set = numbers(&other);
        let missing: Vec<u64> = set.missing_in(&other_set).flat_map(|(first, last)| first..=last).collect();
        let expected: Vec<u64> = naive.difference(&other.into_iter().collect()).copied().collect();
        prop_assert_eq!(set.count_missing_in(&other_set), expected.len() as u64);
        prop_assert_eq!(set.first_missing_below(20, &other_set), expected.first().copied().filter(|n| *n < 20));
        prop_assert_eq!(missing, expected);
    }

    /// Against the plain wording: no other call runs, no call of a higher number was first, every lower one is done.
    #[test]
    fn order_judges_as_defined(calls in prop::collection::vec((0..8_u64, 0..3_u8), 0..60)) {
        let mut order = Order::default();
        let (mut started, mut done, mut running) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (number, act) in calls {
            if act > 0 && running.remove(&number) {
                order.end(number, act == 1);
                if act == 1 {
                    done.insert(number);
                }
            } else if !running.contains(&number) {
                let overlaps = !running.is_empty();
                let late = !started.contains(&number) && started.iter().any(|other| *other > number);
                let overtakes = started.iter().any(|other| *other < number && !done.contains(other));
                prop_assert_eq!(order.start(number).is_err(), overlaps || late || overtakes);
                started.insert(number);
                running.insert(number);
            }
        }
    }
}
