//! The ledger against the same rules written as plainly as possible, and its rules one by one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails in a helper fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::name::ClusterName;

fn percent(value: u8) -> Percent {
    Percent::new(value).unwrap()
}

fn name(number: usize) -> ClusterName {
    ClusterName::new(format!("c{number}")).unwrap()
}

fn shares(topic_cap: u8, cluster_floor: u8, cluster_ceiling: u8) -> Shares {
    Shares {
        topic_cap: percent(topic_cap),
        cluster_floor: percent(cluster_floor),
        cluster_ceiling: percent(cluster_ceiling),
    }
}

/// A ledger with one topic that may have everything.
fn undivided(total: usize) -> (Ledger<&'static str>, TopicKey) {
    let mut ledger = Ledger::new(total, 10, shares(100, 0, 100));
    let topic = ledger.open();
    (ledger, topic)
}

fn names<W>(grants: Vec<Grant<W>>) -> Vec<W> {
    grants.into_iter().map(|grant| grant.reach).collect()
}

fn housed(ledger: &mut Ledger<&'static str>, cluster: usize) -> TopicKey {
    let topic = ledger.open();
    let _nobody_waits = ledger.house(topic, &name(cluster));
    topic
}

#[test]
fn a_waiter_that_gave_up_does_not_stand_in_the_way() {
    let (mut ledger, topic) = undivided(100);
    let all = ledger.take(topic, 100).unwrap();
    let a = ledger.enqueue(topic, 60, "a");
    ledger.enqueue(topic, 50, "b");
    assert_eq!(ledger.withdraw(a), Some(vec![]));
    assert_eq!(ledger.withdraw(a), None, "it has left");
    assert_eq!(names(ledger.give_back(all)), ["b"]);
    assert_eq!((ledger.free(), ledger.waiting()), (50, 0));
}

#[test]
fn giving_up_at_the_head_lets_smaller_ones_through_at_once() {
    let (mut ledger, topic) = undivided(100);
    let _some = ledger.take(topic, 60).unwrap();
    let big = ledger.enqueue(topic, 60, "big");
    ledger.enqueue(topic, 40, "small");
    assert_eq!(ledger.withdraw(big).map(names), Some(vec!["small"]));
}

#[test]
fn a_large_request_at_the_head_is_not_overtaken() {
    let (mut ledger, topic) = undivided(100);
    let [a, b] = [50, 50].map(|bytes| ledger.take(topic, bytes).unwrap());
    ledger.enqueue(topic, 90, "large");
    assert!(ledger.give_back(a).is_empty());
    assert_eq!(ledger.take(topic, 10), Err(Shortage::Wait));
    assert_eq!(names(ledger.give_back(b)), ["large"]);
}

#[test]
fn one_return_serves_several_in_order() {
    let (mut ledger, topic) = undivided(100);
    let all = ledger.take(topic, 100).unwrap();
    for waiter in ["a", "b", "c"] {
        ledger.enqueue(topic, 40, waiter);
    }
    assert_eq!(names(ledger.give_back(all)), ["a", "b"]);
    assert_eq!(ledger.waiting(), 1);
}

#[test]
fn parts_of_a_charge_return_each_by_itself() {
    let (mut ledger, topic) = undivided(100);
    let mut rest = ledger.take(topic, 100).unwrap();
    ledger.enqueue(topic, 40, "a");
    ledger.enqueue(topic, 40, "b");
    let parts = [30, 20, 0].map(|bytes| rest.split(bytes));
    let served = parts.map(|part| names(ledger.give_back(part)));
    assert_eq!(served, [vec![], vec!["a"], vec![]]);
    let all_that_is_left = rest.split(1_000);
    assert!(ledger.give_back(rest).is_empty(), "nothing is left of it");
    assert_eq!(names(ledger.give_back(all_that_is_left)), ["b"]);
    assert_eq!((ledger.free(), ledger.waiting()), (20, 0));
}

