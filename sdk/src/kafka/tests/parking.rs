//! Partitions that must not flow for long keep nothing in memory, and miss nothing.

use super::{super::consumer::KafkaConsumer, *};

const MESSAGES: i64 = 3_000;
/// A queue without messages may hold a few marks of the library.
const MARKS: usize = 10;

/// Every rebalance takes every partition from everybody.
fn eager() -> Vec<(&'static str, &'static str)> {
    let mut properties = FAST_GROUP_PROPERTIES.to_vec();
    properties.push(("partition.assignment.strategy", "range"));
    properties
}

/// Partition 0 is full, and paused after its first few messages; partition 1 has as many messages.
struct Stuck {
    cluster: MockCluster,
    consumer: KafkaConsumer,
    offsets: BTreeMap<i32, Vec<i64>>,
}

impl Stuck {
    fn start() -> Self {
        let cluster = cluster_with("orders", 2);
        for partition in 0..2 {
            fill(&cluster, "orders", partition, 0..usize::try_from(MESSAGES).unwrap());
        }
        let mut properties = owned(&[("auto.offset.reset", "earliest")]);
        properties.extend(owned(&eager()));
        let spec = ConsumerSpec {
            cluster: spec(&cluster),
            client_id: "test".to_owned(),
            group: group(),
            topic: topic("orders"),
            membership: Membership::Group,
            properties,
        };
        let on_assign: OnAssign = Box::new(|control, partitions| {
            control.pause(&[1]);
            partitions.iter().map(|partition| (*partition, Start::At(0))).collect()
        });
        let consumer = KafkaConsumer::open(&spec, Listener::starting(on_assign)).unwrap();
        let mut stuck = Self { cluster, consumer, offsets: BTreeMap::new() };
        stuck.poll_until("the first messages", |stuck| stuck.count(0) > 0);
        stuck.consumer.pause(&[0]);
        stuck.consumer.resume(&[1]);
        stuck
    }

    fn count(&self, partition: i32) -> usize {
        self.offsets.get(&partition).map_or(0, Vec::len)
    }

    fn poll_until(&mut self, what: &str, mut reached: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !reached(self) {
            assert!(Instant::now() < deadline, "{what}: {} and {}", self.count(0), self.count(1));
            let mut polled = Vec::new();
            self.consumer.poll(Duration::from_millis(20), 7, &mut polled).unwrap();
            for record in polled.iter().flat_map(Records::iter) {
                self.offsets.entry(record.partition).or_default().push(record.offset);
            }
        }
    }

    fn park(&mut self) {
        self.poll_until("something is fetched ahead", |stuck| stuck.consumer.fetched_ahead(0) > MARKS);
        self.poll_until("it is given up", |stuck| stuck.consumer.fetched_ahead(0) <= MARKS);
    }

    fn end(self) -> BTreeMap<i32, Vec<i64>> {
        let Self { cluster, consumer, offsets } = self;
        Box::new(consumer).close();
        drop(cluster);
        offsets
    }
}

#[test]
fn what_is_fetched_ahead_of_a_partition_is_given_up_in_time_and_comes_again() {
    let mut stuck = Stuck::start();
    stuck.park();
    let before = stuck.count(0);
    let all = usize::try_from(MESSAGES).unwrap();
    stuck.poll_until("the other partition goes on", |stuck| stuck.count(1) == all);
    assert_eq!(stuck.count(0), before);
    assert!(stuck.consumer.fetched_ahead(0) <= MARKS, "nothing is fetched again");
    stuck.consumer.resume(&[0]);
    stuck.poll_until("all", |stuck| stuck.count(0) >= all);
    let offsets = stuck.end();
    assert_eq!(offsets[&0], (0..MESSAGES).collect::<Vec<_>>());
    assert_eq!(offsets[&1], (0..MESSAGES).collect::<Vec<_>>());
}

#[test]
fn a_seek_counts_also_when_everything_was_given_up() {
    let mut stuck = Stuck::start();
    stuck.park();
    let before = stuck.count(0);
    stuck.consumer.seek(0, Start::At(MESSAGES - 3), PATIENCE).unwrap();
    stuck.consumer.resume(&[0]);
    stuck.poll_until("the last messages", |stuck| stuck.count(0) >= before + 3);
    let offsets = stuck.end();
    assert_eq!(offsets[&0][before..], [MESSAGES - 3, MESSAGES - 2, MESSAGES - 1]);
}

#[test]
fn a_partition_that_comes_back_flows_although_everything_was_given_up() {
    let mut stuck = Stuck::start();
    stuck.park();
    let before = stuck.count(0);
    let mut other = Member::join_with(&stuck.cluster, "orders", Listener::passive(), &eager());
    stuck.poll_until("the other member has its part", |_| {
        other.poll();
        other.listener.held().len() == 1
    });
    other.client.close();
    stuck.poll_until("all of it anew", |stuck| stuck.count(0) >= before + usize::try_from(MESSAGES).unwrap());
    stuck.end();
}
