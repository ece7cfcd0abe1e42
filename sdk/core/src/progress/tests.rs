use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn done(offsets: &[i64]) -> DoneSet {
    offsets.iter().copied().collect()
}

fn tag(text: &str) -> StartTag {
    StartTag::new(text).unwrap()
}

/// Members of other versions read and write this: a change here needs another version word.
#[test]
fn the_format_stands() {
    let some = Progress { start: None, done: done(&[1002, 1003, 1004, 1010]) };
    assert_eq!(some.encode(1000, 4000), "zms1 done:AIUG6jocBA");
    let all = Progress { start: Some(tag("m-7")), done: (2001..3001).collect() };
    assert_eq!(all.encode(2000, 4000), "zms1 start:m-7 done:AYmLBK0B6Ac");
    assert_eq!(Progress::decode(2000, "zms1 start:m-7 done:AYmLBK0B6Ac"), Some(all));
}

#[test]
fn nothing_to_say_is_no_text() {
    assert_eq!(Progress::default().encode(5, 4000), "");
    let tagged = Progress { start: Some(tag("x")), ..Progress::default() };
    assert_eq!(tagged.encode(5, 4000), "zms1 start:x");
    assert_eq!(tagged.encode(5, 11), "");
}

#[test]
fn text_of_others_counts_as_none() {
    for text in
        ["", " ", "zms", "zms2 done:AA", "zms10", "done:AA zms1", "{\"a\":1}", "zms1\u{a0}x", "zms1 start:"]
    {
        assert_eq!(Progress::decode(0, text), None, "{text:?}");
    }
    let long = format!("zms1 {}", "x".repeat(LONGEST_TEXT));
    assert_eq!(Progress::decode(0, &long), None);
}

#[test]
fn unknown_words_and_a_done_word_that_cannot_be_read_are_passed_over() {
    let read = Progress::decode(0, "zms1 later:9 start:a done:!! more");
    assert_eq!(read, Some(Progress { start: Some(tag("a")), done: DoneSet::default() }));
}

#[test]
fn a_tag_is_one_plain_word() {
    for text in ["", "a b", "a:b", "é", &"x".repeat(65)] {
        assert_eq!(StartTag::new(text), Err(InvalidStartTag), "{text:?}");
    }
    assert_eq!(tag("0aZ._-").as_str(), "0aZ._-");
}

/// Offsets above a position: mixtures, long runs, and far ones.
fn sets() -> impl Strategy<Value = (i64, BTreeSet<i64>)> {
    let run = (0_i64..40, 1_i64..20);
    let far = (0_i64..100_000, 1_i64..5000);
    let runs = prop_oneof![
        proptest::collection::vec(run.clone(), 0..200),
        proptest::collection::vec(prop_oneof![20 => run, 1 => far], 0..60),
        proptest::collection::vec((1_i64..3, 1_i64..3), 0..2000),
    ];
    (0_i64..1 << 40, runs).prop_map(|(position, runs)| {
        let (mut at, mut all) = (position, BTreeSet::new());
        for (skip, length) in runs {
            all.extend(at + skip..at + skip + length);
            at += skip + length;
        }
        (position, all)
    })
}

proptest! {
    #[test]
    fn what_fits_comes_back_whole((position, offsets) in sets(), id in proptest::option::of("[a-z0-9]{1,9}")) {
        let progress = Progress { start: id.map(|id| tag(&id)), done: offsets.iter().copied().collect() };
        let text = progress.encode(position, 1 << 15);
        prop_assert_eq!(Progress::decode(position, &text).unwrap_or_default(), progress);
    }

    #[test]
    fn what_does_not_fit_comes_back_as_a_prefix((position, offsets) in sets(), limit in 0_usize..300) {
        let progress = Progress { start: None, done: offsets.iter().copied().collect() };
        let text = progress.encode(position, limit);
        prop_assert!(text.len() <= limit && text.is_ascii());
        let read = Progress::decode(position, &text).unwrap_or_default().done;
        let written = offsets.iter().take_while(|offset| read.contains(**offset)).count();
        let all: i64 = read.ranges().iter().map(|range| range.end - range.start).sum();
        prop_assert_eq!(usize::try_from(all).unwrap(), written, "nothing but the lowest of the real ones");
    }

    #[test]
    fn no_text_is_ever_too_much_to_read(position in any::<i64>(), text in ".{0,200}") {
        Progress::decode(position, &text);
        Progress::decode(position, &format!("zms1 done:{text}"));
    }

    #[test]
    fn no_content_is_ever_too_much_to_read(
        position in any::<i64>(),
        kind in 0_u8..3,
        content in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let word = done_word::sealed(position, kind, &content);
        if let Some(done) = done_word::decode(position, &word) {
            prop_assert!(done.ranges().len() <= content.len() * 4);
            prop_assert!(done.ranges().iter().all(|range| range.start >= position));
        }
    }

    #[test]
    fn offsets_at_the_ends_of_numbers_do_no_harm(position in prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(-1), Just(i64::MAX - 3)]) {
        let progress = Progress { start: None, done: done(&[i64::MIN, -1, 0, i64::MAX - 2, i64::MAX - 1]) };
        let text = progress.encode(position, 4000);
        let read = Progress::decode(position, &text).unwrap_or_default().done;
        prop_assert!(read.ranges().iter().flat_map(Clone::clone).all(|offset| progress.done.contains(offset)));
    }
}