#[test]
fn more_than_there_ever_is_fails_at_once_and_says_what_limits_it() {
    let mut ledger = Ledger::<()>::new(1_000, 10, shares(50, 0, 75));
    let topic = ledger.open();
    assert_eq!(ledger.take(topic, 501), Err(Shortage::TooLarge { limit: 500, bound: Bound::Topic }));
    let mut ledger = Ledger::<()>::new(1_000, 10, shares(80, 0, 75));
    let topic = ledger.open();
    assert_eq!(ledger.take(topic, 751), Err(Shortage::TooLarge { limit: 750, bound: Bound::Cluster }));
    let mut ledger = Ledger::<()>::new(1_000, 10, shares(100, 20, 100));
    let [here, there] = [ledger.open(), ledger.open()];
    let _ = (ledger.house(here, &name(1)), ledger.house(there, &name(2)));
    assert_eq!(ledger.take(here, 801), Err(Shortage::TooLarge { limit: 800, bound: Bound::Pool }));
    assert_eq!(ledger.free(), 1_000);
}

#[test]
fn a_topic_at_its_cap_keeps_only_its_own_senders_waiting() {
    let mut ledger = Ledger::new(100, 10, shares(50, 0, 100));
    let [flood, other] = [1, 1].map(|cluster| housed(&mut ledger, cluster));
    let flooding = ledger.take(flood, 50).unwrap();
    assert_eq!(ledger.take(flood, 1), Err(Shortage::Wait));
    ledger.enqueue(flood, 1, "flood");
    assert_eq!(ledger.cause(flood, 1), Cause::Topic { used: 50, cap: 50 });
    let _fits = ledger.take(other, 50).unwrap();
    assert_eq!(names(ledger.give_back(flooding)), ["flood"]);
}

#[test]
fn a_cluster_within_its_floor_never_waits_for_the_messages_of_another() {
    let mut ledger = Ledger::new(100, 10, shares(100, 20, 100));
    let [dead, healthy] = [1, 2].map(|cluster| housed(&mut ledger, cluster));
    let _stuck = ledger.take(dead, 80).unwrap();
    assert_eq!(ledger.take(dead, 1), Err(Shortage::Wait), "the rest is kept for the other");
    ledger.enqueue(dead, 1, "dead");
    for _ in 0..1_000 {
        let room = ledger.take(healthy, 20).unwrap();
        assert_eq!(ledger.take(healthy, 1), Err(Shortage::Wait), "above its floor it would borrow");
        assert!(ledger.give_back(room).is_empty(), "its own floor helps nobody else");
    }
    let mostly = Some(name(1));
    assert_eq!(ledger.cause(healthy, 21), Cause::Pool { used: 80, total: 100, mostly, holds: 80 });
}

#[test]
fn a_cluster_at_its_ceiling_leaves_the_rest_to_others() {
    let mut ledger = Ledger::new(100, 10, shares(100, 0, 75));
    let [a, a_too, b] = [1, 1, 2].map(|cluster| housed(&mut ledger, cluster));
    let stuck = ledger.take(a, 70).unwrap();
    assert_eq!(ledger.take(a, 10), Err(Shortage::Wait));
    ledger.enqueue(a, 10, "a");
    assert_eq!(ledger.take(a_too, 5), Err(Shortage::Wait), "nobody of the cluster goes past it");
    assert_eq!(ledger.cause(a, 10), Cause::Cluster { cluster: Some(name(1)), used: 70, ceiling: 75 });
    let _borrowed = ledger.take(b, 30).unwrap();
    assert_eq!(names(ledger.give_back(stuck)), ["a"]);
}

