//! What an entry has adopted, and whether something newly read may take its place.

use std::collections::BTreeMap;

use zms_core::route::ChangeId;

use super::{
    refusal::{Complaint, Refusal},
    route::{Resolution, Route},
};
use crate::registry::port::Node;

/// The adopted route of one entry, and the nodes that it rests on.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    route: Option<Route>,
    /// By path, the latest state adopted. Kept also for clusters not used any more: coming back to one must not bring
    /// back an older description.
    adopted: BTreeMap<String, Stamp>,
    /// A move of the topic is running.
    moving: bool,
    complaint: Option<Complaint>,
}

/// A node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    changed: ChangeId,
    version: i32,
}

/// What to do with a resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Push it, then [`Adoption::adopted`].
    New,
    /// It says what is adopted already: only [`Adoption::adopted`].
    Same,
    /// A node is older than what was adopted. Keep what there is.
    Older(Complaint),
}

impl Adoption {
    /// Compares node by node: a newer cluster node must not hide an older topic node.
    pub(super) fn judge(&self, resolution: &Resolution) -> Verdict {
        for (path, node) in &resolution.nodes {
            let Some(adopted) = self.adopted.get(path) else { continue };
            let changed = node.as_ref().map(|node| node.changed);
            // The one node that need not exist is the migration record, and while a move runs nobody deletes it.
            if changed.map_or(self.moving, |changed| changed < adopted.changed) {
                let refusal = Refusal::Older { path: path.clone() };
                return Verdict::Older(Complaint { refusal, changed });
            }
        }
        let same = self.route.as_ref().is_some_and(|route| route.says_the_same(&resolution.route));
        if same { Verdict::Same } else { Verdict::New }
    }

    /// Whether the node at `path` is another one than that which was adopted: a change without a higher version.
    pub(super) fn was_created_anew(&self, resolution: &Resolution, path: &str) -> bool {
        let now = resolution.nodes.get(path).and_then(Option::as_ref);
        let (Some(now), Some(adopted)) = (now, self.adopted.get(path)) else { return false };
        now.changed != adopted.changed && now.version <= adopted.version
    }

    /// The node at `path` was seen to be another one.
    pub(super) fn forget_version(&mut self, path: &str) {
        if let Some(adopted) = self.adopted.get_mut(path) {
            adopted.version = -1;
        }
    }

    /// The resolution is in force.
    pub(super) fn adopted(&mut self, resolution: &Resolution) {
        let stamp = |node: &Node| Stamp { changed: node.changed, version: node.version };
        let nodes = resolution.nodes.iter();
        self.adopted.extend(nodes.filter_map(|(path, node)| Some((path.clone(), stamp(node.as_ref()?)))));
        self.route = Some(resolution.route.clone());
        self.moving = resolution.moving;
        self.complaint = None;
    }

    /// Nothing was adopted yet.
    pub(super) fn is_empty(&self) -> bool {
        self.route.is_none()
    }

    /// Notes a complaint. True when it is not the one noted last: worth a line in the log.
    pub(super) fn complain(&mut self, complaint: &Complaint) -> bool {
        let is_news = self.complaint.as_ref() != Some(complaint);
        if is_news {
            self.complaint = Some(complaint.clone());
        }
        is_news
    }
}
