//! Topics in use: each is resolved once, by the first sender, and given back at the end.

use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::OnceCell;
use zms_core::name::TopicName;

use crate::{
    producer::{Producer, Producers},
    routing::{ResolveError, Router, TopicLease},
};

/// The topics that this handle sends to.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// The cell is cloned out and awaited outside the map's lock.
    leases: DashMap<TopicName, Arc<OnceCell<TopicLease>>>,
}

impl Topics {
    /// Resolves a topic, or waits for whoever does; the first one to ask again tries anew after a failure.
    pub(super) async fn open(
        &self,
        topic: &TopicName,
        router: &Arc<Router>,
        producers: &Arc<Producers>,
    ) -> Result<Producer, ResolveError> {
        let cell = Arc::clone(&self.leases.entry(topic.clone()).or_default());
        let resolved = cell.get_or_try_init(|| router.topic(topic, Arc::clone(producers) as _)).await;
        if let Err(error) = resolved {
            // Names that never resolve must not pile up; a success that came in between stays.
            self.leases.remove_if(topic, |_, cell| cell.get().is_none() && Arc::strong_count(cell) <= 2);
            return Err(error);
        }
        producers.lookup(topic.as_str()).ok_or(ResolveError::Closed)
    }

    /// Whether it is in use, or being resolved.
    pub(super) fn knows(&self, topic: &TopicName) -> bool {
        self.leases.contains_key(topic)
    }

    /// How many are in use.
    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }
}