#[test]
fn nobody_borrows_past_one_who_waits_for_the_pool() {
    let mut ledger = Ledger::new(100, 10, shares(100, 10, 100));
    let [a, b] = [1, 2].map(|cluster| housed(&mut ledger, cluster));
    let first = ledger.take(a, 50).unwrap();
    let _second = ledger.take(b, 30).unwrap();
    ledger.enqueue(a, 40, "large");
    assert_eq!(ledger.take(b, 1), Err(Shortage::Wait), "it would fit, and starve the large one");
    assert_eq!(names(ledger.give_back(first)), ["large"]);
    let _now = ledger.take(b, 1).unwrap();
}

#[test]
fn made_smaller_it_takes_effect_as_bytes_return_and_hopeless_waiters_learn_it_at_once() {
    let (mut ledger, topic) = undivided(100);
    let [a, b] = [60, 40].map(|bytes| ledger.take(topic, bytes).unwrap());
    ledger.enqueue(topic, 80, "hopeless");
    ledger.enqueue(topic, 50, "patient");
    let outcome = ledger.resize(50);
    assert!(outcome.grants.is_empty());
    assert_eq!(outcome.refused, [Refusal { reach: "hopeless", limit: 50, bound: Bound::Topic }]);
    assert_eq!(ledger.free(), 0);
    assert!(ledger.give_back(a).is_empty());
    assert_eq!(ledger.free(), 10);
    assert_eq!(names(ledger.give_back(b)), ["patient"]);
}

#[test]
fn made_larger_it_serves_at_once() {
    let (mut ledger, topic) = undivided(100);
    let _all = ledger.take(topic, 100).unwrap();
    ledger.enqueue(topic, 50, "a");
    assert_eq!(names(ledger.resize(150).grants), ["a"]);
}

#[test]
fn senders_of_a_topic_that_moves_wait_for_its_new_cluster() {
    let mut ledger = Ledger::new(100, 10, shares(100, 0, 50));
    let [topic, other] = [1, 1].map(|cluster| housed(&mut ledger, cluster));
    let stuck = ledger.take(other, 50).unwrap();
    ledger.enqueue(topic, 10, "waits for the dead cluster");
    assert_eq!(names(ledger.house(topic, &name(2)).grants), ["waits for the dead cluster"]);
    assert!(ledger.give_back(stuck).is_empty());
    assert_eq!(ledger.usage().clusters.iter().map(|cluster| cluster.used).sum::<usize>(), 10);
}

#[test]
fn what_a_topic_left_behind_does_not_count_against_its_cap() {
    let mut ledger = Ledger::new(100, 10, shares(50, 0, 100));
    let topic = housed(&mut ledger, 1);
    let left_behind = ledger.take(topic, 50).unwrap();
    ledger.enqueue(topic, 40, "next");
    assert_eq!(names(ledger.renew(topic)), ["next"]);
    assert!(ledger.give_back(left_behind).is_empty());
    assert_eq!(ledger.take(topic, 11), Err(Shortage::Wait), "the old bytes give no new room under the cap");
}

#[test]
fn closing_sends_waiters_away_and_takes_bytes_back() {
    let (mut ledger, topic) = undivided(100);
    let all = ledger.take(topic, 100).unwrap();
    let a = ledger.enqueue(topic, 10, "a");
    assert_eq!(ledger.close(), ["a"]);
    assert_eq!(ledger.withdraw(a), None);
    assert_eq!(ledger.take(topic, 1), Err(Shortage::Closed));
    assert!(ledger.give_back(all).is_empty());
    assert_eq!(ledger.free(), 100);
}

#[test]
fn idle_blocks_and_what_is_taken_never_exceed_the_total() {
    let (mut ledger, topic) = undivided(30);
    assert!(!ledger.reuse_block(), "there is none yet");
    let blocks = [(); 3].map(|()| ledger.take(topic, 10).unwrap());
    for block in blocks {
        assert!(ledger.give_back(block).is_empty());
        assert!(ledger.keep_block());
    }
    assert!(!ledger.keep_block(), "three are all that there is room for");
    let _bytes = ledger.take(topic, 15).unwrap();
    assert_eq!(ledger.shed_blocks(), 2);
    assert_eq!(ledger.usage().idle_blocks, 1);
    let _block = ledger.take(topic, 10).unwrap();
    assert!(ledger.reuse_block());
    assert!(!ledger.reuse_block());
}

