//! An engine whose clusters are scripted: partitions are given and taken when the test says so.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use zms_core::{
    flow::Load,
    name::{GroupName, TopicName},
    route::ClusterSpec,
};
use zms_sdk::{
    Message,
    engine::port::{
        AssignmentListener, ClusterAdmin, ConsumerClient, ConsumerControl, ConsumerSpec, Engine, EngineError,
        FailureKind, LogRange, Membership, NewTopic, OpenError, Position, ProducerClient, ProducerSpec,
        Records, RecordsBuilder, Start, TopicInfo,
    },
};

#[derive(Debug, Default)]
pub(crate) struct FakeEngine {
    clusters: Mutex<BTreeMap<String, Arc<FakeCluster>>>,
}

impl FakeEngine {
    pub(crate) fn cluster(&self, name: &str, partitions: i32) -> Arc<FakeCluster> {
        let cluster = Arc::new(FakeCluster::new(name, partitions));
        self.clusters.lock().unwrap().insert(name.to_owned(), Arc::clone(&cluster));
        cluster
    }
}

impl Engine for FakeEngine {
    fn open_producer(&self, _: &ProducerSpec) -> Result<Arc<dyn ProducerClient>, OpenError> {
        unreachable!("consumers only")
    }

    fn open_consumer(
        &self,
        spec: &ConsumerSpec,
        listener: Arc<dyn AssignmentListener>,
    ) -> Result<Box<dyn ConsumerClient>, OpenError> {
        let cluster = Arc::clone(&self.clusters.lock().unwrap()[spec.cluster.name.as_str()]);
        let member = cluster.join(spec)?;
        Ok(Box::new(FakeClient { control: FakeControl { cluster, member }, listener, answer: None }))
    }

    fn open_admin(&self, cluster: &ClusterSpec) -> Result<Arc<dyn ClusterAdmin>, OpenError> {
        let cluster = Arc::clone(&self.clusters.lock().unwrap()[cluster.name.as_str()]);
        Ok(Arc::new(FakeAdmin(FakeControl { cluster, member: usize::MAX })))
    }
}

/// Sees what members see.
#[derive(Debug)]
struct FakeAdmin(FakeControl);

impl FakeAdmin {
    fn all(&self) -> Result<Vec<i32>, EngineError> {
        self.0.answer(|state| Ok((0..i32::try_from(state.logs.len()).unwrap()).collect()))
    }
}

impl ClusterAdmin for FakeAdmin {
    fn cluster_id(&self, _: Duration) -> Result<String, EngineError> {
        unreachable!("no test states an id")
    }

    fn topic(&self, _: &TopicName, _: Duration) -> Result<Option<TopicInfo>, EngineError> {
        let partitions = i32::try_from(self.all()?.len()).unwrap();
        Ok(Some(TopicInfo { partitions, leaderless: Vec::new(), replication: 1 }))
    }

    fn create_topic(&self, _: &NewTopic, _: Duration) -> Result<(), EngineError> {
        unreachable!("consumers create nothing")
    }

    fn topic_settings(&self, _: &TopicName, _: Duration) -> Result<BTreeMap<String, String>, EngineError> {
        unreachable!("consumers look at no settings")
    }

    fn log_ranges(&self, _: &TopicName, limit: Duration) -> Result<Vec<LogRange>, EngineError> {
        let logs = self.0.log_ranges(&self.all()?, limit)?;
        Ok(logs.into_iter().map(|(_, log)| log).collect())
    }

    fn committed(&self, _: &GroupName, _: &TopicName, limit: Duration) -> Result<Vec<Position>, EngineError> {
        self.0.committed(&self.all()?, limit)
    }
}

/// What happens to a member at its next polls.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Assign(Vec<i32>),
    Revoke(Vec<i32>),
    Lose(Vec<i32>),
    Fail(EngineError),
    /// The client has a defect.
    Panic,
}

