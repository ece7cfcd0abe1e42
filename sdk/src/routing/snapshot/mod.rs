//! The last-known-good registry data on disk, for a start while the registry is down.
//!
//! Holds raw nodes of adopted entries, so that a route from it comes about exactly as one from the registry does. Node
//! data only refers to secrets; the file is readable by its owner alone all the same.

mod file;
mod path;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::{Notify, OnceCell, watch};

pub(crate) use self::path::{default_path, path_in};
use self::{
    file::{Contents, Loaded},
    path::fingerprint,
};
use crate::registry::port::Node;

/// Nodes by path; `None` says that there certainly is no such node.
pub(super) type Nodes = BTreeMap<String, Option<Node>>;

/// Keeps what was adopted and writes it, debounced, off the async threads.
#[derive(Debug)]
pub(super) struct Snapshot {
    path: Option<PathBuf>,
    registry: String,
    state: Mutex<State>,
    /// What the file held when it was first needed.
    loaded: OnceCell<Contents>,
    /// One writer at a time; held across the write, on blocking threads only.
    writing: Mutex<()>,
    dirty: Notify,
    written_at_ms: AtomicU64,
    failures: AtomicU64,
    announced: AtomicBool,
}

/// Short lock: nothing is awaited and no file is touched under it.
#[derive(Debug, Default)]
struct State {
    adopted: Nodes,
    /// Of it, what is not on disk yet. Nothing else is written: what this process does not use any more, another one
    /// may know better.
    unwritten: Nodes,
    complained: bool,
}

impl Snapshot {
    /// A snapshot at `path` of the registry that `connect` leads to; `None`: off.
    pub(super) fn new(path: Option<PathBuf>, connect: &str) -> Self {
        Self {
            path,
            registry: fingerprint(connect),
            state: Mutex::default(),
            loaded: OnceCell::new(),
            writing: Mutex::default(),
            dirty: Notify::new(),
            written_at_ms: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            announced: AtomicBool::new(false),
        }
    }

    /// Takes over nodes that were adopted together, in place of earlier ones.
    pub(super) fn put(&self, nodes: &Nodes) {
        if self.path.is_none() {
            return;
        }
        let mut state = self.state();
        for (path, node) in nodes {
            if state.adopted.get(path) != Some(node) {
                state.adopted.insert(path.clone(), node.clone());
                state.unwritten.insert(path.clone(), node.clone());
            }
        }
        if !state.unwritten.is_empty() {
            self.dirty.notify_one();
        }
    }

    /// Everything known without the registry. Reads the file once.
    pub(super) async fn saved(&self) -> Saved<'_> {
        Saved { snapshot: self, contents: self.loaded.get_or_init(|| self.load()).await }
    }

    async fn load(&self) -> Contents {
        let Some(path) = self.path.clone() else { return Contents::default() };
        let registry = self.registry.clone();
        let loaded = tokio::task::spawn_blocking(move || file::load(&path, &registry)).await;
        let reason = match loaded {
            Ok(Loaded::Contents(contents)) => return contents,
            Ok(Loaded::Absent) => return Contents::default(),
            Ok(Loaded::Ignored(reason)) => reason,
            Err(error) => error.to_string(),
        };
        tracing::warn!(path = ?self.path, reason, "the registry snapshot is ignored");
        Contents::default()
    }

    /// Writes whenever something new was adopted, `debounce` later; ends when `stop` does.
    pub(super) async fn write_until(self: Arc<Self>, debounce: Duration, mut stop: watch::Receiver<bool>) {
        let work = async {
            loop {
                self.dirty.notified().await;
                tokio::time::sleep(debounce).await;
                if !self.flush().await {
                    tokio::time::sleep(RETRY_AFTER).await;
                    self.dirty.notify_one();
                }
            }
        };
        tokio::select! {
            () = work => {}
            _ = stop.wait_for(|stopped| *stopped) => {}
        }
    }

    /// Writes what is not on disk yet. False when that failed: it stays to be written. A dropped future does not stop
    /// a write that has begun.
    pub(super) async fn flush(self: &Arc<Self>) -> bool {
        let Some(path) = self.path.clone() else { return true };
        let writing = Arc::clone(self);
        let write = tokio::task::spawn_blocking(move || writing.flush_blocking(&path));
        write.await.unwrap_or(false)
    }

    fn flush_blocking(&self, path: &Path) -> bool {
        let _one_writer = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (adopted, news) = {
            let mut state = self.state();
            if state.unwritten.is_empty() {
                return true;
            }
            (state.adopted.clone(), std::mem::take(&mut state.unwritten))
        };
        let now = now_ms();
        let saved = file::save(path, &self.registry, now, file::Change { adopted: &adopted, news: &news });
        match saved {
            Ok(()) => {
                self.written_at_ms.store(now, Ordering::Relaxed);
                self.state().complained = false;
                true
            }
            Err(error) => {
                self.failed(news, &error);
                false
            }
        }
    }

    /// When it was written last, by this process or, as read at its start, by another; in milliseconds since the Unix
    /// epoch. `None` while there is none, or it was not needed yet.
    pub(super) fn written_at_ms(&self) -> Option<u64> {
        let found = self.loaded.get().map_or(0, |contents| contents.written_at_ms);
        Some(self.written_at_ms.load(Ordering::Relaxed).max(found)).filter(|at| *at > 0)
    }

    /// Number of writes that failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn failed(&self, news: Nodes, error: &io::Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        for (path, node) in news {
            state.unwritten.entry(path).or_insert(node);
        }
        if !std::mem::replace(&mut state.complained, true) {
            tracing::warn!(path = ?self.path, %error, "the registry snapshot cannot be written; trying again");
        }
    }

    /// A panic elsewhere leaves the maps usable: each change is one call.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known without the registry: the file, and what this process adopted since.