#[derive(Debug, Clone)]
enum Op {
    Ask(usize, usize),
    GiveBack(prop::sample::Index),
    Withdraw(prop::sample::Index),
    House(usize, usize),
    Renew(usize),
    Reopen(usize),
    Resize(usize),
}

const TOPICS: usize = 4;
const TOTAL: usize = 100;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..TOPICS, 0..70_usize).prop_map(|(topic, bytes)| Op::Ask(topic, bytes)),
        9 => any::<prop::sample::Index>().prop_map(Op::GiveBack),
        4 => any::<prop::sample::Index>().prop_map(Op::Withdraw),
        2 => (0..TOPICS, 1..4_usize).prop_map(|(topic, cluster)| Op::House(topic, cluster)),
        1 => (0..TOPICS).prop_map(Op::Renew),
        1 => (0..TOPICS).prop_map(Op::Reopen),
        1 => (20..150_usize).prop_map(Op::Resize),
    ]
}

/// What somebody has: (name, bytes, cluster, the topic that it still counts for).
type Has = (usize, usize, usize, Option<usize>);

/// The same rules, as plain as can be: everything is counted anew at each question.
struct Naive {
    shares: Shares,
    total: usize,
    /// The cluster of each topic; 0 is none.
    homes: [usize; TOPICS],
    has: Vec<Has>,
    /// (name, topic, bytes), first come first.
    line: Vec<(usize, usize, usize)>,
}

impl Naive {
    fn clusters_in_use(&self) -> BTreeSet<usize> {
        self.homes.iter().copied().filter(|cluster| *cluster != 0).collect()
    }

    fn floor(&self, cluster: usize) -> usize {
        let in_use = self.clusters_in_use();
        if !in_use.contains(&cluster) {
            return 0;
        }
        let fair = self.total / 2 / in_use.len();
        self.shares.cluster_floor.of(self.total).min(fair).min(self.ceiling())
    }

    fn ceiling(&self) -> usize {
        self.shares.cluster_ceiling.of(self.total)
    }

    fn on(&self, cluster: usize) -> usize {
        self.has.iter().filter(|has| has.2 == cluster).map(|has| has.1).sum()
    }

    fn of(&self, topic: usize) -> usize {
        self.has.iter().filter(|has| has.3 == Some(topic)).map(|has| has.1).sum()
    }

    /// What is kept from further requests if `cluster` had so many bytes more.
    fn committed_with(&self, cluster: usize, bytes: usize) -> usize {
        let more = |it| if it == cluster { bytes } else { 0 };
        (0..4).map(|it| (self.on(it) + more(it)).max(self.floor(it))).sum()
    }

    fn largest(&self, topic: usize) -> usize {
        let others = self.clusters_in_use().into_iter().filter(|it| *it != self.homes[topic]);
        let kept: usize = others.map(|it| self.floor(it)).sum();
        self.shares.topic_cap.of(self.total).min(self.ceiling()).min(self.total - kept)
    }

    fn next(&self) -> Option<usize> {
        let (mut topics, mut clusters, mut pool) = (BTreeSet::new(), BTreeSet::new(), false);
        for (place, (_, topic, bytes)) in self.line.iter().enumerate() {
            let cluster = self.homes[*topic];
            if topics.contains(topic) {
                continue;
            }
            if self.of(*topic) + bytes > self.shares.topic_cap.of(self.total) {
                topics.insert(*topic);
                continue;
            }
            if clusters.contains(&cluster) {
                continue;
            }
            if self.on(cluster) + bytes > self.ceiling() {
                clusters.insert(cluster);
                continue;
            }
            let with = self.committed_with(cluster, *bytes);
            let takes_nothing_from_others = with == self.committed_with(cluster, 0);
            if takes_nothing_from_others || (!pool && with <= self.total) {
                return Some(place);
            }
            pool = true;
            clusters.insert(cluster);
        }
        None
    }

