//! How a subscription gives messages up: from the verdict to the acknowledged letter.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::{error, warn};
use zms_core::name::{GroupName, TopicName};

use super::{
    Delivery, RetryPolicy, Trouble,
    dead_letter::{Buried, BuryError, DeadLetters, Letter},
    retry::DEAD_LETTER_PREFIX,
    stats::Stats,
    throttle::Throttle,
};
use crate::panics::words_of;

/// Sends a subscription's dead letters, counts and logs them.
pub(super) struct Burials {
    sink: Option<Arc<dyn DeadLetters>>,
    grave: Grave,
    stats: Arc<Stats>,
    buried: Throttle,
    failed: Arc<Throttle>,
}

/// One attempt to send one letter.
pub(super) struct Burial<'a> {
    pub(super) delivery: &'a Delivery,
    /// Why the message is given up.
    pub(super) reason: &'a str,
    /// Attempts to send this letter that have failed before.
    pub(super) failures: u32,
}

/// Where letters go, or why there is no such place.
struct Grave {
    topic: Result<TopicName, String>,
    is_chosen: bool,
}

impl Grave {
    fn of(policy: &RetryPolicy, group: &GroupName) -> Self {
        match policy.grave(group) {
            Ok((topic, is_chosen)) => Self { topic: Ok(topic), is_chosen },
            Err(error) => Self {
                topic: Err(format!("{error}; choose a name with RetryPolicy::dead_letter_topic")),
                is_chosen: false,
            },
        }
    }

    /// The topic for letters about messages of `source`.
    fn topic(&self, source: &TopicName) -> Result<&TopicName, String> {
        let topic = self.topic.as_ref().map_err(Clone::clone)?;
        let goes_round = topic == source;
        let is_letter = !self.is_chosen && source.as_str().starts_with(DEAD_LETTER_PREFIX);
        if goes_round || is_letter {
            return Err(format!(
                "{source} is a dead-letter topic itself, and letters about letters would go on for ever; \
                 choose another topic with RetryPolicy::dead_letter_topic, or let the message block or be skipped"
            ));
        }
        Ok(topic)
    }
}

impl Burials {
    pub(super) fn new(
        sink: Option<Arc<dyn DeadLetters>>,
        policy: &RetryPolicy,
        group: &GroupName,
        stats: Arc<Stats>,
    ) -> Self {
        let grave = Grave::of(policy, group);
        Self { sink, grave, stats, buried: Throttle::default(), failed: Arc::default() }
    }

    /// Whether a subscription that may bury by policy can; `source` is the topic that it begins with.
    pub(super) fn check(&self, policy: &RetryPolicy, source: &TopicName) -> Result<(), String> {
        if !policy.buries() {
            return Ok(());
        }
        if self.sink.is_none() {
            return Err(NO_SINK.to_owned());
        }
        self.grave.topic(source).map(drop)
    }

    /// Sends a letter and calls back exactly once with the result, on any thread, possibly before it returns. Never blocks.
    pub(super) fn bury(
        &self,
        burial: &Burial<'_>,
        done: impl FnOnce(Result<(), BuryError>) + Send + 'static,
    ) {
        let done = self.booked(burial, done);
        let topic = match self.grave.topic(burial.delivery.topic()) {
            Ok(topic) => topic.clone(),
            Err(reason) => return done(Err(BuryError::new(reason))),
        };
        let Some(sink) = &self.sink else { return done(Err(BuryError::new(NO_SINK))) };
        if burial.failures == 0
            && let Some(not_logged) = self.buried.pass()
        {
            let reason = burial.reason;
            warn!(message = ?burial.delivery, to = %topic, reason, not_logged, "message goes to the dead-letter topic");
        }
        let letter = Letter::new(topic, burial.delivery, burial.reason);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| sink.bury(letter, done))) {
            // Its callback went with it, and has reported the failure.
            warn!(group = %burial.delivery.group(), panic = words_of(panic), "the sender of dead letters panicked");
        }
    }

    /// Counts and logs the result on its way to `done`; a callback that is dropped uncalled becomes a failure.
    fn booked(
        &self,
        burial: &Burial<'_>,
        done: impl FnOnce(Result<(), BuryError>) + Send + 'static,
    ) -> Buried {
        let (stats, throttle) = (Arc::clone(&self.stats), Arc::clone(&self.failed));
        let (delivery, first) = (burial.delivery.clone(), burial.failures == 0);
        let once = Once(Some(Box::new(move |result: Result<(), BuryError>| {
            match &result {
                Ok(()) => stats.dead_lettered.one(),
                Err(reason) => {
                    stats.dead_letter_failures.one();
                    // Once for each message, and not for each of a flood.
                    if first && let Some(not_logged) = throttle.pass() {
                        error!(message = ?delivery, %reason, not_logged,
                               "dead letter not sent; the message waits, and the sending is repeated");
                    }
                }
            }
            // What the delivery shares with its neighbours is not kept longer than that.
            drop(delivery);
            done(result);
        })));
        Box::new(move |result| once.call(result))
    }
}

const NO_SINK: &str = "dead letters have no way out: this subscription was made without a ZMS handle; \
                       give it a sender with Subscriber::dead_letters, or let messages block or be skipped";

/// What an inspection shows of a message whose letter did not go out.
pub(super) fn trouble_of(burial: &Burial<'_>, failure: &BuryError) -> Trouble {
    let Burial { delivery, reason, failures } = burial;
    let reason = format!(
        "not dead-lettered ({} attempts): {failure}. The handler's failure: {reason}",
        failures.saturating_add(1)
    );
    Trouble { offset: delivery.offset(), attempts: delivery.attempt(), reason }
}

/// A callback that is called when it is dropped, if it was not before.
struct Once(Option<Buried>);

impl Once {
    fn call(mut self, result: Result<(), BuryError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(BuryError::new(
                "the sender of dead letters gave no result; the letter may have been sent",
            )));
        }
    }
}