#[derive(Debug)]
pub(super) struct Saved<'a> {
    snapshot: &'a Snapshot,
    contents: &'a Contents,
}

impl Saved<'_> {
    /// The later of what the file and this process know.
    pub(super) fn node(&self, path: &str) -> Option<Node> {
        let in_file = self.contents.nodes.get(path);
        match self.snapshot.state().adopted.get(path) {
            None => in_file.cloned(),
            Some(None) => None,
            Some(Some(adopted)) => {
                let newer = in_file.filter(|node| node.changed > adopted.changed);
                Some(newer.unwrap_or(adopted).clone())
            }
        }
    }

    /// When it was written last, in milliseconds since the Unix epoch; 0: never.
    pub(super) fn written_at_ms(&self) -> u64 {
        self.snapshot.written_at_ms().unwrap_or_default()
    }

    /// Says, once, that it is used, and how old it is.
    pub(super) fn announce(&self) {
        if !self.snapshot.announced.swap(true, Ordering::Relaxed) {
            let age = Duration::from_millis(now_ms().saturating_sub(self.written_at_ms()));
            tracing::warn!(path = ?self.snapshot.path, ?age, "the registry does not answer; using its snapshot on disk");
        }
    }
}

/// Milliseconds since the Unix epoch; 0 on a clock before it.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

const RETRY_AFTER: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use zms_core::route::ChangeId;

    use super::*;

    fn at(path: &str, changed: i64) -> Nodes {
        let data = format!("state {changed}").into();
        Nodes::from([(path.to_owned(), Some(Node { data, version: 0, changed: ChangeId(changed) }))])
    }

    fn open(directory: &tempfile::TempDir) -> Arc<Snapshot> {
        Arc::new(Snapshot::new(Some(directory.path().join("state").join("snapshot.json")), "zk:2181"))
    }

    async fn change_known(snapshot: &Snapshot, path: &str) -> Option<i64> {
        Some(snapshot.saved().await.node(path)?.changed.0)
    }

    #[tokio::test]
    async fn what_was_adopted_is_found_again_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(&dir);
        first.put(&at("/t/x", 1));
        assert!(first.flush().await);
        let second = open(&dir);
        let saved = second.saved().await;
        assert_eq!(saved.node("/t/x"), at("/t/x", 1).remove("/t/x").unwrap());
        assert_eq!(Some(saved.written_at_ms()), first.written_at_ms());
        assert_eq!(second.written_at_ms(), first.written_at_ms(), "shown before the second process writes");
    }

    #[tokio::test]
    async fn processes_with_one_file_keep_each_others_entries() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (open(&dir), open(&dir));
        one.put(&at("/t/x", 1));
        assert!(one.flush().await);
        other.put(&at("/t/y", 2));
        assert!(other.flush().await);
        assert_eq!(change_known(&open(&dir), "/t/x").await, Some(1));

        // `one` no longer uses x; what it once knew of it must not come back over what `other` knows.
        other.put(&at("/t/x", 3));
        assert!(other.flush().await);
        one.put(&at("/t/z", 4));
        assert!(one.flush().await);
        assert_eq!(change_known(&open(&dir), "/t/x").await, Some(3));
        assert_eq!(change_known(&one, "/t/x").await, Some(3));
    }

    #[tokio::test]
    async fn a_registry_set_up_anew_replaces_what_was_known_of_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let before = open(&dir);
        before.put(&at("/t/x", 9000));
        assert!(before.flush().await);
        let after = open(&dir);
        after.put(&at("/t/x", 2));
        assert!(after.flush().await);
        assert_eq!(change_known(&open(&dir), "/t/x").await, Some(2));
    }

    #[tokio::test]
    async fn a_node_known_to_be_gone_is_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = open(&dir);
        snapshot.put(&at("/m/x", 1));
        assert!(snapshot.flush().await);
        snapshot.put(&Nodes::from([("/m/x".to_owned(), None)]));
        assert_eq!(change_known(&snapshot, "/m/x").await, None);
        assert!(snapshot.flush().await);
        assert_eq!(change_known(&open(&dir), "/m/x").await, None);
    }

    #[tokio::test]
    async fn a_file_that_was_deleted_is_written_whole() {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = open(&dir);
        snapshot.put(&at("/t/x", 1));
        assert!(snapshot.flush().await);
        std::fs::remove_dir_all(dir.path().join("state")).unwrap();
        snapshot.put(&at("/t/y", 2));
        assert!(snapshot.flush().await);
        assert_eq!(change_known(&open(&dir), "/t/x").await, Some(1));
    }

    #[tokio::test]
    async fn a_failed_write_is_counted_and_stays_to_be_done() {
        let dir = tempfile::tempdir().unwrap();
        let in_the_way = dir.path().join("state");
        std::fs::write(&in_the_way, "not a directory").unwrap();
        let snapshot = open(&dir);
        snapshot.put(&at("/t/x", 1));
        assert!(!snapshot.flush().await);
        assert_eq!(snapshot.failures(), 1);
        std::fs::remove_file(&in_the_way).unwrap();
        assert!(snapshot.flush().await);
        assert_eq!(change_known(&open(&dir), "/t/x").await, Some(1));
    }

    #[tokio::test]
    async fn switched_off_it_neither_keeps_nor_knows_anything() {
        let snapshot = Arc::new(Snapshot::new(None, "zk:2181"));
        snapshot.put(&at("/t/x", 1));
        assert!(snapshot.flush().await);
        assert_eq!(change_known(&snapshot, "/t/x").await, None);
    }
}
