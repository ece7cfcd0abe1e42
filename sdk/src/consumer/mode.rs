//! How a subscription comes by its partitions, and where its positions are kept.

use std::collections::{BTreeMap, BTreeSet};

use zms_core::{
    name::{ClusterName, GroupName},
    route::{ConsumeFrom, GroupRoute},
};

use super::{ledger::Ledgers, tags::Tags};
use crate::engine::port::{Membership, Position};

/// What a subscription was told about it; the setters with their documentation are on
/// [`Subscriber`](super::Subscriber).
#[derive(Debug, Clone, Default)]
pub(super) struct ModeOptions {
    pub(super) broadcast: bool,
    pub(super) standalone: bool,
    /// Of a standalone subscription; `None`: all that there are.
    pub(super) partitions: Option<BTreeSet<i32>>,
    /// Of a standalone subscription: the name under which positions are kept at the broker.
    pub(super) positions_as: Option<String>,
    /// Of a standalone subscription, by cluster.
    pub(super) start_at: BTreeMap<String, BTreeMap<i32, i64>>,
    pub(super) instance: Option<String>,
    /// Wins over the registry.
    pub(super) consume_from: Option<ConsumeFrom>,
    pub(super) tags: Option<Tags>,
}

/// How it is done on one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// As a member of the group.
    Member,
    /// By itself.
    Alone(Alone),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alone {
    /// `None`: all that there are.
    pub(super) partitions: Option<BTreeSet<i32>>,
    /// The name under which positions are kept at the broker; `None`: they are kept in this process.
    pub(super) positions: Option<GroupName>,
}

impl Mode {
    /// As the options and the group's present route say.
    pub(super) fn of(options: &ModeOptions, route: &GroupRoute) -> Result<Self, String> {
        if options.standalone {
            let positions = options.positions_as.as_ref().map(GroupName::new).transpose();
            let positions = positions.map_err(|error| format!("positions_as: {error}"))?;
            return Ok(Self::Alone(Alone { partitions: options.partitions.clone(), positions }));
        }
        if options.broadcast || route.broadcast {
            return broadcast(options, &route.group).map(Self::Alone);
        }
        Ok(Self::Member)
    }

    pub(super) fn membership(&self) -> Membership {
        match self {
            Self::Member => Membership::Group,
            Self::Alone(_) => Membership::Alone,
        }
    }

    /// The name under which positions are committed. Without one the client still needs one to be opened with.
    pub(super) fn group<'a>(&'a self, route: &'a GroupRoute) -> &'a GroupName {
        match self {
            Self::Alone(Alone { positions: Some(positions), .. }) => positions,
            _ => &route.group,
        }
    }
}

fn broadcast(options: &ModeOptions, group: &GroupName) -> Result<Alone, String> {
    let named = options.instance.as_ref().map(|instance| GroupName::new(format!("{group}.{instance}")));
    let positions = named.transpose().map_err(|error| format!("instance_id: {error}"))?;
    Ok(Alone { partitions: None, positions })
}

impl ModeOptions {
    /// Whether all options fit one another.
    pub(super) fn check(&self, route: &GroupRoute) -> Result<(), String> {
        Mode::of(self, route)?;
        let for_standalone = [
            ("partitions", self.partitions.is_some()),
            ("positions_as", self.positions_as.is_some()),
            ("start_at", !self.start_at.is_empty()),
        ];
        let set = for_standalone.into_iter().find(|(_, set)| *set && !self.standalone);
        if let Some((option, _)) = set {
            return Err(format!(
                "{option} is for standalone subscriptions; a group's members are told by the group"
            ));
        }
        if self.standalone && self.broadcast {
            return Err("a standalone subscription has no group to broadcast to".to_owned());
        }
        if self.positions_as.is_some() && !self.start_at.is_empty() {
            return Err(
                "start_at and positions_as exclude one another: positions are kept here or at the broker"
                    .to_owned(),
            );
        }
        match self.partitions.as_ref().map(BTreeSet::first) {
            Some(None) => Err("partitions is empty; name some, or leave it out for all".to_owned()),
            Some(Some(first)) if *first < 0 => Err(format!("there is no partition {first}")),
            _ => Ok(()),
        }
    }

    /// Ledgers that begin with the positions given.
    pub(super) fn ledgers(&self) -> Result<Ledgers, String> {
        let ledgers = Ledgers::default();
        for (cluster, offsets) in &self.start_at {
            let cluster = ClusterName::new(cluster).map_err(|error| format!("start_at: {error}"))?;
            let position = |(&partition, &offset)| Position { partition, offset, metadata: String::new() };
            ledgers.of(&cluster).keep(offsets.iter().map(position));
        }
        Ok(ledgers)
    }

    /// The application has positions, but none on this cluster: its topic has moved here meanwhile.
    pub(super) fn comes_from_elsewhere(&self, cluster: &ClusterName) -> bool {
        !self.start_at.is_empty() && !self.start_at.contains_key(cluster.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::itinerary::tests::route;

    fn told(change: impl FnOnce(&mut ModeOptions)) -> ModeOptions {
        let mut options = ModeOptions::default();
        change(&mut options);
        options
    }

    #[test]
    fn the_registry_or_the_service_may_say_broadcast() {
        let mut route = GroupRoute::clone(&route("a", None, "h:1"));
        assert_eq!(Mode::of(&ModeOptions::default(), &route), Ok(Mode::Member));
        let broadcast = |positions| Mode::Alone(Alone { partitions: None, positions });
        assert_eq!(Mode::of(&told(|o| o.broadcast = true), &route), Ok(broadcast(None)));
        route.broadcast = true;
        assert_eq!(Mode::of(&ModeOptions::default(), &route), Ok(broadcast(None)));
        let named = told(|o| o.instance = Some("pod-1".to_owned()));
        let kept = GroupName::new("billing.pod-1").unwrap();
        assert_eq!(Mode::of(&named, &route), Ok(broadcast(Some(kept))));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let route = route("a", None, "h:1");
        let refused = |change: fn(&mut ModeOptions)| told(change).check(&route).unwrap_err();
        assert!(refused(|o| o.partitions = Some([0].into())).contains("standalone"));
        assert!(refused(|o| (o.standalone, o.broadcast) = (true, true)).contains("broadcast"));
        assert!(refused(|o| (o.standalone, o.partitions) = (true, Some([].into()))).contains("empty"));
        assert!(refused(|o| (o.standalone, o.partitions) = (true, Some([-1].into()))).contains("-1"));
        let both = |o: &mut ModeOptions| {
            (o.standalone, o.positions_as) = (true, Some("mine".to_owned()));
            o.start_at.insert("a".to_owned(), [(0, 1)].into());
        };
        assert!(refused(both).contains("exclude"));
        let slash = |o: &mut ModeOptions| (o.standalone, o.positions_as) = (true, Some("a/b".to_owned()));
        assert!(refused(slash).contains("positions_as"));
    }
}
