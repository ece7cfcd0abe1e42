use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
};

use zms_core::{
    name::{ClusterName, GroupName, TopicName},
    route::ConsumeFrom,
    tracker::{Completed, Delivered},
};

use super::*;
use crate::{
    consumer::{
        control::Pauses, delivery::Origin, holdings::Books, ledger::Ledgers, start::Rule, stats::Gauge,
    },
    engine::port::{AssignmentListener, LogRange, Records, Start},
};

const HOUR: Duration = Duration::from_secs(3600);

/// Keeps what is committed for partition 0, whose log has 100 messages.
#[derive(Default)]
struct Broker {
    stored: BTreeMap<i32, Position>,
    /// All offsets that were ever stored.
    history: Vec<i64>,
    failures: VecDeque<FailureKind>,
    /// Commits with a longer text are refused.
    longest_text: Option<usize>,
    /// Answers to commits between polls are kept back.
    mute: bool,
    begun: usize,
    answer: Option<Result<(), EngineError>>,
}

impl Broker {
    fn commit(&mut self, positions: &[Position]) -> Result<(), EngineError> {
        let failure = |kind| Err(EngineError { kind, reason: format!("scripted: {kind:?}") });
        if let Some(kind) = self.failures.pop_front() {
            return failure(kind);
        }
        if positions.iter().any(|p| self.longest_text.is_some_and(|longest| p.metadata.len() > longest)) {
            return failure(FailureKind::TooLarge);
        }
        self.history.extend(positions.iter().map(|position| position.offset));
        self.stored.extend(positions.iter().map(|position| (position.partition, position.clone())));
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Client(Arc<Mutex<Broker>>);

impl Client {
    fn broker<T>(&self, ask: impl FnOnce(&mut Broker) -> T) -> T {
        ask(&mut self.0.lock().unwrap())
    }

    fn stored(&self) -> Option<Position> {
        self.broker(|broker| broker.stored.get(&0).cloned())
    }
}

impl ConsumerControl for Client {
    fn pause(&self, _: &[i32]) {}
    fn resume(&self, _: &[i32]) {}
    fn seek(&self, _: i32, _: Start, _: Duration) -> Result<(), EngineError> {
        unreachable!("nothing moves back")
    }
    fn commit(&self, positions: &[Position]) -> Result<(), EngineError> {
        self.broker(|broker| broker.commit(positions))
    }
    fn committed(&self, _: &[i32], _: Duration) -> Result<Vec<Position>, EngineError> {
        Ok(self.broker(|broker| broker.stored.values().cloned().collect()))
    }
    fn log_ranges(&self, partitions: &[i32], _: Duration) -> Result<Vec<(i32, LogRange)>, EngineError> {
        Ok(partitions.iter().map(|partition| (*partition, LogRange { low: 0, high: 100 })).collect())
    }
    fn offsets_for_times(
        &self,
        _: &[i32],
        _: i64,
        _: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, EngineError> {
        unreachable!("no time is a start")
    }
}

impl ConsumerClient for Client {
    fn poll(&mut self, _: Duration, _: usize, _: &mut Vec<Records>) -> Result<(), EngineError> {
        unreachable!("the test hands over what is delivered")
    }
    fn begin_commit(&mut self, positions: &[Position]) -> Result<(), EngineError> {
        self.broker(|broker| {
            broker.begun += 1;
            broker.answer = Some(broker.commit(positions));
        });
        Ok(())
    }
    fn poll_commit(&mut self) -> Option<Result<(), EngineError>> {
        self.broker(|broker| if broker.mute { None } else { broker.answer.take() })
    }
    fn assign(&mut self, _: &[i32]) -> Result<(), EngineError> {
        unreachable!("the group assigns")
    }
    fn partitions(&self, _: Duration) -> Result<i32, EngineError> {
        unreachable!("the group assigns")
    }
    fn close(self: Box<Self>) {}
}

/// A member that has just been given partition 0.
fn member(client: &Client) -> Holdings {
    let books = Books {
        stats: Arc::default(),
        gauge: Arc::<Gauge>::default(),
        epochs: 0.into(),
        drain_limit: Duration::ZERO,
        pauses: Pauses::default(),
        ledgers: Ledgers::default(),
        tags: None,
        began: Instant::now(),
    };
    let origin = Origin {
        group: GroupName::new("billing").unwrap(),
        cluster: ClusterName::new("a").unwrap(),
        topic: TopicName::new("orders").unwrap(),
    };
    let rule = Rule { consume_from: ConsumeFrom::Earliest, moved: false };
    let holdings = Holdings::new(Arc::new(origin), Arc::new(books), rule);
    holdings.assigned(client, &[0]);
    holdings
}

/// Delivers `offsets`; those that are to be handled.
fn deliver(member: &Holdings, offsets: std::ops::Range<i64>) -> Vec<i64> {
    let assignment = &member.assignments()[0];
    offsets.filter(|offset| assignment.book().tracker.deliver(*offset, 1, 0) == Delivered::Accepted).collect()
}

fn handle(member: &Holdings, offsets: impl IntoIterator<Item = i64>) {
    let assignment = &member.assignments()[0];
    for offset in offsets {
        assert_eq!(assignment.begin().unwrap().complete(offset), Completed::Counted);
    }
}

fn commit(member: &Holdings, client: &Client) -> Result<(), EngineError> {
    member.committer.commit(client, &member.assignments())
}

#[test]
fn after_a_crash_only_what_was_not_done_at_the_last_commit_is_handled() {
    let client = Client::default();
    let first = member(&client);
    deliver(&first, 0..10);
    handle(&first, [2, 5, 0, 9]);
    commit(&first, &client).unwrap();
    handle(&first, [7]);

    let second = member(&client);
    assert_eq!(deliver(&second, 1..10), [1, 3, 4, 6, 7, 8]);
    handle(&second, [8, 1]);
    commit(&second, &client).unwrap();

    let third = member(&client);
    assert_eq!(third.assignments()[0].book().tracker.position(), 3);
    assert_eq!(deliver(&third, 3..10), [3, 4, 6, 7]);
    handle(&third, [7, 4, 6, 3]);
    commit(&third, &client).unwrap();
    let end = Position { partition: 0, offset: 10, metadata: String::new() };
    assert_eq!(client.stored(), Some(end));
}

#[test]
fn what_is_done_when_a_partition_is_taken_is_told_to_the_next_owner() {
    let client = Client::default();
    let first = member(&client);
    deliver(&first, 0..6);
    handle(&first, [1, 4]);
    first.revoked(&client, &[0], false);
    assert_eq!(deliver(&member(&client), 0..6), [0, 2, 3, 5]);
}

#[test]
fn without_news_nothing_is_committed() {
    let client = Client::default();
    let first = member(&client);
    deliver(&first, 0..6);
    handle(&first, [1, 4]);
    commit(&first, &client).unwrap();
    let second = member(&client);
    deliver(&second, 0..6);
    commit(&second, &client).unwrap();
    assert_eq!(
        client.broker(|broker| broker.history.clone()),
        [0, 0],
        "the start, and the two done above it"
    );
}

#[test]
fn brokers_that_take_less_text_get_positions_alone_at_once() {
    let client = Client::default();
    client.broker(|broker| broker.longest_text = Some(10));
    let first = member(&client);
    deliver(&first, 0..6);
    handle(&first, [0, 3]);
    commit(&first, &client).unwrap();
    assert_eq!(client.stored().map(|p| (p.offset, p.metadata)), Some((1, String::new())));
    handle(&first, [4]);
    commit(&first, &client).unwrap();
    assert_eq!(first.books.stats.commit_failures.value(), 1);
    assert_eq!(deliver(&member(&client), 1..6), [1, 2, 3, 4, 5]);
}

#[test]
fn between_polls_one_commit_is_on_its_way_and_the_next_carries_the_newest() {
    let mut client = Client::default();
    let first = member(&client);
    let mut rounds = Rounds::new(Instant::now());
    deliver(&first, 0..10);
    handle(&first, [0]);
    client.broker(|broker| broker.mute = true);
    rounds.turn(&mut client, &first, Duration::ZERO);
    handle(&first, [1, 2]);
    rounds.turn(&mut client, &first, Duration::ZERO);
    assert_eq!(client.broker(|broker| broker.begun), 1);

    client.broker(|broker| broker.mute = false);
    rounds.turn(&mut client, &first, Duration::ZERO);
    assert_eq!(client.broker(|broker| broker.history.clone()), [0, 1, 3]);
    rounds.turn(&mut client, &first, Duration::ZERO);
    assert_eq!(client.broker(|broker| broker.begun), 2, "nothing is due");
}

#[test]
fn a_commit_that_fails_or_is_never_answered_is_followed_by_the_newest() {
    let mut client = Client::default();
    let first = member(&client);
    deliver(&first, 0..10);
    handle(&first, [0, 5]);
    client.broker(|broker| broker.failures.push_back(FailureKind::Superseded));
    let mut rounds = Rounds::new(Instant::now());
    rounds.turn(&mut client, &first, HOUR);
    assert_eq!((first.books.stats.commit_failures.value(), client.stored().unwrap().offset), (1, 0));

    client.broker(|broker| broker.mute = true);
    let mut rounds = Rounds::new(Instant::now());
    rounds.turn(&mut client, &first, HOUR);
    rounds.under_way.as_mut().unwrap().1 = Instant::now();
    rounds.settle(&mut client, &first, HOUR);
    assert_eq!(first.books.stats.commit_failures.value(), 2);
    assert_eq!(
        first.assignments()[0].book().tracker.committed(),
        Some(0),
        "nobody knows that it took effect"
    );

    client.broker(|broker| broker.mute = false);
    handle(&first, [1]);
    let mut rounds = Rounds::new(Instant::now());
    rounds.turn(&mut client, &first, HOUR);
    assert_eq!(first.assignments()[0].book().tracker.committed(), Some(2));
    assert!(client.broker(|broker| broker.history.is_sorted()));
    assert_eq!(deliver(&member(&client), 2..8), [2, 3, 4, 6, 7]);
}
