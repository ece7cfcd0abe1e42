use proptest::prelude::*;

use super::*;

mod crash;
mod oracle;

/// More than any text here takes.
const AMPLE: usize = 1 << 16;

fn tracker(start: i64) -> Tracker {
    Tracker::new(Epoch(1), start, None)
}

fn handle(tracker: &mut Tracker, offset: i64) -> Completed {
    assert!(tracker.begin());
    tracker.complete(offset)
}

fn deliver_all(tracker: &mut Tracker, offsets: impl IntoIterator<Item = i64>) {
    for offset in offsets {
        assert_eq!(tracker.deliver(offset, 1, 0), Delivered::Accepted);
    }
}

fn handle_all(tracker: &mut Tracker, offsets: impl IntoIterator<Item = i64>) {
    for offset in offsets {
        assert_eq!(handle(tracker, offset), Completed::Counted);
    }
}

fn due_offset(tracker: &Tracker) -> Option<i64> {
    tracker.due(AMPLE).map(|mark| mark.offset)
}

fn commit(tracker: &mut Tracker) -> Mark {
    let mark = tracker.due(AMPLE).unwrap();
    tracker.committed_to(mark.clone());
    mark
}

#[test]
fn gaps_in_the_log_do_not_hold_the_position() {
    let mut t = tracker(0);
    for offset in [0, 2, 4, 6] {
        assert_eq!(t.deliver(offset, 1, 0), Delivered::Accepted);
    }
    let positions: Vec<i64> = [0, 2, 6, 4]
        .into_iter()
        .map(|offset| {
            handle(&mut t, offset);
            t.position()
        })
        .collect();
    assert_eq!(positions, [1, 3, 3, 7]);
}

#[test]
fn the_position_does_not_follow_what_was_only_delivered() {
    let mut t = tracker(0);
    for offset in 0..10 {
        t.deliver(offset, 1, 0);
    }
    for offset in 0..4 {
        handle(&mut t, offset);
    }
    assert_eq!(due_offset(&t), Some(4));
    assert_eq!(t.oldest().map(|o| o.offset), Some(4));
}

#[test]
fn a_resolved_start_is_due_at_once_and_a_committed_one_is_not() {
    assert_eq!(due_offset(&tracker(7)), Some(7));
    assert_eq!(Tracker::new(Epoch(1), 7, Some(7)).due(AMPLE), None);
}

#[test]
fn a_position_is_never_due_backwards() {
    let mut t = tracker(0);
    t.deliver(0, 1, 0);
    handle(&mut t, 0);
    let higher = Mark { offset: 5, metadata: String::new(), completions: 1 };
    t.committed_to(higher.clone());
    assert_eq!(t.due(AMPLE), None);
    t.committed_to(Mark { offset: 3, ..higher });
    assert_eq!(t.committed(), Some(5));
}

#[test]
fn after_a_stop_queued_work_is_skipped_and_running_work_still_counts() {
    let mut t = tracker(0);
    t.deliver(0, 1, 0);
    t.deliver(1, 1, 0);
    assert!(t.begin());
    t.stop();
    assert!(!t.begin());
    assert_eq!(t.deliver(2, 1, 0), Delivered::Stopped);
    assert_eq!(t.running(), 1);
    assert_eq!(t.complete(0), Completed::Counted);
    assert_eq!((t.running(), due_offset(&t)), (0, Some(1)));
}

#[test]
fn completions_after_the_close_are_late() {
    let mut t = tracker(0);
    t.deliver(0, 1, 0);
    assert!(t.begin());
    t.close();
    t.stop();
    assert_eq!(t.complete(0), Completed::Late);
    assert_eq!((t.position(), t.due(AMPLE), t.running()), (0, None, 0));
}

#[test]
fn a_second_completion_does_not_count() {
    let mut t = tracker(0);
    t.deliver(0, 5, 0);
    t.deliver(1, 5, 0);
    assert_eq!(handle(&mut t, 1), Completed::Counted);
    assert_eq!(handle(&mut t, 1), Completed::Unknown);
    assert_eq!(handle(&mut t, 9), Completed::Unknown);
    assert_eq!((t.load(), t.span()), (Load { messages: 1, bytes: 5 }, 2));
}

