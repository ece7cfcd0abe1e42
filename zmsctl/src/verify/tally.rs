//! What was sent, what was acknowledged, what was handled.

use std::collections::{BTreeMap, BTreeSet};

use zms_core::sequence::{Checker, Example, Position, Report, Stream, read_stamp};

/// A message of this run: its key and its number.
type Id = (String, u64);

/// Examples kept of each kind.
const EXAMPLES: usize = 5;

/// The books of one run. Every message is entered when it is sent and crossed out when it is handled; what is left
/// at the end is lost, or late.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The sender's name in the stamps: tells this run's messages from others.
    run: String,
    checker: Checker,
    /// Sent and not handled; with their places once they are acknowledged.
    open: BTreeMap<Id, Option<Place>>,
    sent: u64,
    not_sent: u64,
    unknown: u64,
    foreign: u64,
    lost: u64,
    lost_examples: Vec<String>,
    first_failure: Option<String>,
    clusters: BTreeSet<String>,
}

/// Where a message lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cluster: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

/// Below these offsets, by partition, a cluster has nothing left that the group will be given.
pub(super) type Passed = BTreeMap<i32, i64>;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) sent: u64,
    /// Sends without a result.
    pub(super) in_flight: u64,
    pub(super) acknowledged: u64,
    pub(super) handled: u64,
    /// Acknowledged, neither handled nor known to be lost.
    pub(super) outstanding: u64,
}

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) sent: u64,
    pub(super) not_sent: u64,
    pub(super) unknown: u64,
    pub(super) foreign: u64,
    pub(super) lost: u64,
    /// Neither handled nor known to be lost; sends without a result are among them.
    pub(super) unfinished: u64,
    pub(super) report: Report,
    pub(super) first_failure: Option<String>,
    pub(super) clusters: BTreeSet<String>,
    /// A few messages of each kind, in words.
    pub(super) examples: Vec<String>,
}

impl Tally {
    pub(super) fn new(run: String) -> Self {
        Self { run, ..Self::default() }
    }

    /// The sender's name in the stamps.
    pub(super) fn run(&self) -> &str {
        &self.run
    }

    pub(super) fn sent(&mut self, key: &str, number: u64) {
        self.sent += 1;
        self.open.insert((key.to_owned(), number), None);
    }

    pub(super) fn acknowledged(&mut self, key: &str, number: u64, place: Place) {
        self.checker.acknowledged(&self.stream(key), number);
        self.clusters.insert(place.cluster.clone());
        // Not entered any more: it was handled before its sender heard of it.
        if let Some(open) = self.open.get_mut(&(key.to_owned(), number)) {
            *open = Some(place);
        }
    }

    /// A send ended without an acknowledgement; nothing is owed.
    pub(super) fn failed(&mut self, key: &str, number: u64, may_have_arrived: bool, reason: String) {
        *(if may_have_arrived { &mut self.unknown } else { &mut self.not_sent }) += 1;
        self.open.remove(&(key.to_owned(), number));
        self.first_failure.get_or_insert(reason);
    }

    /// A message came to the handler.
    pub(super) fn handled(&mut self, key: &[u8], payload: &[u8], place: Place) {
        let own = read_stamp(payload).filter(|(run, _)| *run == self.run);
        let (Some((_, number)), Ok(key)) = (own, std::str::from_utf8(key)) else {
            self.foreign += 1;
            return;
        };
        let at = Position { cluster: place.cluster, partition: place.partition, offset: place.offset };
        self.checker.handled(&self.stream(key), number, &at);
        self.clusters.insert(at.cluster);
        self.open.remove(&(key.to_owned(), number));
    }

    pub(super) fn progress(&self) -> Progress {
        let report = self.checker.report();
        let outstanding = self.open.values().flatten().count() as u64;
        let in_flight = self.open.len() as u64 - outstanding;
        Progress {
            sent: self.sent,
            in_flight,
            acknowledged: report.acknowledged,
            handled: report.handled,
            outstanding,
        }
    }

    /// Clusters on which acknowledged messages wait to be handled.
    pub(super) fn waiting_on(&self) -> BTreeSet<String> {
        self.open.values().flatten().map(|place| place.cluster.clone()).collect()
    }

    /// Counts as lost what waits on a cluster below what it has passed.
    pub(super) fn passed(&mut self, cluster: &str, passed: &Passed) {
        let is_lost = |place: &Place| {
            place.cluster == cluster
                && passed.get(&place.partition).is_some_and(|&passed| place.offset < passed)
        };
        let (lost, examples) = (&mut self.lost, &mut self.lost_examples);
        self.open.retain(|(key, number), place| {
            let Some(place) = place.as_ref().filter(|place| is_lost(place)) else { return true };
            *lost += 1;
            if examples.len() < EXAMPLES {
                let Place { cluster, partition, offset } = place;
                examples.push(format!(
                    "lost: message {number} of key {key} at {cluster}/{partition}@{offset}: the group is past it"
                ));
            }
            false
        });
    }

