//! A client that is no member of a group: it takes its partitions itself.

use std::{collections::BTreeSet, sync::Arc, time::Duration, time::Instant};

use zms_core::name::TopicName;

use super::{
    ledger::{Kept, KeptListener, Ledger},
    pace::Timer,
};
use crate::engine::{
    controlled::Controlled,
    port::{
        AssignmentListener, ConsumerClient, ConsumerSpec, Engine, EngineError, FailureKind, OpenError,
        Position, Records,
    },
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
                Err(self.missing(&format!("has {partitions} partitions; there is no partition {last}")))
            }
            _ => Err(self.missing("does not exist on this cluster")),
        }
    }

    fn missing(&self, what: &str) -> EngineError {
        EngineError { kind: FailureKind::UnknownTopic, reason: format!("topic {} {what}", self.topic) }
    }
}

impl Controlled for AloneClient {
    type Control<'a> = Kept<'a>;

    fn control(&self) -> Kept<'_> {
        Kept { control: &*self.client, ledger: self.ledger.as_deref() }
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::engine::port::{ConsumerControl, LogRange, Start};

    /// A cluster whose topic has this many partitions, and what was taken of it.
    #[derive(Default)]
    struct Stub {
        partitions: i32,
        taken: Vec<Vec<i32>>,
        refusals: usize,
    }

    struct Client(Arc<Mutex<Stub>>);

    impl ConsumerControl for Client {
        fn pause(&self, _: &[i32]) {}
        fn resume(&self, _: &[i32]) {}
        fn seek(&self, _: i32, _: Start, _: Duration) -> Result<(), EngineError> {
            unreachable!("not asked")
        }
        fn commit(&self, _: &[Position]) -> Result<(), EngineError> {
            unreachable!("nothing is kept at the broker")
        }
        fn committed(&self, _: &[i32], _: Duration) -> Result<Vec<Position>, EngineError> {
            unreachable!("nothing is kept at the broker")
        }
        fn log_ranges(&self, _: &[i32], _: Duration) -> Result<Vec<(i32, LogRange)>, EngineError> {
            unreachable!("not asked")
        }
        fn offsets_for_times(
            &self,
            _: &[i32],
            _: i64,
            _: Duration,
        ) -> Result<Vec<(i32, Option<i64>)>, EngineError> {
            unreachable!("not asked")
        }
    }

    impl ConsumerClient for Client {
        fn poll(&mut self, _: Duration, _: usize, _: &mut Vec<Records>) -> Result<(), EngineError> {
            Ok(())
        }
        fn begin_commit(&mut self, _: &[Position]) -> Result<(), EngineError> {
            unreachable!("nothing is kept at the broker")
        }
        fn poll_commit(&mut self) -> Option<Result<(), EngineError>> {
            unreachable!("nothing is kept at the broker")
        }
        fn assign(&mut self, partitions: &[i32]) -> Result<(), EngineError> {
            let mut stub = self.0.lock().unwrap();
            if stub.refusals > 0 {
                stub.refusals -= 1;
                return Err(EngineError { kind: FailureKind::Other, reason: "refused".to_owned() });
            }
            stub.taken.push(partitions.to_vec());
            Ok(())
        }
        fn partitions(&self, _: Duration) -> Result<i32, EngineError> {
            Ok(self.0.lock().unwrap().partitions)
        }
        fn close(self: Box<Self>) {}
    }

    fn alone(partitions: i32, wanted: Option<&[i32]>) -> (AloneClient, Arc<Mutex<Stub>>) {
        let stub = Arc::new(Mutex::new(Stub { partitions, ..Stub::default() }));
        let alone = AloneClient {
            client: Box::new(Client(Arc::clone(&stub))),
            ledger: Some(Arc::default()),
            topic: TopicName::new("orders").unwrap(),
            wanted: wanted.map(|wanted| wanted.iter().copied().collect()),
            taken: BTreeSet::new(),
            looks: Timer::new(Instant::now()),
            kept: false,
        };
        (alone, stub)
    }

    /// Polls when it is time to look.
    fn look(alone: &mut AloneClient) -> Result<(), EngineError> {
        alone.looks = Timer::new(Instant::now());
        alone.poll(Duration::ZERO, 1, &mut Vec::new())
    }

    #[test]
    fn new_partitions_are_taken_beside_those_that_are_held() {
        let (mut alone, stub) = alone(2, None);
        look(&mut alone).unwrap();
        look(&mut alone).unwrap();
        stub.lock().unwrap().partitions = 4;
        assert!(alone.poll(Duration::ZERO, 1, &mut Vec::new()).is_ok(), "it is not time to look");
        assert_eq!(stub.lock().unwrap().taken, [[0, 1]]);
        look(&mut alone).unwrap();
        assert_eq!(stub.lock().unwrap().taken, [[0, 1], [2, 3]]);
    }

    #[test]
    fn what_is_refused_is_taken_the_next_time() {
        let (mut alone, stub) = alone(1, None);
        stub.lock().unwrap().refusals = 1;
        assert!(look(&mut alone).is_err());
        look(&mut alone).unwrap();
        assert_eq!(stub.lock().unwrap().taken, [[0]]);
    }

    #[test]
    fn only_what_is_wanted_is_taken_and_what_is_missing_named() {
        let (mut alone, stub) = alone(0, Some(&[1, 5]));
        assert!(look(&mut alone).unwrap_err().reason.contains("does not exist"));
        stub.lock().unwrap().partitions = 3;
        assert!(look(&mut alone).unwrap_err().reason.contains("no partition 5"));
        stub.lock().unwrap().partitions = 6;
        look(&mut alone).unwrap();
        assert_eq!(stub.lock().unwrap().taken, [[1], [5]]);
    }

    #[test]
    fn commits_to_the_ledger_are_answered_once_and_found_again() {
        let (mut alone, _) = alone(1, None);
        assert!(alone.poll_commit().is_none());
        let position = Position { partition: 0, offset: 7, metadata: String::new() };
        alone.begin_commit(std::slice::from_ref(&position)).unwrap();
        assert!(matches!(alone.poll_commit(), Some(Ok(()))));
        assert!(alone.poll_commit().is_none());
        assert_eq!(alone.committed(&[0, 1], Duration::ZERO).unwrap(), [position]);
    }
}
