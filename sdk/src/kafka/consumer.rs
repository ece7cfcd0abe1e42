//! A member of a consumer group. Everything, rebalances too, happens on the thread that polls.

use std::{
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol},
    error::{KafkaError, KafkaResult},
    types::RDKafkaRespErr,
};

use super::{
    admin::topic_info,
    config::Settings,
    control::{Control, offset_of},
    error::{deadline, fatal, translated},
    intake::{Doorbell, Intake},
    logging::ClientLog,
    native::{self, MessageRef, WatchedQueue},
    record::next_records,
};
use crate::engine::{
    controlled::Controlled,
    port::{
        self, AssignmentListener, ConsumerClient, ConsumerSpec, EngineError, FailureKind, OpenError,
        Position, Records, Start,
    },
};

/// A subscribed consumer.
pub(super) struct KafkaConsumer {
    // Before the client that they belong to: none of its queues may outlive it.
    events: WatchedQueue<Doorbell>,
    commit: Option<native::Commit>,
    native: Native,
    topic: String,
    /// The partition that the last records came from.
    last: i32,
    /// Came after records; it must not take them with it.
    pending: Option<EngineError>,
}

impl KafkaConsumer {
    pub(super) fn open(
        spec: &ConsumerSpec,
        listener: Arc<dyn AssignmentListener>,
    ) -> Result<Self, OpenError> {
        let settings = Settings::consumer(spec)?;
        let topic = spec.topic.to_string();
        let log = ClientLog::new(spec.cluster.name.as_str(), &spec.client_id);
        let intake = Intake::default();
        let bell = Arc::clone(&intake.bell);
        let rebalanced = AtomicBool::new(false);
        let membership = Membership { topic: topic.clone(), listener, log, intake, rebalanced };
        let native: BaseConsumer<Membership> = settings.open(membership)?;
        let events = WatchedQueue::of_events(native.client(), bell)
            .ok_or_else(|| settings.unusable("the client has no group"))?;
        if spec.membership == port::Membership::Group {
            native.subscribe(&[&topic]).map_err(|error| settings.refused(&error))?;
        }
        Ok(Self { events, commit: None, native: Native(Some(native)), topic, last: -1, pending: None })
    }

    /// Serves the client's events, rebalances among them; whether there was none.
    fn serve(&self, into: &mut Vec<Records>) -> Result<bool, EngineError> {
        match self.native.poll(Duration::ZERO) {
            Some(Err(error)) => Err(self.told(&error)),
            // Of a partition that has no queue of its own.
            Some(Ok(message)) => {
                into.extend(next_records(&mut std::iter::once(MessageRef::of(&message))));
                Ok(false)
            }
            None => {
                let rebalanced = self.native.context().rebalanced.swap(false, Ordering::Relaxed);
                Ok(!rebalanced && self.events.len() == 0)
            }
        }
    }

    /// An error in the port's words. Of one that is for good the client knows the cause.
    fn told(&self, error: &KafkaError) -> EngineError {
        let told = translated(error);
        let cause = self.native.client().fatal_error().filter(|_| told.kind == FailureKind::Fatal);
        cause.map_or(told, |(code, words)| fatal(code, &words))
    }

    /// Messages fetched ahead of a partition.
    #[cfg(test)]
    pub(super) fn fetched_ahead(&self, partition: i32) -> usize {
        self.native.context().intake.fetched_ahead(partition)
    }
}

impl Controlled for KafkaConsumer {
    type Control<'a> = Control<'a>;

    fn control(&self) -> Control<'_> {
        Control::new(&self.native, &self.topic)
    }
}

impl ConsumerClient for KafkaConsumer {
    fn poll(&mut self, limit: Duration, max: usize, into: &mut Vec<Records>) -> Result<(), EngineError> {
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        let deadline = deadline(limit);
        self.control().park();
        loop {
            // What comes with a rebalance may be from before it, so that it is left for the next call.
            if !self.serve(into)? {
                return Ok(());
            }
            let intake = &self.native.context().intake;
            let taken = intake.take(max, &mut self.last, into);
            if !into.is_empty() {
                self.pending = taken.err();
                return Ok(());
            }
            taken?;
            if !intake.bell.wait(deadline) {
                // A queue that did not knock would never be heard of again.
                intake.suspect_all();
                return Ok(());
            }
        }
    }

