//! The last-known-good registry data on disk, for a start while the registry is down.
//!
//! Holds raw nodes of adopted entries, so that a route from it comes about exactly as one from the registry does. Node
//! data only refers to secrets; the file is readable by its owner alone all the same.

mod file;
mod path;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::{Notify, watch};

pub(crate) use self::path::default_path;
use self::{file::Loaded, path::fingerprint};
use crate::registry::port::Node;

/// Nodes by path; `None` says that there certainly is no such node.
pub(super) type Nodes = BTreeMap<String, Option<Node>>;

/// Keeps what was adopted and writes it, debounced, off the async threads.
#[derive(Debug)]
pub(super) struct Snapshot {
    path: Option<PathBuf>,
    registry: String,
    state: Mutex<State>,
    /// One writer at a time; held across the write.
    writing: tokio::sync::Mutex<()>,
    dirty: Notify,
    written_at_ms: AtomicU64,
    failures: AtomicU64,
}

/// Short lock: nothing is awaited and no file is touched under it.
#[derive(Debug, Default)]
struct State {
    adopted: Nodes,
    unwritten: bool,
    complained: bool,
}

/// What a snapshot knows, and since when.
#[derive(Debug, Clone, Default)]
pub(super) struct Saved {
    pub(super) written_at_ms: u64,
    pub(super) nodes: BTreeMap<String, Node>,
}

impl Snapshot {
    /// A snapshot at `path` of the registry that `connect` leads to; `None`: off.
    pub(super) fn new(path: Option<PathBuf>, connect: &str) -> Self {
        Self {
            path,
            registry: fingerprint(connect),
            state: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            dirty: Notify::new(),
            written_at_ms: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Takes over nodes that were adopted together, in place of earlier ones.
    pub(super) fn put(&self, nodes: &Nodes) {
        if self.path.is_none() {
            return;
        }
        let mut state = self.state();
        let news = nodes.iter().any(|(path, node)| state.adopted.get(path) != Some(node));
        if news {
            state.adopted.extend(nodes.iter().map(|(path, node)| (path.clone(), node.clone())));
            state.unwritten = true;
            self.dirty.notify_one();
        }
    }

    /// Everything known without the registry: the file, and over it what this process adopted.
    pub(super) async fn saved(&self) -> Option<Saved> {
        let path = self.path.clone()?;
        let registry = self.registry.clone();
        let loaded = tokio::task::spawn_blocking(move || {
            let loaded = file::load(&path, &registry);
            if let Loaded::Ignored(reason) = &loaded {
                tracing::warn!(path = %path.display(), reason, "the registry snapshot is ignored");
            }
            loaded
        });
        let mut saved = match loaded.await {
            Ok(Loaded::Saved(saved)) => saved,
            _ => Saved::default(),
        };
        file::overlay(&mut saved.nodes, &self.state().adopted);
        (!saved.nodes.is_empty()).then_some(saved)
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

    /// Writes what is not on disk yet. False when that failed: it stays to be written.
    pub(super) async fn flush(&self) -> bool {
        let Some(path) = self.path.clone() else { return true };
        let _one_writer = self.writing.lock().await;
        let nodes = {
            let mut state = self.state();
            if !std::mem::take(&mut state.unwritten) {
                return true;
            }
            state.adopted.clone()
        };
        let (registry, now) = (self.registry.clone(), now_ms());
        let write = tokio::task::spawn_blocking(move || file::save(&path, &registry, now, &nodes));
        match write.await {
            Ok(Ok(())) => self.saved_at(now),
            Ok(Err(error)) => self.failed(&error.to_string()),
            Err(error) => self.failed(&error.to_string()),
        }
    }

    /// When this process wrote it last, in milliseconds since the Unix epoch.
    pub(super) fn written_at_ms(&self) -> Option<u64> {
        Some(self.written_at_ms.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Number of writes that failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn saved_at(&self, now: u64) -> bool {
        self.written_at_ms.store(now, Ordering::Relaxed);
        self.state().complained = false;
        true
    }

    fn failed(&self, reason: &str) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        state.unwritten = true;
        if !std::mem::replace(&mut state.complained, true) {
            tracing::warn!(path = ?self.path, reason, "the registry snapshot cannot be written; trying again");
        }
        false
    }

    /// A panic elsewhere leaves the maps whole: each change is one call.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn node(data: &'static str) -> Option<Node> {
        Some(Node { data: data.into(), version: 0, changed: ChangeId(1) })
    }

    #[tokio::test]
    async fn what_was_adopted_is_found_again_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new").join("snapshot.json");
        let first = Snapshot::new(Some(path.clone()), "zk:2181");
        first.put(&Nodes::from([("/t/x".to_owned(), node("clusterName=a")), ("/m/x".to_owned(), None)]));
        assert!(first.flush().await);

        let second = Snapshot::new(Some(path), "zk:2181");
        let saved = second.saved().await.expect("written above");
        assert_eq!(saved.nodes.get("/t/x").cloned(), node("clusterName=a"));
        assert!(saved.written_at_ms > 0 && saved.written_at_ms == first.written_at_ms().unwrap());
    }

    #[tokio::test]
    async fn two_processes_with_one_file_keep_each_others_entries() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Snapshot::new(Some(dir.path().join("snapshot.json")), "zk:2181");
        let (one, other) = (open(), open());
        one.put(&Nodes::from([("/t/x".to_owned(), node("x"))]));
        assert!(one.flush().await);
        other.put(&Nodes::from([("/t/y".to_owned(), node("y"))]));
        assert!(other.flush().await);
        let saved = open().saved().await.unwrap();
        assert_eq!(saved.nodes.keys().collect::<Vec<_>>(), ["/t/x", "/t/y"]);
    }

    #[tokio::test]
    async fn a_node_known_to_be_gone_is_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Snapshot::new(Some(dir.path().join("snapshot.json")), "zk:2181");
        let snapshot = open();
        snapshot.put(&Nodes::from([("/m/x".to_owned(), node("{}")), ("/t/x".to_owned(), node("x"))]));
        assert!(snapshot.flush().await);
        snapshot.put(&Nodes::from([("/m/x".to_owned(), None)]));
        assert!(snapshot.flush().await);
        assert_eq!(open().saved().await.unwrap().nodes.keys().collect::<Vec<_>>(), ["/t/x"]);
    }

    #[tokio::test]
    async fn a_failed_write_is_counted_and_stays_to_be_done() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("not-a-directory");
        std::fs::write(&blocked, "x").unwrap();
        let snapshot = Snapshot::new(Some(blocked.join("snapshot.json")), "zk:2181");
        snapshot.put(&Nodes::from([("/t/x".to_owned(), node("x"))]));
        assert!(!snapshot.flush().await);
        assert_eq!(snapshot.failures(), 1);
        std::fs::remove_file(&blocked).unwrap();
        assert!(snapshot.flush().await);
        assert!(snapshot.written_at_ms().is_some());
    }

    #[tokio::test]
    async fn switched_off_it_neither_keeps_nor_knows_anything() {
        let snapshot = Snapshot::new(None, "zk:2181");
        snapshot.put(&Nodes::from([("/t/x".to_owned(), node("x"))]));
        assert!(snapshot.flush().await);
        assert!(snapshot.saved().await.is_none());
    }
}