    fn serve(&mut self) -> Vec<usize> {
        let mut served = Vec::new();
        while let Some(place) = self.next() {
            let (name, topic, bytes) = self.line.remove(place);
            self.has.push((name, bytes, self.homes[topic], Some(topic)));
            served.push(name);
        }
        served
    }

    fn refuse(&mut self) -> BTreeSet<usize> {
        let hopeless = |it: &(usize, usize, usize)| it.2 > self.largest(it.1);
        let refused: BTreeSet<_> = self.line.iter().filter(|it| hopeless(it)).map(|it| it.0).collect();
        self.line.retain(|it| !refused.contains(&it.0));
        refused
    }
}

/// Both, side by side.
struct Pair {
    ledger: Ledger<usize>,
    keys: [TopicKey; TOPICS],
    naive: Naive,
    charges: BTreeMap<usize, Charge>,
    ids: BTreeMap<usize, WaiterId>,
}

impl Pair {
    fn new(shares: Shares) -> Self {
        let mut ledger = Ledger::new(TOTAL, 10, shares);
        let keys = [(); TOPICS].map(|()| ledger.open());
        let naive = Naive { shares, total: TOTAL, homes: [0; TOPICS], has: Vec::new(), line: Vec::new() };
        Self { ledger, keys, naive, charges: BTreeMap::new(), ids: BTreeMap::new() }
    }

    fn granted(&mut self, grants: Vec<Grant<usize>>) -> Vec<usize> {
        let mut served = Vec::new();
        for Grant { reach, charge } in grants {
            served.push(reach);
            self.ids.remove(&reach);
            self.charges.insert(reach, charge);
        }
        served
    }

    fn settled(&mut self, outcome: Outcome<usize>) -> (Vec<usize>, BTreeSet<usize>) {
        let refused: BTreeSet<_> = outcome.refused.iter().map(|it| it.reach).collect();
        self.ids.retain(|name, _| !refused.contains(name));
        (self.granted(outcome.grants), refused)
    }

    fn ask(&mut self, name: usize, topic: usize, bytes: usize) {
        let hopeless = bytes > self.naive.largest(topic);
        self.naive.line.push((name, topic, bytes));
        let served = if hopeless { Vec::new() } else { self.naive.serve() };
        match self.ledger.take(self.keys[topic], bytes) {
            Ok(charge) => {
                assert_eq!(served, [name]);
                self.charges.insert(name, charge);
            }
            Err(Shortage::Wait) => {
                assert!(served.is_empty() && !hopeless);
                self.ids.insert(name, self.ledger.enqueue(self.keys[topic], bytes, name));
            }
            Err(Shortage::TooLarge { limit, .. }) => {
                assert!(hopeless && limit == self.naive.largest(topic));
                self.naive.line.pop();
            }
            Err(Shortage::Closed) => panic!("nobody closed it"),
        }
    }

    fn give_back(&mut self, name: usize) {
        let charge = self.charges.remove(&name).unwrap();
        self.naive.has.retain(|has| has.0 != name);
        let grants = self.ledger.give_back(charge);
        assert_eq!(self.granted(grants), self.naive.serve());
    }

    fn withdraw(&mut self, name: usize) {
        let id = self.ids.remove(&name).unwrap();
        self.naive.line.retain(|waiter| waiter.0 != name);
        let grants = self.ledger.withdraw(id).expect("it waits");
        assert_eq!(self.granted(grants), self.naive.serve());
        assert!(self.ledger.withdraw(id).is_none());
    }

