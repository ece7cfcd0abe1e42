//! Messages that are given up.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use zms_core::name::TopicName;
use zms_sdk::{
    Message,
    consumer::{
        Buried, BuryError, DeadLetters, Delivery, Exhausted, Letter, Outcome, RetryPolicy, State as Stage,
        Subscriber, Subscription,
    },
};

use crate::{
    fake::{Event, FakeCluster},
    rig::{LIMIT, Rig, counts, now, partition, until},
};

const QUICK: RetryPolicy = RetryPolicy::new()
    .attempts(3)
    .backoff(Duration::from_millis(2), Duration::from_millis(5))
    .then(Exhausted::DeadLetter);

/// Keeps letters, and their callbacks until the test answers.
#[derive(Default)]
struct Graves(Mutex<State>);

#[derive(Default)]
struct State {
    letters: Vec<(TopicName, Message)>,
    open: VecDeque<Buried>,
    /// Given at once to the letters that come.
    answers: VecDeque<Answer>,
}

enum Answer {
    Result(Result<(), BuryError>),
    Nothing,
    Panic,
}

impl DeadLetters for Graves {
    fn bury(&self, letter: Letter, done: Buried) {
        let mut state = self.0.lock().unwrap();
        state.letters.push((letter.topic, letter.message));
        let answer = state.answers.pop_front();
        if answer.is_none() {
            state.open.push_back(done);
            return;
        }
        drop(state);
        match answer {
            Some(Answer::Result(result)) => done(result),
            Some(Answer::Panic) => panic!("out of graves"),
            Some(Answer::Nothing) | None => {}
        }
    }
}

impl Graves {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn will(self: &Arc<Self>, answers: impl IntoIterator<Item = Answer>) {
        self.0.lock().unwrap().answers.extend(answers);
    }

    fn letters(&self) -> Vec<(TopicName, Message)> {
        self.0.lock().unwrap().letters.clone()
    }

    fn open(&self) -> usize {
        self.0.lock().unwrap().open.len()
    }

    fn answer(&self, result: Result<(), BuryError>) {
        let done = self.0.lock().unwrap().open.pop_front().expect("a letter is on its way");
        done(result);
    }
}

fn full() -> Result<(), BuryError> {
    Err(BuryError::new("no room in the graveyard"))
}

/// A handler that fails at offset 1 of partition 0, as a future or blocking, and records its calls.
#[derive(Default)]
struct Poisoned {
    calls: Arc<Mutex<Vec<(i32, i64)>>>,
}

impl Poisoned {
    fn subscribe(&self, subscriber: Subscriber, blocking: bool) -> Subscription {
        let calls = Arc::clone(&self.calls);
        let handle = move |delivery: Delivery| {
            let at = (delivery.partition(), delivery.offset());
            calls.lock().unwrap().push(at);
            if at == (0, 1) { Err("no such customer") } else { Ok(()) }
        };
        let begun = if blocking {
            now(subscriber.handle_blocking(handle))
        } else {
            now(subscriber.handle(move |delivery| std::future::ready(handle(delivery))))
        };
        begun.unwrap()
    }

    fn calls(&self, partition: i32) -> Vec<i64> {
        self.calls.lock().unwrap().iter().filter(|at| at.0 == partition).map(|at| at.1).collect()
    }
}

fn burying(rig: &Rig, graves: &Arc<Graves>) -> Subscriber {
    rig.subscriber().retry(QUICK).dead_letters(Arc::clone(graves) as _)
}

fn headers(message: &Message) -> Vec<(&str, &str)> {
    let text = |value| std::str::from_utf8(value).unwrap();
    message.headers().iter().map(|h| (h.name.as_str(), text(h.value.as_ref().unwrap()))).collect()
}

