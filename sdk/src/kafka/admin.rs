//! Questions to a cluster, and its topics' administration.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, TopicPartitionList,
    admin::{
        AdminClient, AdminOptions, ConfigResourceResult, NewTopic as NativeTopic, ResourceSpecifier,
        TopicReplication,
    },
    client::{Client, DefaultClientContext},
    consumer::{BaseConsumer, DefaultConsumerContext},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    groups::GroupInfo,
    metadata::{MetadataPartition, MetadataTopic},
};
use zms_core::{
    name::{GroupName, TopicName},
    route::ClusterSpec,
};

use super::{
    config::Settings,
    control,
    error::{coded, deadline, failure, timeout, translated},
    log_range::log_ranges,
    members::partitions_of,
};
use crate::engine::port::{
    BrokerSettings, ClusterAdmin, EngineError, FailureKind, GroupMember, LogRange, NewTopic, OpenError,
    Position, TopicInfo,
};

/// A handle for questions.
pub(super) struct KafkaAdmin {
    cluster: ClusterSpec,
    native: Native,
    /// The client that asked for a group's positions last, for whoever asks again and again.
    asker: Mutex<Option<(GroupName, Asker)>>,
}

type Asker = Arc<BaseConsumer<DefaultConsumerContext>>;

impl KafkaAdmin {
    pub(super) fn open(cluster: &ClusterSpec) -> Result<Self, OpenError> {
        let native: AdminClient<DefaultClientContext> =
            Settings::questions(cluster)?.open(DefaultClientContext)?;
        Ok(Self { cluster: cluster.clone(), native: Native(Some(native)), asker: Mutex::default() })
    }

    /// A client that asks in the group's name. Never subscribed, so it is no member.
    fn asker(&self, group: &GroupName) -> Result<Asker, OpenError> {
        let mut last = self.asker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, asker)) = last.as_ref().filter(|(known, _)| known == group) {
            return Ok(Arc::clone(asker));
        }
        let settings = Settings::questions(&self.cluster)?.for_group(group.as_str());
        let asker: Asker = Arc::new(settings.open(DefaultConsumerContext)?);
        *last = Some((group.clone(), Arc::clone(&asker)));
        Ok(asker)
    }

    fn client(&self) -> &Client<DefaultClientContext> {
        self.native.get().inner()
    }

    fn known(&self, topic: &TopicName, limit: Duration) -> Result<TopicInfo, EngineError> {
        self.topic(topic, limit)?.ok_or_else(|| {
            let reason = format!("topic {topic} does not exist on cluster {}", self.cluster.name);
            failure(FailureKind::UnknownTopic, reason)
        })
    }
}

impl ClusterAdmin for KafkaAdmin {
    fn cluster_id(&self, limit: Duration) -> Result<String, EngineError> {
        self.client().fetch_cluster_id(timeout(limit)).ok_or_else(|| {
            let reason = format!("cluster {} did not tell its id in time", self.cluster.name);
            failure(FailureKind::Unreachable, reason)
        })
    }

    fn topic(&self, topic: &TopicName, limit: Duration) -> Result<Option<TopicInfo>, EngineError> {
        topic_info(self.client(), topic.as_str(), limit)
    }

    fn create_topic(&self, topic: &NewTopic, limit: Duration) -> Result<(), EngineError> {
        let replication = TopicReplication::Fixed(topic.replication.unwrap_or(-1));
        let mut wanted = NativeTopic::new(topic.topic.as_str(), topic.partitions, replication);
        for (setting, value) in &topic.settings {
            wanted = wanted.set(setting, value);
        }
        let answers = wait(self.native.get().create_topics([&wanted], &options(limit)), limit)?;
        match answers.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            Some(Err((name, code))) => {
                Err(EngineError { reason: format!("topic {name}: {code}"), ..coded(code) })
            }
            None => Err(failure(FailureKind::Other, "no answer for the topic")),
        }
    }

    fn topic_settings(
        &self,
        topic: &TopicName,
        limit: Duration,
    ) -> Result<BTreeMap<String, String>, EngineError> {
        let asked = ResourceSpecifier::Topic(topic.as_str());
        described(wait(self.native.get().describe_configs([&asked], &options(limit)), limit)?)
    }

    fn broker_settings(&self, limit: Duration) -> Result<Vec<BrokerSettings>, EngineError> {
        let deadline = deadline(limit);
        let metadata =
            self.client().fetch_metadata(None, timeout(limit)).map_err(|error| translated(&error))?;
        // All are asked before the first is waited for: each answers for itself.
        let brokers: Vec<_> =
            metadata.brokers().iter().map(|it| (it.id(), ResourceSpecifier::Broker(it.id()))).collect();
        let left = options(deadline.saturating_duration_since(Instant::now()));
        let ask = |(id, broker)| (id, self.native.get().describe_configs([broker], &left));
        let answers: Vec<_> = brokers.iter().map(|(id, broker)| ask((*id, broker))).collect();
        let (mut told, mut refused) = (Vec::new(), None);
        for (broker, answer) in answers {
            let left = deadline.saturating_duration_since(Instant::now());
            match wait(answer, left).and_then(described) {
                Ok(settings) => told.push(BrokerSettings { broker, settings }),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) if told.is_empty() => Err(error),
            _ => Ok(told),
        }
    }

    fn log_ranges(&self, topic: &TopicName, limit: Duration) -> Result<Vec<LogRange>, EngineError> {
        let deadline = deadline(limit);
        let partitions: Vec<i32> = (0..self.known(topic, limit)?.partitions).collect();
        let left = deadline.saturating_duration_since(Instant::now());
        log_ranges(self.client(), topic.as_str(), &partitions, left)
    }

    fn committed(
        &self,
        group: &GroupName,
        topic: &TopicName,
        limit: Duration,
    ) -> Result<Vec<Position>, EngineError> {
        let deadline = deadline(limit);
        let partitions = self.known(topic, limit)?.partitions;
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic.as_str(), 0, partitions - 1);
        let asker = self.asker(group).map_err(|error| unopened(&error))?;
        control::committed(&asker, list, deadline.saturating_duration_since(Instant::now()))
    }

    fn members(
        &self,
        group: &GroupName,
        topic: &TopicName,
        limit: Duration,
    ) -> Result<Vec<GroupMember>, EngineError> {
        let groups = self.client().fetch_group_list(Some(group.as_str()), timeout(limit));
        let groups = groups.map_err(|error| translated(&error))?;
        let found = groups.groups().iter().filter(|found| found.name() == group.as_str());
        let members = found.flat_map(GroupInfo::members).map(|member| GroupMember {
            id: member.id().to_owned(),
            client_id: member.client_id().to_owned(),
            host: member.client_host().to_owned(),
            partitions: partitions_of(member.assignment().unwrap_or_default(), topic.as_str())
                .unwrap_or_default(),
        });
        Ok(members.collect())
    }
}