#[test]
fn a_log_that_starts_over_is_reported() {
    let mut t = tracker(10);
    assert_eq!(t.deliver(10, 1, 0), Delivered::Accepted);
    assert_eq!(t.deliver(10, 1, 0), Delivered::Backwards);
    assert_eq!(t.deliver(0, 1, 0), Delivered::Backwards);
}

#[test]
fn what_is_done_above_the_position_is_due_once_and_is_not_handled_by_the_next() {
    let mut t = Tracker::new(Epoch(1), 0, Some(0));
    deliver_all(&mut t, 0..6);
    handle_all(&mut t, [2, 4]);
    let mark = commit(&mut t);
    assert_eq!((mark.offset, t.due(AMPLE)), (0, None), "nothing was completed since");

    let mut next = Tracker::new(Epoch(2), 0, Some(0));
    next.resume(Progress::decode(0, &mark.metadata).unwrap().done);
    assert_eq!(next.due(AMPLE), None, "what is read is no news");
    let again: Vec<i64> = (0..6).filter(|o| next.deliver(*o, 1, 0) == Delivered::Accepted).collect();
    assert_eq!(again, [0, 1, 3, 5]);
    for offset in again {
        handle(&mut next, offset);
    }
    assert_eq!(next.position(), 6);
}

#[test]
fn what_is_done_and_not_delivered_again_yet_stays_in_the_next_commits() {
    let mut t = Tracker::new(Epoch(1), 10, Some(10));
    t.resume([12, 20].into_iter().collect());
    t.deliver(10, 1, 0);
    handle(&mut t, 10);
    let mark = commit(&mut t);
    let done = Progress::decode(11, &mark.metadata).unwrap().done;
    assert_eq!((mark.offset, done), (11, [12, 20].into_iter().collect()));
}

#[test]
fn gaps_between_done_ones_count_as_done_and_gaps_beside_others_do_not() {
    let mut t = tracker(0);
    deliver_all(&mut t, [0, 3, 5, 8, 9]);
    handle_all(&mut t, [3, 5, 9]);
    assert_eq!(t.done_ahead().ranges(), [3..6, 9..10]);
}

#[test]
fn more_done_beyond_the_room_of_the_metadata_is_no_news() {
    let mut t = Tracker::new(Epoch(1), 0, Some(0));
    deliver_all(&mut t, 0..4000);
    let mut late: Vec<i64> = (1..4000).filter(|offset| offset % 3 == 0).collect();
    let last = late.pop().unwrap();
    handle_all(&mut t, late);
    let mark = t.due(100).unwrap();
    assert!(!mark.metadata.is_empty() && mark.metadata.len() <= 100);
    t.committed_to(mark);
    handle(&mut t, last);
    assert_eq!(t.due(100), None);
    assert!(t.due(4000).is_some());
}

#[test]
fn an_answer_that_was_overtaken_changes_nothing() {
    let mut t = Tracker::new(Epoch(1), 0, Some(0));
    deliver_all(&mut t, 0..4);
    handle(&mut t, 2);
    let first = t.due(AMPLE).unwrap();
    handle(&mut t, 3);
    let second = t.due(AMPLE).unwrap();
    t.committed_to(second);
    t.committed_to(first);
    assert_eq!(t.due(AMPLE), None);
}

proptest! {
    #[test]
    fn every_message_is_found_whatever_the_gaps(gaps in proptest::collection::vec(prop_oneof![9 => Just(0_i64), 1 => 0_i64..1000], 1..300), pick in any::<prop::sample::Index>()) {
        let mut t = tracker(0);
        for gap in &gaps {
            t.deliver(t.next() + gap, 1, 0);
        }
        let chosen = pick.index(gaps.len());
        let offset = t.slots[chosen].offset;
        prop_assert_eq!(t.index_of(offset), Some(chosen));
        let absent = (0..t.next() + 2).find(|o| t.slots.iter().all(|slot| slot.offset != *o));
        prop_assert_eq!(t.index_of(absent.unwrap()), None);
    }
}
