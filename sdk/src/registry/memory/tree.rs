//! The nodes of an in-memory registry: versions, total order, all-or-nothing writes. Knows no sessions but their ids.

use std::collections::BTreeMap;

use bytes::Bytes;
use zms_core::route::ChangeId;

use crate::registry::{
    path::{check_data, check_path, check_version, parent},
    port::{Node, Op, RegistryError},
};

/// Whose ephemeral nodes are whose.
pub(super) type SessionId = u64;

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) node: Node,
    /// The session that an ephemeral node lives with.
    pub(super) owner: Option<SessionId>,
}

/// Paths that a write touched, for the watches on them.
pub(super) type Touched = Vec<String>;

/// The root always exists and is not stored.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Entry>,
    last_change: ChangeId,
}

impl Tree {
    pub(super) fn get(&self, path: &str) -> Option<&Entry> {
        self.nodes.get(path)
    }

    pub(super) fn children(&self, path: &str) -> Option<Vec<String>> {
        if path != "/" && !self.nodes.contains_key(path) {
            return None;
        }
        let prefix = child_prefix(path);
        let names = self.below(&prefix).filter_map(|child| child.strip_prefix(prefix.as_str()));
        Some(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    /// Creates a persistent node and the parents that it lacks.
    pub(super) fn create_with_parents(&mut self, path: &str, data: Bytes) -> Result<Touched, RegistryError> {
        self.all_or_nothing(|tree, touched| {
            check_path(path)?;
            for (end, _) in path.match_indices('/').skip(1) {
                if !tree.nodes.contains_key(&path[..end]) {
                    tree.create(&path[..end], Bytes::new(), None, touched)?;
                }
            }
            tree.create(path, data, None, touched)
        })
    }

    pub(super) fn commit(&mut self, ops: &[Op]) -> Result<Touched, RegistryError> {
        self.all_or_nothing(|tree, touched| ops.iter().try_for_each(|op| tree.apply(op, touched)))
    }

    /// See [`crate::registry::port::Registry::register`].
    pub(super) fn register(
        &mut self,
        path: &str,
        data: Bytes,
        owner: SessionId,
    ) -> Result<Touched, RegistryError> {
        let Some(entry) = self.nodes.get(path) else {
            return self.all_or_nothing(|tree, touched| tree.create(path, data, Some(owner), touched));
        };
        let version = entry.node.version;
        match entry.owner {
            None => Err(RegistryError::Exists { path: path.to_owned() }),
            Some(found) if found == owner && entry.node.data == data => Ok(Touched::new()),
            Some(found) if found == owner => {
                self.all_or_nothing(|tree, touched| tree.set(path, data, version, touched))
            }
            Some(_) => self.all_or_nothing(|tree, touched| {
                tree.delete(path, version, touched)?;
                tree.create(path, data, Some(owner), touched)
            }),
        }
    }

    /// Removes an ephemeral node, whoever owns it; one that is gone is fine.
    pub(super) fn unregister(&mut self, path: &str) -> Result<Touched, RegistryError> {
        match self.nodes.get(path).map(|entry| (entry.owner, entry.node.version)) {
            None => Ok(Touched::new()),
            Some((None, _)) => Err(RegistryError::Invalid { reason: format!("{path} is not ephemeral") }),
            Some((Some(_), version)) => {
                self.all_or_nothing(|tree, touched| tree.delete(path, version, touched))
            }
        }
    }

    /// Removes the ephemeral nodes of a session.
    pub(super) fn end_session(&mut self, owner: SessionId) -> Touched {
        self.last_change.0 += 1;
        let gone: Touched = self
            .nodes
            .iter()
            .filter(|(_, entry)| entry.owner == Some(owner))
            .map(|(path, _)| path.clone())
            .collect();
        for path in &gone {
            self.nodes.remove(path);
        }
        gone
    }

    /// One transaction: a copy is changed and takes the tree's place only when every step succeeded.
    fn all_or_nothing(
        &mut self,
        change: impl FnOnce(&mut Self, &mut Touched) -> Result<(), RegistryError>,
    ) -> Result<Touched, RegistryError> {
        let mut copy = self.clone();
        copy.last_change.0 += 1;
        let mut touched = Touched::new();
        change(&mut copy, &mut touched)?;
        *self = copy;
        Ok(touched)
    }

    fn apply(&mut self, op: &Op, touched: &mut Touched) -> Result<(), RegistryError> {
        match op {
            Op::Check { path, version } => self.expect(path, *version).map(drop),
            Op::Create { path, data } => self.create(path, data.clone(), None, touched),
            Op::Set { path, data, version } => self.set(path, data.clone(), *version, touched),
            Op::Delete { path, version } => self.delete(path, *version, touched),
        }
    }

    fn create(
        &mut self,
        path: &str,
        data: Bytes,
        owner: Option<SessionId>,
        touched: &mut Touched,
    ) -> Result<(), RegistryError> {
        check_path(path)?;
        check_data(path, &data)?;
        if path == "/" || self.nodes.contains_key(path) {
            return Err(RegistryError::Exists { path: path.to_owned() });
        }
        if let Some(parent) = parent(path) {
            let Some(above) = self.nodes.get(parent) else {
                return Err(RegistryError::Missing { path: parent.to_owned() });
            };
            if above.owner.is_some() {
                let reason = format!("{parent} is ephemeral and can have no children");
                return Err(RegistryError::Invalid { reason });
            }
        }
        let node = Node { data, version: 0, changed: self.last_change };
        self.nodes.insert(path.to_owned(), Entry { node, owner });
        touched.push(path.to_owned());
        Ok(())
    }

    fn set(
        &mut self,
        path: &str,
        data: Bytes,
        version: i32,
        touched: &mut Touched,
    ) -> Result<(), RegistryError> {
        check_data(path, &data)?;
        let changed = self.last_change;
        let entry = self.expect(path, version)?;
        entry.node = Node { data, version: version + 1, changed };
        touched.push(path.to_owned());
        Ok(())
    }

    fn delete(&mut self, path: &str, version: i32, touched: &mut Touched) -> Result<(), RegistryError> {
        self.expect(path, version)?;
        if self.below(&child_prefix(path)).next().is_some() {
            return Err(RegistryError::NotEmpty { path: path.to_owned() });
        }
        self.nodes.remove(path);
        touched.push(path.to_owned());
        Ok(())
    }

    fn expect(&mut self, path: &str, version: i32) -> Result<&mut Entry, RegistryError> {
        check_path(path)?;
        check_version(path, version)?;
        match self.nodes.get_mut(path) {
            None => Err(RegistryError::Missing { path: path.to_owned() }),
            Some(entry) if entry.node.version == version => Ok(entry),
            Some(_) => Err(RegistryError::Conflict { path: path.to_owned() }),
        }
    }

    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.nodes
            .range(prefix.to_owned()..)
            .map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(prefix))
    }
}

fn child_prefix(path: &str) -> String {
    if path == "/" { path.to_owned() } else { format!("{path}/") }
}