#[derive(Debug)]
pub(crate) struct FakeCluster {
    name: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault that a test can order")]
pub(crate) struct State {
    logs: Vec<Log>,
    pub(crate) committed: BTreeMap<i32, i64>,
    /// What was committed beside the positions.
    pub(crate) texts: BTreeMap<i32, String>,
    /// Commits with a longer text are refused.
    pub(crate) longest_text: Option<usize>,
    /// Commits between polls are not answered.
    pub(crate) mute: bool,
    /// All commits that were taken, in order.
    pub(crate) commits: Vec<(i32, i64)>,
    pub(crate) members: Vec<Member>,
    pub(crate) commit_errors: VecDeque<EngineError>,
    /// Questions for times fail.
    pub(crate) time_errors: VecDeque<EngineError>,
    pub(crate) refusals: usize,
    /// How often a member has asked for the number of partitions.
    pub(crate) questions: usize,
    /// Questions and commits fail.
    pub(crate) down: bool,
    /// Partitions whose log does not answer.
    pub(crate) leaderless: BTreeSet<i32>,
    /// Partitions are given evenly to whoever is there.
    balanced: bool,
    /// Commits and closing take this long.
    pub(crate) slow: Duration,
    pub(crate) deliver_at_assignment: bool,
    /// Offsets of partition 0, fetched under an earlier assignment, that come along with the next one.
    pub(crate) leftovers: Vec<i64>,
}

#[derive(Debug, Default, Clone)]
struct Log {
    low: i64,
    records: Vec<Stored>,
    high: i64,
}

#[derive(Debug, Clone)]
struct Stored {
    offset: i64,
    key: Option<String>,
    payload: String,
    tag: Option<&'static str>,
}

impl Stored {
    fn new(offset: i64, payload: String) -> Self {
        Self { offset, key: None, payload, tag: None }
    }

    /// One second between two offsets.
    fn time_ms(&self) -> i64 {
        self.offset * 1000
    }
}

#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) bootstrap: String,
    pub(crate) group: String,
    pub(crate) properties: BTreeMap<String, String>,
    /// No member of the group: it takes its partitions itself.
    pub(crate) alone: bool,
    pub(crate) events: VecDeque<Event>,
    /// Fetch positions of the partitions held.
    pub(crate) held: BTreeMap<i32, i64>,
    pub(crate) paused: BTreeSet<i32>,
    pub(crate) polls: u64,
    pub(crate) left: bool,
}

