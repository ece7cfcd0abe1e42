//! A client that is no member of a group: it takes its partitions itself.

use std::{collections::BTreeSet, sync::Arc, time::Duration, time::Instant};

use zms_core::name::TopicName;

use super::{
    ledger::{Kept, KeptListener, Ledger},
    pace::Timer,
};
use crate::engine::port::{
    AssignmentListener, ConsumerClient, ConsumerControl, ConsumerSpec, Engine, EngineError, FailureKind,
    LogRange, OpenError, Position, Records, Start,
};

/// Between two looks for partitions that are new. Clients learn of them in about as long from librdkafka's metadata.
const LOOK: Duration = Duration::from_secs(30);
/// Limit on such a look; the client is not polled meanwhile.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// Takes what is wanted as soon as the cluster has it, and is otherwise the client within.
pub(super) struct AloneClient {
    client: Box<dyn ConsumerClient>,
    ledger: Option<Arc<Ledger>>,
    topic: TopicName,
    /// `None`: all that there are.
    wanted: Option<BTreeSet<i32>>,
    taken: BTreeSet<i32>,
    looks: Timer,
    /// A commit to the ledger is still to be answered.
    kept: bool,
}

impl AloneClient {
    /// Opens the client. Positions are kept in `ledger`; without one, at the broker.
    pub(super) fn open(
        engine: &dyn Engine,
        spec: &ConsumerSpec,
        listener: Arc<dyn AssignmentListener>,
        (wanted, ledger): (Option<BTreeSet<i32>>, Option<Arc<Ledger>>),
    ) -> Result<Self, OpenError> {
        let listener = Arc::new(KeptListener { listener, ledger: ledger.clone() });
        let client = engine.open_consumer(spec, listener)?;
        let looks = Timer::new(Instant::now());
        let (topic, taken) = (spec.topic.clone(), BTreeSet::new());
        Ok(Self { client, ledger, topic, wanted, taken, looks, kept: false })
    }

    fn control(&self) -> Kept<'_> {
        Kept { control: &*self.client, ledger: self.ledger.as_deref() }
    }

    /// Takes what is wanted and not taken yet, when it is time to look.
    fn take_up(&mut self) -> Result<(), EngineError> {
        if !self.looks.is_due(Instant::now()) {
            return Ok(());
        }
        let taken = self.client.partitions(LOOK_LIMIT).and_then(|partitions| self.take(partitions));
        match &taken {
            Ok(()) => self.looks.succeed(Instant::now() + LOOK),
            Err(_) => self.looks.fail(Instant::now()),
        }
        taken
    }

    fn take(&mut self, partitions: i32) -> Result<(), EngineError> {
        let there = 0..partitions;
        let all = || there.clone().collect();
        let wanted: BTreeSet<i32> = self.wanted.clone().unwrap_or_else(all);
        let new: Vec<i32> =
            wanted.difference(&self.taken).copied().filter(|partition| there.contains(partition)).collect();
        if !new.is_empty() {
            self.client.assign(&new)?;
            self.taken.extend(new);
        }
        match wanted.last() {
            Some(last) if *last < partitions => Ok(()),
            Some(last) if partitions > 0 => {
                Err(self.missing(format!("has {partitions} partitions; there is no partition {last}")))
            }
            _ => Err(self.missing("does not exist on this cluster".to_owned())),
        }
    }

    fn missing(&self, what: String) -> EngineError {
        EngineError { kind: FailureKind::UnknownTopic, reason: format!("topic {} {what}", self.topic) }
    }
}

impl ConsumerControl for AloneClient {
    fn pause(&self, partitions: &[i32]) {
        self.control().pause(partitions);
    }

    fn resume(&self, partitions: &[i32]) {
        self.control().resume(partitions);
    }

    fn seek(&self, partition: i32, start: Start, limit: Duration) -> Result<(), EngineError> {
        self.control().seek(partition, start, limit)
    }

    fn commit(&self, positions: &[Position]) -> Result<(), EngineError> {
        self.control().commit(positions)
    }

    fn committed(&self, partitions: &[i32], limit: Duration) -> Result<Vec<Position>, EngineError> {
        self.control().committed(partitions, limit)
    }

    fn log_ranges(&self, partitions: &[i32], limit: Duration) -> Result<Vec<(i32, LogRange)>, EngineError> {
        self.control().log_ranges(partitions, limit)
    }

    fn offsets_for_times(
        &self,
        partitions: &[i32],
        timestamp_ms: i64,
        limit: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, EngineError> {
        self.control().offsets_for_times(partitions, timestamp_ms, limit)
    }
}

impl ConsumerClient for AloneClient {
    fn poll(&mut self, limit: Duration, max: usize, into: &mut Vec<Records>) -> Result<(), EngineError> {
        let taken = self.take_up();
        // What is held flows, whatever became of the look.
        self.client.poll(limit, max, into)?;
        taken
    }

    fn begin_commit(&mut self, positions: &[Position]) -> Result<(), EngineError> {
        let Some(ledger) = &self.ledger else { return self.client.begin_commit(positions) };
        ledger.keep(positions.iter().cloned());
        self.kept = true;
        Ok(())
    }

    fn poll_commit(&mut self) -> Option<Result<(), EngineError>> {
        if self.ledger.is_none() {
            return self.client.poll_commit();
        }
        std::mem::take(&mut self.kept).then_some(Ok(()))
    }

    fn assign(&mut self, partitions: &[i32]) -> Result<(), EngineError> {
        self.client.assign(partitions)
    }

    fn partitions(&self, limit: Duration) -> Result<i32, EngineError> {
        self.client.partitions(limit)
    }

    fn close(self: Box<Self>) {
        self.client.close();
    }
}
