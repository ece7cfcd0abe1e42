//! From where a group is to where its route says it should be.

use std::{collections::VecDeque, sync::Arc};

use zms_core::route::{ClusterSpec, GroupRoute};

/// How a route relates to the one that a client was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The client serves it.
    Same,
    /// The same topic on the same cluster, but the client must be opened anew.
    Reopen,
    /// The topic has moved to another cluster.
    Moved,
    /// The group is bound to another topic.
    Rebound,
}

impl Relation {
    pub(super) fn of(here: &GroupRoute, there: &GroupRoute) -> Self {
        match (here.topic == there.topic, same_cluster(&here.cluster, &there.cluster)) {
            (false, _) => Self::Rebound,
            (true, false) => Self::Moved,
            (true, true) if same_client(here, there) => Self::Same,
            (true, true) => Self::Reopen,
        }
    }
}

/// Whether a client opened for one also serves the other.
fn same_client(here: &GroupRoute, there: &GroupRoute) -> bool {
    here.cluster.same_client(&there.cluster)
        && here.consumer == there.consumer
        && here.broadcast == there.broadcast
}

/// Kafka's own id tells clusters apart where both are known; a name can be given to another cluster.
fn same_cluster(here: &ClusterSpec, there: &ClusterSpec) -> bool {
    match (&here.kafka_id, &there.kafka_id) {
        (Some(here), Some(there)) => here == there,
        _ => here.name == there.name,
    }
}

/// Clusters still to visit, in order. When a route changes again during a move, messages may have been sent to each
/// cluster on the way, so that none is left out.
#[derive(Debug, Default)]
pub(super) struct Itinerary(VecDeque<Arc<GroupRoute>>);

impl Itinerary {
    /// Adds a destination; one that is on the way already becomes the last.
    pub(super) fn add(&mut self, route: Arc<GroupRoute>) {
        let known = self.0.iter().position(|stop| same_cluster(&stop.cluster, &route.cluster));
        self.0.truncate(known.unwrap_or(self.0.len()));
        self.0.push_back(route);
    }

    pub(super) fn next(&mut self) -> Option<Arc<GroupRoute>> {
        self.0.pop_front()
    }

    pub(super) fn next_if(&mut self, wanted: bool) -> Option<Arc<GroupRoute>> {
        wanted.then(|| self.next()).flatten()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use zms_core::{
        name::{ClusterName, GroupName, TopicName},
        route::{ChangeId, ConsumeFrom, Source},
    };

    use super::*;

    pub(in crate::consumer) fn route(
        cluster: &str,
        kafka_id: Option<&str>,
        bootstrap: &str,
    ) -> Arc<GroupRoute> {
        let cluster = ClusterSpec {
            name: ClusterName::new(cluster).unwrap(),
            bootstrap: bootstrap.to_owned(),
            kafka_id: kafka_id.map(str::to_owned),
            properties: std::collections::BTreeMap::new(),
            changed: ChangeId(1),
        };
        Arc::new(GroupRoute {
            group: GroupName::new("billing").unwrap(),
            topic: TopicName::new("orders").unwrap(),
            cluster: Arc::new(cluster),
            consume_from: ConsumeFrom::Earliest,
            broadcast: false,
            suspended: false,
            consumer: std::collections::BTreeMap::new(),
            changed: ChangeId(1),
            source: Source::Registry,
        })
    }

    #[test]
    fn a_cluster_is_known_by_its_id_before_its_name() {
        let here = route("a", Some("id-1"), "h:1");
        let relation = |there: Arc<GroupRoute>| Relation::of(&here, &there);
        assert_eq!(relation(route("a", Some("id-1"), "h:1")), Relation::Same);
        assert_eq!(relation(route("a", Some("id-1"), "h:2")), Relation::Reopen);
        assert_eq!(relation(route("renamed", Some("id-1"), "h:1")), Relation::Reopen);
        assert_eq!(relation(route("a", Some("id-2"), "h:1")), Relation::Moved);
        assert_eq!(relation(route("b", None, "h:1")), Relation::Moved);
        assert_eq!(relation(route("a", None, "h:1")), Relation::Reopen);
    }

    #[test]
    fn other_overrides_of_the_group_open_the_client_anew() {
        let here = route("a", None, "h:1");
        let mut there = GroupRoute::clone(&here);
        there.consumer.insert("sessionTimeout".to_owned(), "10s".to_owned());
        assert_eq!(Relation::of(&here, &there), Relation::Reopen);
    }

    #[test]
    fn clusters_on_the_way_are_visited_and_detours_dropped() {
        let mut itinerary = Itinerary::default();
        for cluster in ["b", "c", "d", "c"] {
            itinerary.add(route(cluster, None, "h:1"));
        }
        let visited: Vec<String> =
            std::iter::from_fn(|| itinerary.next()).map(|r| r.cluster.name.to_string()).collect();
        assert_eq!(visited, ["b", "c"]);
    }
}