    fn house(&mut self, topic: usize, cluster: usize) {
        let outcome = self.ledger.house(self.keys[topic], &name(cluster));
        self.naive.homes[topic] = cluster;
        self.check(outcome);
    }

    fn renew(&mut self, topic: usize) {
        for has in self.naive.has.iter_mut().filter(|has| has.3 == Some(topic)) {
            has.3 = None;
        }
        let grants = self.ledger.renew(self.keys[topic]);
        assert_eq!(self.granted(grants), self.naive.serve());
    }

    /// Closes a topic's account, with all that it has out, and opens another.
    fn reopen(&mut self, topic: usize) {
        let (sent_away, outcome) = self.ledger.close_topic(self.keys[topic]);
        let waited: Vec<_> = self.naive.line.iter().filter(|it| it.1 == topic).map(|it| it.0).collect();
        assert_eq!(sent_away, waited);
        self.ids.retain(|name, _| !sent_away.contains(name));
        self.naive.line.retain(|it| it.1 != topic);
        for has in self.naive.has.iter_mut().filter(|has| has.3 == Some(topic)) {
            has.3 = None;
        }
        self.naive.homes[topic] = 0;
        self.check(outcome);
        self.keys[topic] = self.ledger.open();
    }

    fn resize(&mut self, total: usize) {
        let outcome = self.ledger.resize(total);
        self.naive.total = total;
        self.check(outcome);
    }

    fn check(&mut self, outcome: Outcome<usize>) {
        let refused = self.naive.refuse();
        assert_eq!(self.settled(outcome), (self.naive.serve(), refused));
    }

    fn compare(&self) {
        let naive = &self.naive;
        let used: usize = naive.has.iter().map(|has| has.1).sum();
        assert_eq!(self.ledger.free(), naive.total.saturating_sub(used));
        assert_eq!(self.ledger.waiting(), naive.line.len());
        assert_eq!(self.ids.len(), naive.line.len());
        assert_eq!(self.charges.len(), naive.has.len());
        for cluster in self.ledger.usage().clusters {
            let number = cluster.cluster.map_or(0, |it| it.as_str()[1..].parse().unwrap());
            assert_eq!((cluster.used, cluster.floor), (naive.on(number), naive.floor(number)));
        }
    }
}

fn run(shares: Shares, ops: Vec<Op>) {
    let mut pair = Pair::new(shares);
    for (name, op) in ops.into_iter().enumerate() {
        match op {
            Op::Ask(topic, bytes) => pair.ask(name, topic, bytes),
            Op::GiveBack(index) if !pair.charges.is_empty() => {
                pair.give_back(*pair.charges.keys().nth(index.index(pair.charges.len())).unwrap());
            }
            Op::Withdraw(index) if !pair.ids.is_empty() => {
                pair.withdraw(*pair.ids.keys().nth(index.index(pair.ids.len())).unwrap());
            }
            Op::House(topic, cluster) => pair.house(topic, cluster),
            Op::Renew(topic) => pair.renew(topic),
            Op::Reopen(topic) => pair.reopen(topic),
            Op::Resize(total) => pair.resize(total),
            Op::GiveBack(_) | Op::Withdraw(_) => {}
        }
        pair.compare();
    }
    while let Some(name) = pair.charges.keys().next().copied() {
        pair.give_back(name);
    }
    pair.compare();
    assert_eq!((pair.ledger.free(), pair.ledger.waiting()), (pair.naive.total, 0), "all is returned");
}

fn any_shares() -> impl Strategy<Value = Shares> {
    let part = || prop::sample::select(vec![0_u8, 10, 20, 33, 50, 75, 100]);
    (part(), part(), part()).prop_map(|(cap, floor, ceiling)| shares(cap.max(10), floor, ceiling.max(10)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn any_history_matches_the_naive_rules_and_returns_everything(
        shares in any_shares(),
        ops in prop::collection::vec(op(), 0..150),
    ) {
        run(shares, ops);
    }
}