    pub(super) fn summary(&self) -> Summary {
        let report = self.checker.report();
        let progress = self.progress();
        let mut examples = self.lost_examples.clone();
        let late = self.open.iter().filter_map(|(id, place)| Some((id, place.as_ref()?)));
        examples.extend(late.take(EXAMPLES).map(|((key, number), Place { cluster, partition, offset })| {
            format!("not handled yet: message {number} of key {key} at {cluster}/{partition}@{offset}")
        }));
        for (what, findings) in [
            ("handled again", &report.redelivered),
            ("stored twice", &report.copied),
            ("out of order", &report.reordered),
        ] {
            examples.extend(findings.examples.iter().map(|example| words(what, example)));
        }
        Summary {
            sent: self.sent,
            not_sent: self.not_sent,
            unknown: self.unknown,
            foreign: self.foreign,
            lost: self.lost,
            unfinished: progress.outstanding + progress.in_flight,
            report,
            first_failure: self.first_failure.clone(),
            clusters: self.clusters.clone(),
            examples,
        }
    }

    fn stream(&self, key: &str) -> Stream {
        Stream { producer: self.run.clone(), key: key.to_owned() }
    }
}

fn words(what: &str, example: &Example) -> String {
    let Example { stream, number, at, highest } = example;
    let mut text = format!("{what}: message {number} of key {}", stream.key);
    if let Some(Position { cluster, partition, offset }) = at {
        text = format!("{text} at {cluster}/{partition}@{offset}");
    }
    if let Some(highest) = highest {
        text = format!("{text}, after message {highest}");
    }
    text
}

#[cfg(test)]
mod tests {
    use zms_core::sequence::stamp;

    use super::*;

    fn at(offset: i64) -> Place {
        Place { cluster: "a".to_owned(), partition: 0, offset }
    }

    fn tally(acknowledged: u64) -> Tally {
        let mut tally = Tally::new("run".to_owned());
        for number in 0..acknowledged {
            tally.sent("k", number);
            tally.acknowledged("k", number, at(i64::try_from(number).unwrap()));
        }
        tally
    }

    fn handle(tally: &mut Tally, number: u64, offset: i64) {
        tally.handled(b"k", stamp("run", number).as_bytes(), at(offset));
    }

    #[test]
    fn what_is_handled_once_in_order_is_clean() {
        let mut tally = tally(2);
        handle(&mut tally, 0, 0);
        handle(&mut tally, 1, 1);
        let summary = tally.summary();
        assert!(summary.report.is_clean());
        assert_eq!((summary.sent, summary.lost, summary.unfinished), (2, 0, 0));
    }

    #[test]
    fn a_message_is_lost_once_the_group_is_past_it_and_late_until_then() {
        let mut tally = tally(3);
        handle(&mut tally, 0, 0);
        assert_eq!(tally.progress().outstanding, 2);
        tally.passed("b", &Passed::from([(0, 9)]));
        tally.passed("a", &Passed::from([(1, 9)]));
        assert_eq!(tally.summary().lost, 0, "another cluster, another partition");
        tally.passed("a", &Passed::from([(0, 2)]));
        let summary = tally.summary();
        assert_eq!((summary.lost, summary.unfinished), (1, 1));
        assert!(
            summary.examples[0].starts_with("lost: message 1 of key k at a/0@1"),
            "{:?}",
            summary.examples
        );
    }

    #[test]
    fn a_message_that_is_handled_before_its_receipt_is_owed_no_more() {
        let mut tally = Tally::new("run".to_owned());
        tally.sent("k", 0);
        assert_eq!(tally.progress().in_flight, 1);
        handle(&mut tally, 0, 0);
        tally.acknowledged("k", 0, at(0));
        let progress = tally.progress();
        assert_eq!((progress.in_flight, progress.outstanding, progress.handled), (0, 0, 1));
    }

    #[test]
    fn a_send_without_a_result_is_unfinished() {
        let mut tally = tally(0);
        tally.sent("k", 0);
        assert_eq!(tally.summary().unfinished, 1);
    }

    #[test]
    fn messages_of_others_and_of_other_runs_are_passed_over() {
        let mut tally = tally(0);
        tally.handled(b"k", b"an order", at(0));
        tally.handled(b"k", stamp("earlier", 0).as_bytes(), at(1));
        tally.handled(b"\xff", stamp("run", 0).as_bytes(), at(2));
        let summary = tally.summary();
        assert_eq!((summary.foreign, summary.report.handled), (3, 0));
    }

    #[test]
    fn a_failed_send_is_owed_nothing() {
        let mut tally = tally(0);
        tally.sent("k", 0);
        tally.failed("k", 0, true, "no answer".to_owned());
        let summary = tally.summary();
        assert_eq!((summary.unknown, summary.not_sent, summary.unfinished), (1, 0, 0));
        assert_eq!(summary.first_failure.as_deref(), Some("no answer"));
    }
}