impl FakeCluster {
    fn new(name: &str, partitions: i32) -> Self {
        let logs = (0..partitions).map(|_| Log::default()).collect();
        let state = State { logs, balanced: true, ..State::default() };
        Self { name: name.to_owned(), state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// From now on partitions are given and taken by [`FakeCluster::tell`] alone.
    pub(crate) fn scripted(self: Arc<Self>) -> Arc<Self> {
        self.state().balanced = false;
        self
    }

    pub(crate) fn tell(&self, member: usize, event: Event) {
        self.state().members[member].events.push_back(event);
        self.changed.notify_all();
    }

    /// Appends `count` messages whose payload is their offset.
    pub(crate) fn fill(&self, partition: i32, count: i64) {
        self.append(partition, count, 1, 0);
    }

    /// Appends `count` messages, `step` offsets apart, with `padding` more bytes each.
    pub(crate) fn append(&self, partition: i32, count: i64, step: i64, padding: usize) {
        let mut state = self.state();
        let log = &mut state.logs[usize::try_from(partition).unwrap()];
        for _ in 0..count {
            let mut payload = log.high.to_string();
            payload.extend(std::iter::repeat_n(' ', padding));
            log.records.push(Stored::new(log.high, payload));
            log.high += step;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Appends a message for each key, whose payload is its offset.
    pub(crate) fn fill_keys(&self, partition: i32, keys: impl IntoIterator<Item = String>) {
        let mut state = self.state();
        let log = &mut state.logs[usize::try_from(partition).unwrap()];
        for key in keys {
            let payload = log.high.to_string();
            log.records.push(Stored { key: Some(key), ..Stored::new(log.high, payload) });
            log.high += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Deletes what is below `low`, or all and starts again at `low`.
    pub(crate) fn truncate(&self, partition: i32, low: i64) {
        let mut state = self.state();
        let log = &mut state.logs[usize::try_from(partition).unwrap()];
        log.records.retain(|record| record.offset >= low);
        log.low = low;
        log.high = log.high.max(low);
    }

    /// Replaces the log by one that begins at 0, and members are moved there.
    pub(crate) fn recreate(&self, partition: i32) {
        let mut state = self.state();
        state.logs[usize::try_from(partition).unwrap()] = Log::default();
        for member in &mut state.members {
            member.held.entry(partition).and_modify(|position| *position = 0);
        }
    }

    /// Appends messages with these tags, one each; `None` has none. Before anybody reads.
    pub(crate) fn tagged(&self, partition: i32, tags: &[Option<&'static str>]) {
        let first = self.state().logs[usize::try_from(partition).unwrap()].records.len();
        self.fill(partition, i64::try_from(tags.len()).unwrap());
        let mut state = self.state();
        let log = &mut state.logs[usize::try_from(partition).unwrap()];
        for (record, tag) in log.records[first..].iter_mut().zip(tags) {
            record.tag = *tag;
        }
    }

    pub(crate) fn committed(&self, partition: i32) -> Option<i64> {
        self.state().committed.get(&partition).copied()
    }

    fn join(&self, spec: &ConsumerSpec) -> Result<usize, OpenError> {
        let mut state = self.state();
        if state.refusals > 0 {
            state.refusals -= 1;
            let reason = "no such property".to_owned();
            return Err(OpenError::Config { cluster: self.name.clone(), reason });
        }
        state.members.push(Member {
            bootstrap: spec.cluster.bootstrap.clone(),
            group: spec.group.to_string(),
            properties: spec.properties.iter().cloned().collect(),
            alone: spec.membership == Membership::Alone,
            ..Member::default()
        });
        let member = state.members.len() - 1;
        state.rebalance();
        drop(state);
        self.changed.notify_all();
        Ok(member)
    }
}

/// What lies one behind the other in a log, as an engine hands it over.
fn records<'a>(partition: i32, stored: impl IntoIterator<Item = &'a Stored>) -> Vec<Records> {
    let empty = || RecordsBuilder::with_capacity(partition, Load::default());
    let (mut full, mut filling) = (Vec::new(), empty());
    for stored in stored {
        let key = stored.key.as_deref().map(str::as_bytes);
        let size = key.unwrap_or_default().len() + stored.payload.len();
        if !RecordsBuilder::fits(filling.load(), size) {
            full.push(std::mem::replace(&mut filling, empty()).build());
        }
        filling.push(stored.offset, Some(stored.time_ms()), key, Some(stored.payload.as_bytes()));
        if let Some(tag) = stored.tag {
            filling.header(Message::TAG_HEADER, Some(tag.as_bytes()));
        }
    }
    full.push(filling.build());
    full.retain(|records| !records.is_empty());
    full
}

impl State {
    /// Cooperative: takes what a member has too much, and gives what nobody has.
    fn rebalance(&mut self) {
        let is_member = |member: &Member| !member.left && !member.alone;
        let present: Vec<usize> = (0..self.members.len()).filter(|m| is_member(&self.members[*m])).collect();
        if !self.balanced || present.is_empty() {
            return;
        }
        for partition in 0..self.logs.len() {
            let wanted = present[partition % present.len()];
            let partition = i32::try_from(partition).unwrap();
            let pending = |events: &VecDeque<Event>| {
                events.iter().any(|e| {
                    matches!(e, Event::Assign(p) | Event::Revoke(p) | Event::Lose(p) if p.contains(&partition))
                })
            };
            let holder = present.iter().find(|m| self.members[**m].held.contains_key(&partition));
            if present.iter().any(|m| pending(&self.members[*m].events)) || holder == Some(&wanted) {
                continue;
            }
            match holder {
                Some(holder) => self.members[*holder].events.push_back(Event::Revoke(vec![partition])),
                None => self.members[wanted].events.push_back(Event::Assign(vec![partition])),
            }
        }
    }

    fn commit(&mut self, positions: &[Position]) -> Result<(), EngineError> {
        if let Some(error) = self.commit_errors.pop_front() {
            return Err(error);
        }
        if positions.iter().any(|p| self.longest_text.is_some_and(|longest| p.metadata.len() > longest)) {
            return Err(failure(FailureKind::TooLarge));
        }
        for position in positions {
            self.committed.insert(position.partition, position.offset);
            self.texts.insert(position.partition, position.metadata.clone());
            self.commits.push((position.partition, position.offset));
        }
        Ok(())
    }

    fn fetch(&mut self, member: usize, max: usize, into: &mut Vec<Records>) {
        let Self { members, logs, .. } = self;
        let member = &mut members[member];
        let mut left = max - into.iter().map(Records::len).sum::<usize>();
        for (partition, position) in &mut member.held {
            if member.paused.contains(partition) {
                continue;
            }
            let log = &logs[usize::try_from(*partition).unwrap()];
            let from = log.records.partition_point(|record| record.offset < *position);
            let taken = &log.records[from..][..left.min(log.records.len() - from)];
            *position = taken.last().map_or(*position, |last| last.offset + 1);
            left -= taken.len();
            into.extend(records(*partition, taken));
        }
    }
}

pub(crate) fn failure(kind: FailureKind) -> EngineError {
    EngineError { kind, reason: format!("scripted: {kind:?}") }
}

#[derive(Debug)]
struct FakeControl {
    cluster: Arc<FakeCluster>,
    member: usize,
}

impl FakeControl {
    fn answer<T>(&self, answer: impl FnOnce(&mut State) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let mut state = self.cluster.state();
        if state.down {
            let slow = state.slow;
            drop(state);
            std::thread::sleep(slow);
            return Err(failure(FailureKind::Unreachable));
        }
        answer(&mut state)
    }
}

impl ConsumerControl for FakeControl {
    fn pause(&self, partitions: &[i32]) {
        self.cluster.state().members[self.member].paused.extend(partitions);
    }

    fn resume(&self, partitions: &[i32]) {
        self.cluster.state().members[self.member].paused.retain(|p| !partitions.contains(p));
    }

    fn seek(&self, partition: i32, start: Start, _: Duration) -> Result<(), EngineError> {
        self.answer(|state| {
            let Start::At(offset) = start else { unreachable!("starts are resolved") };
            let held = &mut state.members[self.member].held;
            *held.get_mut(&partition).ok_or_else(|| failure(FailureKind::Other))? = offset;
            Ok(())
        })
    }

    fn commit(&self, positions: &[Position]) -> Result<(), EngineError> {
        self.answer(|state| state.commit(positions))
    }

    fn committed(&self, partitions: &[i32], _: Duration) -> Result<Vec<Position>, EngineError> {
        self.answer(|state| {
            let known = partitions.iter().filter_map(|p| Some((*p, *state.committed.get(p)?)));
            let text = |partition| state.texts.get(&partition).cloned().unwrap_or_default();
            Ok(known
                .map(|(partition, offset)| Position { partition, offset, metadata: text(partition) })
                .collect())
        })
    }

    fn log_ranges(&self, partitions: &[i32], _: Duration) -> Result<Vec<(i32, LogRange)>, EngineError> {
        self.answer(|state| {
            let range = |&partition: &i32| {
                let log = &state.logs[usize::try_from(partition).unwrap()];
                if state.leaderless.contains(&partition) {
                    return Err(failure(FailureKind::Unreachable));
                }
                Ok((partition, LogRange { low: log.low, high: log.high }))
            };
            partitions.iter().map(range).collect()
        })
    }

    fn offsets_for_times(
        &self,
        partitions: &[i32],
        timestamp_ms: i64,
        _: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, EngineError> {
        self.answer(|state| {
            if let Some(error) = state.time_errors.pop_front() {
                return Err(error);
            }
            let first = |&partition: &i32| {
                let log = &state.logs[usize::try_from(partition).unwrap()];
                let found = log.records.iter().find(|record| record.time_ms() >= timestamp_ms);
                (partition, found.map(|record| record.offset))
            };
            Ok(partitions.iter().map(first).collect())
        })
    }
}

struct FakeClient {
    control: FakeControl,
    listener: Arc<dyn AssignmentListener>,
    /// To the commit between polls, from that moment on.
    answer: Option<(Instant, Result<(), EngineError>)>,
}

impl FakeClient {
    fn member<T>(&self, change: impl FnOnce(&mut Member) -> T) -> T {
        change(&mut self.control.cluster.state().members[self.control.member])
    }

    fn give(&self, partitions: &[i32]) {
        self.control.resume(partitions);
        let starts: BTreeMap<i32, Start> =
            self.listener.assigned(&self.control, partitions).into_iter().collect();
        let mut state = self.control.cluster.state();
        let state = &mut *state;
        let member = &mut state.members[self.control.member];
        for partition in partitions {
            let log = &state.logs[usize::try_from(*partition).unwrap()];
            let position = match starts.get(partition) {
                Some(Start::At(offset)) => *offset,
                Some(Start::Earliest) => log.low,
                Some(Start::Latest) => log.high,
                None => state.committed.get(partition).copied().unwrap_or(log.high),
            };
            member.held.insert(*partition, position);
        }
        state.rebalance();
        self.control.cluster.changed.notify_all();
    }

    fn take(&self, partitions: &[i32], lost: bool) {
        self.listener.revoked(&self.control, partitions, lost);
        self.member(|member| member.held.retain(|p, _| !partitions.contains(p)));
        self.control.cluster.state().rebalance();
        self.control.cluster.changed.notify_all();
    }
}

impl ConsumerControl for FakeClient {
    fn pause(&self, partitions: &[i32]) {
        self.control.pause(partitions);
    }
    fn resume(&self, partitions: &[i32]) {
        self.control.resume(partitions);
    }
    fn seek(&self, partition: i32, start: Start, limit: Duration) -> Result<(), EngineError> {
        self.control.seek(partition, start, limit)
    }
    fn commit(&self, positions: &[Position]) -> Result<(), EngineError> {
        self.control.commit(positions)
    }
    fn committed(&self, partitions: &[i32], limit: Duration) -> Result<Vec<Position>, EngineError> {
        self.control.committed(partitions, limit)
    }
    fn log_ranges(&self, partitions: &[i32], limit: Duration) -> Result<Vec<(i32, LogRange)>, EngineError> {
        self.control.log_ranges(partitions, limit)
    }
    fn offsets_for_times(
        &self,
        partitions: &[i32],
        timestamp_ms: i64,
        limit: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, EngineError> {
        self.control.offsets_for_times(partitions, timestamp_ms, limit)
    }
}

impl ConsumerClient for FakeClient {
    fn poll(&mut self, limit: Duration, max: usize, into: &mut Vec<Records>) -> Result<(), EngineError> {
        let until = Instant::now() + limit;
        let event = self.member(|member| {
            member.polls += 1;
            member.events.pop_front()
        });
        match event {
            Some(Event::Assign(partitions)) => {
                self.give(&partitions);
                let mut state = self.control.cluster.state();
                let leftovers = std::mem::take(&mut state.leftovers);
                let leftovers: Vec<_> =
                    leftovers.into_iter().map(|offset| Stored::new(offset, offset.to_string())).collect();
                into.extend(records(0, &leftovers));
                if state.deliver_at_assignment {
                    state.fetch(self.control.member, max, into);
                }
                return Ok(());
            }
            Some(Event::Revoke(partitions)) => {
                self.take(&partitions, false);
                return Ok(());
            }
            Some(Event::Lose(partitions)) => {
                self.take(&partitions, true);
                return Ok(());
            }
            Some(Event::Fail(error)) => return Err(error),
            Some(Event::Panic) => panic!("ordered by the test"),
            None => {}
        }
        let mut state = self.control.cluster.state();
        state.fetch(self.control.member, max, into);
        while into.is_empty() && state.members[self.control.member].events.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.control.cluster.changed.wait_timeout(state, left).unwrap().0;
            state.fetch(self.control.member, max, into);
        }
        Ok(())
    }

    fn assign(&mut self, partitions: &[i32]) -> Result<(), EngineError> {
        self.give(partitions);
        Ok(())
    }

    fn partitions(&self, _: Duration) -> Result<i32, EngineError> {
        self.control.cluster.state().questions += 1;
        self.control.answer(|state| Ok(i32::try_from(state.logs.len()).unwrap()))
    }

    fn begin_commit(&mut self, positions: &[Position]) -> Result<(), EngineError> {
        let mut state = self.control.cluster.state();
        self.answer = match (state.mute, state.down) {
            (true, _) => None,
            (_, true) => Some((Instant::now() + state.slow, Err(failure(FailureKind::Unreachable)))),
            _ => Some((Instant::now(), state.commit(positions))),
        };
        Ok(())
    }

    fn poll_commit(&mut self) -> Option<Result<(), EngineError>> {
        self.answer.take_if(|(at, _)| Instant::now() >= *at).map(|(_, answer)| answer)
    }

    fn close(self: Box<Self>) {
        let held: Vec<i32> = self.member(|member| {
            member.left = true;
            member.held.keys().copied().collect()
        });
        if !held.is_empty() {
            self.take(&held, false);
        }
        let slow = self.control.cluster.state().slow;
        std::thread::sleep(slow);
    }
}

impl Drop for FakeClient {
    fn drop(&mut self) {
        let mut state = self.control.cluster.state();
        let member = &mut state.members[self.control.member];
        member.left = true;
        member.held.clear();
        state.rebalance();
        drop(state);
        self.control.cluster.changed.notify_all();
    }
}
