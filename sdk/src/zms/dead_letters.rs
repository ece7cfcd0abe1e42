//! The handle as the sender of its subscriptions' dead letters.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use zms_core::name::TopicName;

use super::topics::Topics;
use crate::{
    consumer::{Buried, BuryError, DeadLetters, Letter},
    engine::port::FailureKind,
    message::Message,
    producer::{Producer, Producers, SendError},
    routing::{ResolveError, Router},
};

/// Sends letters by topic name through the handle's own producers.
///
/// It keeps them, and not the handle: subscriptions that outlive the last clone of their handle can still bury, and
/// [`Zms::close`](super::Zms::close) closes the producers only after the subscriptions have ended.
pub(super) struct DeadLetterSender {
    router: Arc<Router>,
    producers: Arc<Producers>,
    topics: Arc<Topics>,
    /// Letters that wait for their topic's first route, one search for all of a topic. Each holds up a message of a subscription, so that
    /// the buffers of the subscriptions bound them.
    waiting: Mutex<BTreeMap<TopicName, Vec<Waiting>>>,
}

type Waiting = (Message, Buried);

impl DeadLetterSender {
    pub(super) fn new(router: Arc<Router>, producers: Arc<Producers>, topics: Arc<Topics>) -> Self {
        Self { router, producers, topics, waiting: Mutex::default() }
    }

    // Short: a map is changed under it, nothing is called.
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<TopicName, Vec<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a letter to those that wait for its topic; whether it is the first.
    fn wait_for(&self, topic: &TopicName, letter: Waiting) -> bool {
        let mut waiting = self.waiting();
        let letters = waiting.entry(topic.clone()).or_default();
        letters.push(letter);
        letters.len() == 1
    }
}

impl DeadLetters for Arc<DeadLetterSender> {
    fn bury(&self, letter: Letter, done: Buried) {
        let Letter { topic, message } = letter;
        if let Some(producer) = self.producers.lookup(topic.as_str()) {
            return send(&producer, message, done);
        }
        if self.wait_for(&topic, (message, done)) {
            let search = Search { sender: Arc::clone(self), topic: Some(topic.clone()) };
            self.producers.runtime().spawn(search.run(topic));
        }
    }
}

/// The search for a topic's first route. However it ends, nobody waits for it afterwards: letters that are dropped with it,
/// because the runtime ends for example, count as not sent.
struct Search {
    sender: Arc<DeadLetterSender>,
    /// `None` when it is over: what waits then waits for the next search.
    topic: Option<TopicName>,
}

impl Search {
    async fn run(mut self, topic: TopicName) {
        let DeadLetterSender { router, producers, topics, .. } = &*self.sender;
        let found = topics.open(&topic, router, producers).await;
        for (message, done) in self.end() {
            match &found {
                Ok(producer) => send(producer, message, done),
                Err(error) => done(Err(unresolved(&topic, error))),
            }
        }
    }

    fn end(&mut self) -> Vec<Waiting> {
        let topic = self.topic.take();
        topic.and_then(|topic| self.sender.waiting().remove(&topic)).unwrap_or_default()
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        // Outside of the lock: what is dropped calls back.
        drop(self.end());
    }
}

fn send(producer: &Producer, message: Message, done: Buried) {
    producer.try_send_with(message, move |sent| done(sent.map(drop).map_err(|error| unsent(&error))));
}

fn unresolved(topic: &TopicName, error: &ResolveError) -> BuryError {
    let create = match error {
        ResolveError::UnknownTopic { .. } => format!(
            ", or create and add it at once with `zmsctl topic create {topic} --cluster <cluster> --partitions <number> --register`"
        ),
        _ => String::new(),
    };
    BuryError::new(format!("{error}{create}"))
}

fn unsent(error: &SendError) -> BuryError {
    let too_large =
        matches!(error, SendError::TooLarge { .. } | SendError::NotSent { kind: FailureKind::TooLarge, .. });
    let remedy = if too_large {
        "; a letter is larger than its message by some headers: raise max.message.bytes of the topic, and the limit of the producers' settings if that is what stands in the way"
    } else {
        ""
    };
    BuryError::new(format!("{error}{remedy}"))
}