#[tokio::test]
async fn the_position_moves_only_when_the_letter_is_acknowledged() {
    for blocking in [false, true] {
        let (rig, cluster) = Rig::new(2);
        (0..2).for_each(|p| cluster.fill(p, 3));
        let (graves, handler) = (Graves::new(), Poisoned::default());
        let sub = handler.subscribe(burying(&rig, &graves), blocking);
        until("a letter is on its way", || graves.open() == 1).await;
        until("the other partition is done", || cluster.committed(1) == Some(3)).await;
        until("what is before it is committed", || cluster.committed(0) == Some(1)).await;
        assert_eq!(handler.calls(0), [0, 1, 1, 1], "nothing overtakes it");

        graves.answer(Ok(()));
        until("the partition goes on", || cluster.committed(0) == Some(3)).await;
        assert_eq!(handler.calls(0), [0, 1, 1, 1, 2]);
        let counts = counts(&sub);
        assert_eq!((counts.dead_lettered, counts.dead_letter_failures, counts.handled), (1, 0, 6));
        assert_eq!((counts.failures, counts.skipped, counts.blocked), (3, 0, 0));
        let (topic, letter) = graves.letters().remove(0);
        assert_eq!(topic.as_str(), "dlq.billing");
        let headers = headers(&letter);
        for expected in [
            ("__zms.dlq.cluster", "a"),
            ("__zms.dlq.topic", "orders"),
            ("__zms.dlq.partition", "0"),
            ("__zms.dlq.offset", "1"),
            ("__zms.dlq.group", "billing"),
            ("__zms.dlq.attempts", "3"),
            ("__zms.dlq.error", "no such customer"),
        ] {
            assert!(headers.contains(&expected), "{expected:?} not in {headers:?}");
        }
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_letter_that_fails_is_sent_again_and_its_handler_not_called_again() {
    for blocking in [false, true] {
        let (rig, cluster) = Rig::new(1);
        cluster.fill(0, 3);
        let (graves, handler) = (Graves::new(), Poisoned::default());
        graves.will([Answer::Result(full()), Answer::Nothing, Answer::Panic, Answer::Result(full())]);
        let sub = handler.subscribe(burying(&rig, &graves), blocking);
        until("it is sent for the fifth time", || graves.open() == 1).await;
        assert_eq!(counts(&sub).dead_letter_failures, 4);
        let trouble = partition(&sub, 0).trouble.unwrap();
        assert_eq!((trouble.offset, trouble.attempts), (1, 3));
        assert!(trouble.reason.contains("no room in the graveyard"), "{trouble:?}");
        assert!(trouble.reason.contains("no such customer"), "{trouble:?}");
        assert_eq!(handler.calls(0), [0, 1, 1, 1]);
        until("what is before it is committed", || cluster.committed(0) == Some(1)).await;

        graves.answer(Ok(()));
        until("the partition goes on", || cluster.committed(0) == Some(3)).await;
        assert_eq!(handler.calls(0), [0, 1, 1, 1, 2]);
        assert_eq!(partition(&sub, 0).trouble, None);
        let letters = graves.letters();
        assert_eq!(letters.len(), 5);
        assert!(letters.windows(2).all(|pair| pair[0] == pair[1]), "the same letter each time");
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_handler_may_give_a_message_up_whatever_the_policy_says() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 3);
    let graves = Graves::new();
    graves.will([Answer::Result(Ok(()))]);
    let policy = RetryPolicy::new().dead_letter_topic("lost");
    let handler = |delivery: Delivery| async move {
        match delivery.offset() {
            1 => Outcome::dead_letter("unknown currency"),
            _ => Outcome::Done,
        }
    };
    let sub =
        now(rig.subscriber().retry(policy).dead_letters(Arc::clone(&graves) as _).handle(handler)).unwrap();
    until("the partition goes on", || cluster.committed(0) == Some(3)).await;
    let (topic, letter) = graves.letters().remove(0);
    assert_eq!(topic.as_str(), "lost");
    let headers = headers(&letter);
    assert!(headers.contains(&("__zms.dlq.error", "unknown currency")), "{headers:?}");
    assert!(headers.contains(&("__zms.dlq.attempts", "1")), "{headers:?}");
    assert_eq!((counts(&sub).failures, counts(&sub).retries), (1, 0));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn panics_use_up_attempts_and_their_words_are_kept() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 1);
    let graves = Graves::new();
    graves.will([Answer::Result(Ok(()))]);
    let handler = |_: Delivery| -> Outcome { panic!("index out of bounds") };
    let sub = now(burying(&rig, &graves).handle_blocking(handler)).unwrap();
    until("it is given up", || cluster.committed(0) == Some(1)).await;
    assert_eq!((counts(&sub).panics, counts(&sub).dead_lettered), (3, 1));
    let (_, letter) = graves.letters().remove(0);
    assert!(headers(&letter).contains(&("__zms.dlq.error", "the handler panicked: index out of bounds")));
    sub.shutdown(LIMIT).await.unwrap();
}

/// A member that holds partition 0 and waits for the acknowledgement of its letter about offset 1.
async fn waiting(blocking: bool) -> (Rig, Arc<FakeCluster>, Arc<Graves>, Subscription) {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    cluster.fill(0, 3);
    let graves = Graves::new();
    let subscriber = burying(&rig, &graves).drain_limit(Duration::from_secs(100));
    let sub = Poisoned::default().subscribe(subscriber, blocking);
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0]));
    until("a letter is on its way", || graves.open() == 1).await;
    (rig, cluster, graves, sub)
}

