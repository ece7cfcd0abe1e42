//! Topics by name: found without a lock and without allocating.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use zms_core::name::TopicName;

use super::topic::Topic;

const SHARDS: usize = 16;

type Shard = HashMap<TopicName, Arc<Topic>>;

/// A map that readers see whole and writers copy, a shard at a time: topics are added once and looked up for ever.
pub(super) struct TopicMap {
    shards: [ArcSwap<Shard>; SHARDS],
    /// Taken by writers only, who may wait for one another.
    writing: Mutex<bool>,
}

impl TopicMap {
    pub(super) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| ArcSwap::default()), writing: Mutex::new(false) }
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.shard(name).load().get(name).cloned()
    }

    /// The topic, made if it is new.
    pub(super) fn find_or_add(&self, name: &TopicName, make: impl FnOnce() -> Topic) -> Arc<Topic> {
        if let Some(topic) = self.find(name.as_str()) {
            return topic;
        }
        let sealed = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(topic) = self.find(name.as_str()) {
            return topic;
        }
        let topic = Arc::new(make());
        if *sealed {
            topic.close();
        }
        let shard = self.shard(name.as_str());
        let mut copy = Shard::clone(&shard.load());
        copy.insert(name.clone(), topic.clone());
        shard.store(Arc::new(copy));
        topic
    }

    /// Closes all topics, and those that come later.
    pub(super) fn close(&self) {
        let mut sealed = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        *sealed = true;
        self.all().iter().for_each(|topic| topic.close());
    }

    pub(super) fn all(&self) -> Vec<Arc<Topic>> {
        self.shards.iter().flat_map(|shard| shard.load().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Names differ mostly at their end.
    fn shard(&self, name: &str) -> &ArcSwap<Shard> {
        let last = name.as_bytes().last().copied().map_or(0, usize::from);
        &self.shards[(last + name.len()) % SHARDS]
    }
}