    fn assign(&mut self, partitions: &[i32]) -> Result<(), EngineError> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            list.add_partition(&self.topic, *partition);
        }
        let membership = self.native.context();
        membership.begin(&self.native, &mut list, partitions);
        self.native.incremental_assign(&list).map_err(|error| translated(&error))
    }

    fn partitions(&self, limit: Duration) -> Result<i32, EngineError> {
        Ok(topic_info(self.native.client(), &self.topic, limit)?.map_or(0, |info| info.partitions))
    }

    fn begin_commit(&mut self, positions: &[Position]) -> Result<(), EngineError> {
        self.commit = None;
        self.commit = Some(self.control().begin_commit(positions)?);
        Ok(())
    }

    fn poll_commit(&mut self) -> Option<Result<(), EngineError>> {
        let answer = self.commit.as_ref()?.answer(Duration::ZERO)?;
        self.commit = None;
        Some(self.control().ended(answer))
    }

    fn close(self: Box<Self>) {
        let Self { events, commit, mut native, .. } = *self;
        drop((events, commit));
        native.context().intake.clear();
        drop(native.0.take());
    }
}

/// The native consumer. Its destructor leaves the group and waits for the broker, so one that was not closed is
/// destroyed on a thread of its own.
struct Native(Option<BaseConsumer<Membership>>);

impl Deref for Native {
    type Target = BaseConsumer<Membership>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("taken only by the calls that consume the consumer")
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let Some(native) = self.0.take() else { return };
        native.context().intake.clear();
        let context = Arc::clone(native.context());
        let started = thread::Builder::new().name("zms-consumer-drop".to_owned()).spawn(move || drop(native));
        if let Err(error) = started {
            context.log.note("drop", &format!("no thread to leave the group on, left it here: {error}"));
        }
    }
}

/// What a consumer is a member with. Receives the rebalances.
pub(super) struct Membership {
    topic: String,
    listener: Arc<dyn AssignmentListener>,
    pub(super) log: ClientLog,
    pub(super) intake: Intake,
    /// Since the last poll.
    rebalanced: AtomicBool,
}

impl ClientContext for Membership {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.log.line(level, facility, text);
    }

    fn error(&self, error: KafkaError, text: &str) {
        self.log.error(&error, text);
    }
}

impl ConsumerContext for Membership {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let partitions: Vec<i32> = native::entries(list).iter().map(|entry| entry.partition).collect();
        let done = if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign(consumer, list, &partitions)
        } else {
            self.revoke(consumer, list, &partitions)
        };
        self.rebalanced.store(true, Ordering::Relaxed);
        if let Err(error) = done {
            self.log.note("rebalance", &format!("the client refused its part in a rebalance: {error}"));
        }
    }
}

impl Membership {
    fn assign(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &mut TopicPartitionList,
        partitions: &[i32],
    ) -> KafkaResult<()> {
        self.begin(consumer, list, partitions);
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.assign(list),
        }
    }

    /// Asks the listener where partitions start that are about to be assigned, and notes it in their list.
    fn begin(&self, consumer: &BaseConsumer<Self>, list: &mut TopicPartitionList, partitions: &[i32]) {
        let control = Control::new(consumer, &self.topic);
        control.release(partitions);
        self.intake.add(consumer.client(), &self.topic, partitions);
        let Some(starts) = self.asked(|| self.listener.assigned(&control, partitions)) else { return };
        self.intake.begin(&starts);
        // With no offset at all the library would ask the group's coordinator for one, and after an answer such as "not
        // coordinator" it never asks again: neither fetches the partition nor lets it be moved.
        let unknown =
            partitions.iter().filter(|partition| starts.iter().all(|(known, _)| known != *partition));
        let unknown: Vec<_> = unknown.map(|partition| (*partition, Start::Latest)).collect();
        for (partition, start) in unknown.into_iter().chain(starts) {
            if let Err(error) = list.set_partition_offset(&self.topic, partition, offset_of(start)) {
                let text = format!("start {start:?} of {}/{partition} not taken: {error}", self.topic);
                self.log.note("start", &text);
            }
        }
    }

    fn revoke(
        &self,
        consumer: &BaseConsumer<Self>,
        taken: &TopicPartitionList,
        partitions: &[i32],
    ) -> KafkaResult<()> {
        let control = Control::new(consumer, &self.topic);
        let lost = consumer.assignment_lost();
        if !partitions.is_empty() {
            self.asked(|| self.listener.revoked(&control, partitions, lost));
        }
        control.release(partitions);
        let unassigned = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(taken),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
        };
        self.intake.remove(partitions);
        unassigned
    }

    /// Asks the listener. A panic must not keep the rebalance from being answered: the whole group would wait for this
    /// member.
    fn asked<T>(&self, ask: impl FnOnce() -> T) -> Option<T> {
        let answer = catch_unwind(AssertUnwindSafe(ask));
        if answer.is_err() {
            self.log.note("listener panicked", "the listener of assignments panicked");
        }
        answer.ok()
    }
}
