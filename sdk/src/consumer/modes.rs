//! What is said about the mode before a subscription begins.

use super::{ConsumeFrom, Subscriber, tags::Tags};

/// How a group shares its partitions among its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssignmentStrategy {
    /// Members keep what they have; only what moves stands still during a rebalance.
    CooperativeSticky,
    /// Each member gets a range of numbers. All partitions of the group stand still during a rebalance.
    Range,
    /// Partitions are dealt out in turn. All partitions of the group stand still during a rebalance.
    RoundRobin,
}

impl AssignmentStrategy {
    fn as_str(self) -> &'static str {
        match self {
            Self::CooperativeSticky => "cooperative-sticky",
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
        }
    }
}

impl Subscriber {
    /// Where a group begins on a partition that it has no position on. Wins over the registry, whose default is the
    /// oldest message. A group that has moved begins on its new cluster at the oldest message, whatever is said here.
    #[must_use]
    pub fn consume_from(mut self, from: ConsumeFrom) -> Self {
        self.options.mode.consume_from = Some(from);
        self
    }

    /// A name of this instance of the service that is its own and stays the same when it starts again, such as a
    /// `StatefulSet`'s pod name. Default none.
    ///
    /// Of a group it is Kafka's `group.instance.id`: an instance that starts again within `session.timeout.ms` gets its
    /// partitions back without a rebalance. In turn, one that is shut down does not leave the group: its partitions wait
    /// for it until that timeout has passed. Of two instances with the same id the later one gets the place, and the
    /// other's subscription ends with [`Fault::Fenced`](super::Fault::Fenced).
    ///
    /// Of a broadcast group it is the name that its positions are kept under, `<group>.<id>`.
    #[must_use]
    pub fn instance_id(mut self, id: impl Into<String>) -> Self {
        self.options.mode.instance = Some(id.into());
        self
    }

    /// How the group shares its partitions, `partition.assignment.strategy`; the same for all its members. Wins over the
    /// registry. Default [`AssignmentStrategy::CooperativeSticky`]. Not together with `group.protocol=consumer`, where
    /// the broker decides.
    #[must_use]
    pub fn assignment(self, strategy: AssignmentStrategy) -> Self {
        self.property("partition.assignment.strategy", strategy.as_str())
    }

    /// Handles every message of the topic here, as every other instance does, also when the registry does not say that
    /// the group is a broadcast group. Default: as the registry says, also when it changes.
    ///
    /// Such a subscription is no member of the group. New partitions are found within about half a minute and begin
    /// where [`consume_from`](Self::consume_from) or the registry says. With an [`instance_id`](Self::instance_id)
    /// positions are kept at the broker under the name `<group>.<instance id>`, for which the instance needs the rights.
    /// Without one nothing is kept: each start begins where `consume_from` or the registry says.
    ///
    /// When the group moves to another cluster, this instance handles the old one to its end and begins at the new one's
    /// oldest message.
    #[must_use]
    pub fn broadcast(mut self) -> Self {
        self.options.mode.broadcast = true;
        self
    }

    /// Handles only messages whose tag is among these; others are passed over, counted as
    /// [`filtered`](super::Counts::filtered) and done. None named, the default: all messages are handled.
    ///
    /// A message's tag is the value of its last header `TAGS`; [`Message::tag`](crate::Message::tag) sets it. A message
    /// without one is not handled.
    #[must_use]
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.mode.tags = Tags::new(tags);
        self
    }

    /// Reads partitions of the topic by itself, without the group: see [`Zms::standalone`](crate::Zms::standalone), which
    /// does not need one in the first place.
    #[must_use]
    pub fn standalone(mut self) -> Self {
        self.options.mode.standalone = true;
        self
    }

    /// Of a standalone subscription: the partitions to read. Default all, new ones too.
    #[must_use]
    pub fn partitions(mut self, partitions: impl IntoIterator<Item = i32>) -> Self {
        self.options.mode.partitions = Some(partitions.into_iter().collect());
        self
    }

    /// Of a standalone subscription: has positions kept at the broker under this name, as if it were a group's. Nobody
    /// else may use it. Default: nothing is kept.
    #[must_use]
    pub fn positions_as(mut self, name: impl Into<String>) -> Self {
        self.options.mode.positions_as = Some(name.into());
        self
    }

    /// Of a standalone subscription that keeps its positions itself: where to begin on a cluster, as partitions with the
    /// offset of the next message to handle. Others begin as [`consume_from`](Self::consume_from) says; an offset outside
    /// the log is its nearest end.
    ///
    /// Offsets are another matter on each cluster, so keep them with [`Delivery::cluster`](super::Delivery::cluster), and
    /// call this once for each. When none is given for the cluster that the topic lies on but some for another, the topic
    /// has moved meanwhile: reading begins at the oldest message there, and what was left on the other cluster is not
    /// read.
    #[must_use]
    pub fn start_at(
        mut self,
        cluster: impl Into<String>,
        offsets: impl IntoIterator<Item = (i32, i64)>,
    ) -> Self {
        self.options.mode.start_at.entry(cluster.into()).or_default().extend(offsets);
        self
    }
}
