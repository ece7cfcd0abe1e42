//! Which entries use which registry nodes, so that an event finds the entries it concerns.

use std::collections::{BTreeMap, BTreeSet};

/// Number of an entry, never used twice in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EntryId(pub(super) u64);

/// Paths and the entries that use them, both ways.
#[derive(Debug, Default)]
pub(super) struct Interests {
    users: BTreeMap<String, BTreeSet<EntryId>>,
    paths: BTreeMap<EntryId, BTreeSet<String>>,
}

impl Interests {
    /// `id` uses `path`. Must be called before the watch is armed: an event that finds nobody interested is dropped.
    pub(super) fn add(&mut self, id: EntryId, path: &str) {
        if self.paths.entry(id).or_default().insert(path.to_owned()) {
            self.users.entry(path.to_owned()).or_default().insert(id);
        }
    }

    /// `id` uses these paths and no others any more.
    pub(super) fn retain(&mut self, id: EntryId, used: &BTreeSet<String>) {
        let Some(paths) = self.paths.get_mut(&id) else { return };
        let dropped: Vec<String> = paths.difference(used).cloned().collect();
        paths.retain(|path| used.contains(path));
        for path in dropped {
            self.forget(id, &path);
        }
    }

    /// `id` uses nothing any more.
    pub(super) fn remove(&mut self, id: EntryId) {
        for path in self.paths.remove(&id).unwrap_or_default() {
            self.forget(id, &path);
        }
    }

    /// The entries that use `path`.
    pub(super) fn users(&self, path: &str) -> impl Iterator<Item = EntryId> {
        self.users.get(path).into_iter().flatten().copied()
    }

    fn forget(&mut self, id: EntryId, path: &str) {
        if let Some(users) = self.users.get_mut(path) {
            users.remove(&id);
            if users.is_empty() {
                self.users.remove(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(interests: &Interests, path: &str) -> Vec<u64> {
        interests.users(path).map(|id| id.0).collect()
    }

    #[test]
    fn a_path_is_known_as_long_as_one_entry_uses_it() {
        let mut interests = Interests::default();
        interests.add(EntryId(1), "/c/a");
        interests.add(EntryId(2), "/c/a");
        interests.add(EntryId(1), "/t/x");
        assert_eq!(users(&interests, "/c/a"), [1, 2]);

        interests.retain(EntryId(1), &BTreeSet::from(["/t/x".to_owned()]));
        assert_eq!(users(&interests, "/c/a"), [2]);
        assert_eq!(users(&interests, "/t/x"), [1]);

        interests.remove(EntryId(1));
        interests.remove(EntryId(2));
        interests.retain(EntryId(2), &BTreeSet::new());
        assert!(interests.users.is_empty() && interests.paths.is_empty());
    }
}
