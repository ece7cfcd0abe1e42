//! Waiting and giving up under every interleaving of the threads.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use ::loom::{
    sync::{Mutex, Notify},
    thread,
};

use super::*;

type TestPool = Pool<(), ()>;

struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let bell = Arc::new(Bell(Notify::new()));
    let waker = Waker::from(bell.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        bell.0.wait();
    }
}

/// One topic that may have everything, and has it.
fn full(total: usize) -> (Arc<TestPool>, TopicKey, Charge) {
    let part = |percent| Percent::new(percent).unwrap();
    let shares = Shares { topic_cap: part(100), cluster_floor: part(0), cluster_ceiling: part(100) };
    let pool = Arc::new(Pool::new(total, 1, shares));
    let topic = pool.open();
    let all = pool.try_take(topic, total).unwrap();
    (pool, topic, all)
}

fn take(pool: &TestPool, topic: TopicKey, bytes: usize) -> Result<Charge, NoRoom> {
    match pool.take(topic, bytes, || ())? {
        Answer::Taken(charge) => Ok(charge),
        Answer::Wait(waiting) => block_on(waiting),
    }
}

fn end(pool: &TestPool, answer: Result<Charge, NoRoom>) {
    if let Ok(charge) = answer {
        pool.give_back(charge);
    }
}

fn assert_all_returned(pool: &TestPool, total: usize) {
    let (usage, oldest) = pool.usage();
    assert_eq!((usage.free, usage.waiting, oldest), (total, 0, None));
}

/// `give_up` runs while its bytes are being returned; the one behind has to get them all the same.
fn model_of_giving_up(give_up: fn(&TestPool, Waiting<'_, (), ()>)) {
    ::loom::model(move || {
        let (pool, topic, all) = full(1);
        let first = {
            let pool = pool.clone();
            thread::spawn(move || {
                let waiting = match pool.take(topic, 1, || ()) {
                    Ok(Answer::Wait(waiting)) => waiting,
                    Ok(Answer::Taken(charge)) => return pool.give_back(charge),
                    Err(no_room) => panic!("{no_room:?}"),
                };
                give_up(&pool, waiting);
            })
        };
        let second = {
            let pool = pool.clone();
            thread::spawn(move || end(&pool, Ok(take(&pool, topic, 1).unwrap())))
        };
        pool.give_back(all);
        first.join().unwrap();
        second.join().unwrap();
        assert_all_returned(&pool, 1);
    });
}

#[test]
fn one_who_is_dropped_as_its_turn_comes_loses_nothing() {
    model_of_giving_up(|pool, waiting| {
        let mut waiting = pin!(waiting);
        let bell = Waker::from(Arc::new(Bell(Notify::new())));
        if let Poll::Ready(answer) = waiting.as_mut().poll(&mut Context::from_waker(&bell)) {
            end(pool, answer);
        }
    });
}

#[test]
fn one_whose_deadline_comes_with_its_turn_loses_nothing() {
    model_of_giving_up(|pool, waiting| match waiting.give_up() {
        Ok(answer) => end(pool, answer),
        Err(cause) => assert!(matches!(cause, Cause::Topic { .. } | Cause::Pool { .. })),
    });
}

#[test]
fn a_wait_ends_with_the_pool_or_with_its_turn() {
    ::loom::model(|| {
        let (pool, topic, all) = full(1);
        let waiter = {
            let pool = pool.clone();
            thread::spawn(move || {
                let answer = take(&pool, topic, 1);
                assert!(!matches!(answer, Err(NoRoom::TooLarge { .. })));
                end(&pool, answer);
            })
        };
        let closer = {
            let pool = pool.clone();
            thread::spawn(move || pool.close())
        };
        pool.give_back(all);
        waiter.join().unwrap();
        closer.join().unwrap();
        assert_all_returned(&pool, 1);
    });
}

#[test]
fn a_wait_ends_when_the_pool_becomes_too_small_for_it() {
    ::loom::model(|| {
        let (pool, topic, all) = full(2);
        let waiter = {
            let pool = pool.clone();
            thread::spawn(move || {
                let answer = take(&pool, topic, 2);
                assert_ne!(answer, Err(NoRoom::Closed));
                end(&pool, answer);
            })
        };
        let resizer = {
            let pool = pool.clone();
            thread::spawn(move || pool.resize(1))
        };
        pool.give_back(all);
        waiter.join().unwrap();
        resizer.join().unwrap();
        assert_all_returned(&pool, 1);
    });
}

/// Leaves the line in one step and looks for a grant in none.
#[test]
#[should_panic(expected = "bytes were lost")]
fn the_model_finds_a_grant_that_nobody_looks_for() {
    ::loom::model(|| {
        let part = |percent| Percent::new(percent).unwrap();
        let shares = Shares { topic_cap: part(100), cluster_floor: part(0), cluster_ceiling: part(100) };
        let mut ledger = Ledger::new(1, 1, shares);
        let topic = ledger.open();
        let all = ledger.take(topic, 1).unwrap();
        let place = ledger.enqueue(topic, 1, ());
        let ledger = Arc::new(Mutex::new(ledger));
        let other = {
            let ledger = ledger.clone();
            thread::spawn(move || drop(ledger.lock().unwrap().withdraw(place)))
        };
        drop(ledger.lock().unwrap().give_back(all));
        other.join().unwrap();
        assert_eq!(ledger.lock().unwrap().free(), 1, "bytes were lost");
    });
}