impl fmt::Debug for KafkaAdmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaAdmin").field("cluster", &self.cluster.name).finish_non_exhaustive()
    }
}

/// The settings in an answer about one resource, but for secrets.
fn described(answers: Vec<ConfigResourceResult>) -> Result<BTreeMap<String, String>, EngineError> {
    let described = match answers.into_iter().next() {
        Some(Ok(described)) => described,
        Some(Err(code)) => return Err(coded(code)),
        None => return Err(failure(FailureKind::Other, "no answer about the settings")),
    };
    let shown = described.entries.into_iter().filter(|entry| !entry.is_sensitive);
    Ok(shown.filter_map(|entry| Some((entry.name, entry.value?))).collect())
}

fn unopened(error: &OpenError) -> EngineError {
    failure(FailureKind::Other, error.to_string())
}

fn options(limit: Duration) -> AdminOptions {
    AdminOptions::new().request_timeout(Some(timeout(limit))).operation_timeout(Some(timeout(limit)))
}

/// What a cluster knows of a topic; `None` when it does not exist.
pub(super) fn topic_info<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    limit: Duration,
) -> Result<Option<TopicInfo>, EngineError> {
    let metadata = client.fetch_metadata(Some(topic), timeout(limit)).map_err(|error| translated(&error))?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Ok(None);
    };
    match found.error().map(RDKafkaErrorCode::from) {
        None => Ok(Some(info(found))),
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => Ok(None),
        Some(code) => Err(EngineError { reason: format!("topic {topic}: {code}"), ..coded(code) }),
    }
}

fn info(topic: &MetadataTopic) -> TopicInfo {
    let partitions = topic.partitions();
    let replicas = partitions.iter().map(|it| i32::try_from(it.replicas().len()).unwrap_or(i32::MAX));
    TopicInfo {
        partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
        leaderless: partitions.iter().filter(|it| it.leader() < 0).map(MetadataPartition::id).collect(),
        replication: replicas.min().unwrap_or(0),
    }
}

/// The native client. Its destructor joins threads, so it is destroyed on a thread of its own.
struct Native(Option<AdminClient<DefaultClientContext>>);

impl Native {
    fn get(&self) -> &AdminClient<DefaultClientContext> {
        self.0.as_ref().expect("taken only by the destructor")
    }
}

impl Drop for KafkaAdmin {
    /// Both clients take their time to close; nobody is to wait for that.
    fn drop(&mut self) {
        let native = self.native.0.take();
        let asker = self.asker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Without a thread they are destroyed here, which takes longer and does no harm.
        let _ = thread::Builder::new().name("zms-admin-drop".to_owned()).spawn(move || drop((native, asker)));
    }
}

/// Drives one request on this thread. The client enforces the limit and is given some time to say so.
fn wait<T>(request: impl Future<Output = KafkaResult<T>>, limit: Duration) -> Result<T, EngineError> {
    const GRACE: Duration = Duration::from_secs(1);
    let deadline = deadline(limit.saturating_add(GRACE));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut request = pin!(request);
    loop {
        if let Poll::Ready(answer) = request.as_mut().poll(&mut context) {
            return answer.map_err(|error: KafkaError| translated(&error));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(failure(FailureKind::Unreachable, "no answer within the limit"));
        }
        thread::park_timeout(left);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
