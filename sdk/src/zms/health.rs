//! Whether a handle works.

use std::time::SystemTime;

use serde::Serialize;
use zms_core::name::{ClusterName, GroupName, TopicName};

use crate::{consumer::Health, serial};

/// Whether a handle works: its subscriptions, its sends, its registry.
///
/// It can be serialised; names are those of the fields in `camelCase`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ZmsHealth {
    /// Since when the registry is away, if it is; as JSON `registryAwaySinceMs`, since the Unix epoch. Messages flow all the
    /// same.
    #[serde(rename = "registryAwaySinceMs", serialize_with = "serial::some_time")]
    pub registry_away: Option<SystemTime>,
    /// The subscriptions that run, and those of groups that have ended by themselves and were not begun again.
    pub subscriptions: Vec<SubscriptionHealth>,
    /// Topics to which nothing can be sent, because no client can be opened for their cluster.
    pub unusable: Vec<UnusableTopic>,
}

/// One subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionHealth {
    /// Its group, or the topic that it reads without one.
    #[serde(serialize_with = "serial::text")]
    pub group: GroupName,
    /// How it is.
    pub health: Health,
}

/// A topic to which nothing can be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnusableTopic {
    /// The topic.
    #[serde(serialize_with = "serial::text")]
    pub topic: TopicName,
    /// Its cluster.
    #[serde(serialize_with = "serial::text")]
    pub cluster: ClusterName,
    /// Why no client can be opened.
    pub reason: String,
}

impl ZmsHealth {
    /// For a readiness probe: all subscriptions handle messages, and all topics in use can be sent to.
    pub fn is_ready(&self) -> bool {
        self.unusable.is_empty() && self.subscriptions.iter().all(|one| one.health.is_ready())
    }

    /// For a liveness probe: no subscription has ended by itself. Everything else mends itself, or would fail in the same
    /// way after a restart.
    pub fn is_alive(&self) -> bool {
        self.subscriptions.iter().all(|one| one.health.is_alive())
    }
}
