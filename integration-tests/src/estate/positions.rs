//! Watches a group's committed positions on all clusters, without the SDK.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use zms_core::progress::Progress;

use crate::guarantees::Guarantees;

const PAUSE: Duration = Duration::from_millis(100);
const ONE_ANSWER: Duration = Duration::from_secs(2);

/// Where one group's positions on one cluster are asked for.
pub(super) struct Place {
    pub(super) cluster: String,
    pub(super) bootstrap: String,
    pub(super) group: String,
    pub(super) topic: String,
    pub(super) partitions: i32,
}

/// What a group has committed of one partition.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The partition.
    pub partition: i32,
    /// The next offset to be read.
    pub position: i64,
    /// The offsets above it that are noted as done.
    pub done: Vec<i64>,
}

fn done_beside(position: i64, text: &str) -> Vec<i64> {
    let progress = Progress::decode(position, text).unwrap_or_default();
    progress.done.ranges().iter().cloned().flatten().collect()
}

impl Place {
    /// A client that asks and does not join.
    fn client(&self) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("group.id", &self.group).set("log_level", "0");
        config.create().expect("the settings are valid")
    }

    fn read(&self, client: &BaseConsumer) -> KafkaResult<Vec<Committed>> {
        let mut wanted = TopicPartitionList::new();
        wanted.add_partition_range(&self.topic, 0, self.partitions - 1);
        let found = client.committed_offsets(wanted, ONE_ANSWER)?;
        let position = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            matches!(element.offset(), Offset::Offset(_)).then(|| element.offset().to_raw()).flatten().map(
                |position| Committed {
                    partition: element.partition(),
                    position,
                    done: done_beside(position, element.metadata()),
                },
            )
        };
        Ok(found.elements().iter().filter_map(position).collect())
    }

    /// The group's positions there, by partition; asks until the cluster answers.
    pub(super) fn committed(&self) -> Vec<Committed> {
        let client = self.client();
        let limit = std::time::Instant::now() + crate::wait::LIMIT;
        loop {
            match self.read(&client) {
                Ok(found) => return found,
                Err(error) => assert!(std::time::Instant::now() < limit, "{}: {error}", self.cluster),
            }
        }
    }
}

/// A thread that tells the guarantees of every position that it sees.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(places: Vec<Place>, kept: Guarantees) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let clients: Vec<_> = places.iter().map(|place| (place.client(), place)).collect();
            while !stopped.load(Ordering::Relaxed) {
                for (client, place) in &clients {
                    // A cluster that is down is asked again.
                    for found in place.read(client).unwrap_or_default() {
                        kept.committed(&place.cluster, found.partition, found.position);
                    }
                }
                thread::sleep(PAUSE);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