#[tokio::test]
async fn a_revocation_waits_for_a_letter_on_its_way_and_commits_past_it() {
    for blocking in [false, true] {
        let (_rig, cluster, graves, sub) = waiting(blocking).await;
        cluster.tell(0, Event::Revoke(vec![0]));
        until("the partition is being taken", || counts(&sub).revocations == 1).await;
        graves.answer(Ok(()));
        until("the letter's message is committed", || cluster.committed(0) == Some(2)).await;
        assert_eq!((counts(&sub).dead_lettered, counts(&sub).late_completions), (1, 0));
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_letter_that_is_late_for_the_shutdown_is_not_committed() {
    for blocking in [false, true] {
        let (_rig, cluster, graves, sub) = waiting(blocking).await;
        let ended = sub.shutdown(Duration::from_secs(2)).await;
        assert!(ended.is_err(), "it waits for the letter");
        until("it has ended all the same", || sub.inspect().state == Stage::Closed).await;
        graves.answer(Ok(()));
        until("the letter is counted", || counts(&sub).dead_lettered == 1).await;
        assert_eq!(cluster.committed(0), Some(1));
    }
}

#[tokio::test]
async fn a_wait_between_two_sendings_holds_up_neither_revocation_nor_shutdown() {
    for blocking in [false, true] {
        let (rig, cluster) = Rig::new(1);
        let cluster = cluster.scripted();
        cluster.fill(0, 2);
        let graves = Graves::new();
        graves.will([Answer::Result(full()), Answer::Result(full())]);
        let slow = RetryPolicy::new()
            .attempts(1)
            .backoff(Duration::from_secs(3600), Duration::from_secs(3600))
            .then(Exhausted::DeadLetter);
        let subscriber = burying(&rig, &graves).retry(slow).drain_limit(Duration::from_secs(100));
        let sub = Poisoned::default().subscribe(subscriber, blocking);
        until("a member is there", || !cluster.state().members.is_empty()).await;
        cluster.tell(0, Event::Assign(vec![0]));
        until("it waits", || counts(&sub).dead_letter_failures == 1).await;
        cluster.tell(0, Event::Revoke(vec![0]));
        cluster.tell(0, Event::Assign(vec![0]));
        until("it waits again", || counts(&sub).dead_letter_failures == 2).await;
        sub.shutdown(LIMIT).await.unwrap();
        assert_eq!(cluster.committed(0), Some(1));
    }
}

#[tokio::test]
async fn without_a_sender_the_policy_is_refused_and_a_message_given_up_blocks() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 2);
    let refused = now(rig.subscriber().retry(QUICK).handle(|_| async {})).unwrap_err().to_string();
    assert!(refused.contains("Subscriber::dead_letters"), "{refused}");

    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let handler = move |_: Delivery| {
        seen.fetch_add(1, SeqCst);
        Outcome::dead_letter("hopeless")
    };
    let sub = now(rig.subscriber().retry(QUICK.then(Exhausted::Skip)).handle_blocking(handler)).unwrap();
    until("it has been tried", || counts(&sub).dead_letter_failures > 2).await;
    let trouble = partition(&sub, 0).trouble.unwrap();
    assert!(trouble.reason.contains("Subscriber::dead_letters"), "{trouble:?}");
    assert_eq!((calls.load(SeqCst), counts(&sub).handled), (1, 0));
    sub.shutdown(LIMIT).await.unwrap();
    assert_ne!(cluster.committed(0), Some(1));
}

#[tokio::test]
async fn a_group_that_reads_dead_letters_must_say_where_its_own_go() {
    let (rig, _) = Rig::new(1);
    let graves = Graves::new();
    for (source, chosen) in [("dlq.orders", None), ("dlq.billing", None), ("lost", Some("lost"))] {
        rig.change(|route| route.topic = TopicName::new(source).unwrap());
        let policy = chosen.map_or(QUICK, |topic| QUICK.dead_letter_topic(topic));
        let refused = now(burying(&rig, &graves).retry(policy).handle(|_| async {})).unwrap_err().to_string();
        assert!(refused.contains("RetryPolicy::dead_letter_topic"), "{refused}");
    }
    let parked = burying(&rig, &graves).retry(QUICK.dead_letter_topic("parked"));
    let sub = now(parked.handle(|_| async {})).unwrap();
    sub.shutdown(LIMIT).await.unwrap();
}
