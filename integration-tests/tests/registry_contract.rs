//! What every registry does, asked of the one in memory and of `ZooKeeper` by the same scenarios.

// A scenario that cannot go on has failed.
#![allow(clippy::unwrap_used)]

mod registry_support;

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use zms_integration_tests::services::{ZooKeeperServer, require_services};
use zms_sdk::registry::{
    MemoryRegistry, ZooKeeper, ZooKeeperOptions,
    port::{Op, RegistryError, SessionState, SharedRegistry},
};

use registry_support::Recorder;

/// Two clients of one store, each with its own session.
struct Clients {
    one: SharedRegistry,
    two: SharedRegistry,
}

fn in_memory() -> Clients {
    let one = MemoryRegistry::new();
    let two = one.connect();
    Clients { one: one.shared(), two: two.shared() }
}

/// On one server for all scenarios, each under a chroot of its own.
async fn on_zookeeper() -> Clients {
    static SERVER: OnceLock<ZooKeeperServer> = OnceLock::new();
    static CHROOT: AtomicUsize = AtomicUsize::new(0);
    let start = || SERVER.get_or_init(|| ZooKeeperServer::start().unwrap()).connect_string();
    let server = tokio::task::spawn_blocking(start).await.unwrap();
    let chroot = CHROOT.fetch_add(1, Ordering::Relaxed);
    let connect = format!("{server}/tests/scenario-{chroot}");
    let client = async || ZooKeeper::connect(ZooKeeperOptions::new(&connect)).await.unwrap();
    Clients { one: std::sync::Arc::new(client().await), two: std::sync::Arc::new(client().await) }
}

/// One test for each scenario and adapter.
macro_rules! on_both {
    ($($scenario:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $scenario() { super::$scenario(super::in_memory()).await; })*
        }
        mod zookeeper {
            $(#[tokio::test] async fn $scenario() {
                if super::require_services() {
                    super::$scenario(super::on_zookeeper().await).await;
                }
            })*
        }
    };
}

on_both!(
    versions_start_anew_and_changes_only_grow,
    a_stale_version_changes_nothing,
    creating_makes_parents_and_shows_data_at_once,
    children_are_direct_and_sorted,
    a_multi_takes_effect_whole_or_not_at_all,
    a_multi_says_which_write_failed,
    a_watch_fires_once_for_each_way_a_node_can_change,
    watches_on_one_path_fire_once_together,
    a_node_made_deleted_and_made_again_is_seen_each_time,
    children_do_not_fire_the_watch_of_their_parent,
    registering_creates_once_and_then_only_changes_data,
    registering_replaces_the_node_of_another_session,
    registering_refuses_a_node_that_is_not_ephemeral,
    unregistering_is_idempotent_and_spares_other_nodes,
    ephemeral_nodes_have_no_children,
    closing_removes_what_was_registered_and_refuses_what_follows,
    dropping_the_client_removes_what_was_registered,
    malformed_requests_are_refused,
);

async fn versions_start_anew_and_changes_only_grow(clients: Clients) {
    let registry = clients.one;
    registry.create("/n", "a".into()).await.unwrap();
    let created = registry.read("/n").await.unwrap().unwrap();
    assert_eq!((created.version, &created.data[..]), (0, &b"a"[..]));

    assert_eq!(registry.set("/n", "b".into(), 0).await.unwrap(), 1);
    let changed = clients.two.read("/n").await.unwrap().unwrap();
    assert_eq!((changed.version, &changed.data[..]), (1, &b"b"[..]));
    assert!(changed.changed > created.changed);

    registry.delete("/n", 1).await.unwrap();
    assert_eq!(registry.read("/n").await.unwrap(), None);
    registry.create("/n", "c".into()).await.unwrap();
    let again = registry.read("/n").await.unwrap().unwrap();
    assert_eq!(again.version, 0);
    assert!(again.changed > changed.changed, "a node made again is a later change");
}

async fn a_stale_version_changes_nothing(clients: Clients) {
    let registry = clients.one;
    registry.create("/n", "a".into()).await.unwrap();
    registry.set("/n", "b".into(), 0).await.unwrap();
    assert_conflict(registry.set("/n", "c".into(), 0).await, "/n");
    assert_conflict(registry.set("/n", "c".into(), 2).await, "/n");
    assert_conflict(registry.delete("/n", 0).await, "/n");
    assert_eq!(&registry.read("/n").await.unwrap().unwrap().data[..], b"b");
    assert_missing(registry.set("/none", "c".into(), 0).await, "/none");
    assert_missing(registry.delete("/none", 0).await, "/none");
}

async fn creating_makes_parents_and_shows_data_at_once(clients: Clients) {
    let Clients { one: registry, two: other } = clients;
    let recorder = Recorder::listening_to(&*other);
    other.watch("/a/b/c").await.unwrap();
    registry.create("/a/b/c", "data".into()).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/a/b/c"]);
    let node = other.read("/a/b/c").await.unwrap().unwrap();
    assert_eq!((node.version, &node.data[..]), (0, &b"data"[..]), "no write followed the creation");
    assert!(other.read("/a").await.unwrap().unwrap().data.is_empty());

    assert_exists(registry.create("/a/b/c", "other".into()).await, "/a/b/c");
    assert_exists(registry.create("/a", "other".into()).await, "/a");
    registry.create("/a/empty", "".into()).await.unwrap();
    assert!(other.read("/a/empty").await.unwrap().unwrap().data.is_empty());
}

async fn children_are_direct_and_sorted(clients: Clients) {
    let registry = clients.one;
    for path in ["/top/b", "/top/c/deep", "/top/a", "/topmost/x"] {
        registry.create(path, "".into()).await.unwrap();
    }
    assert_eq!(registry.children("/top").await.unwrap().unwrap(), ["a", "b", "c"]);
    assert_eq!(registry.children("/top/a").await.unwrap().unwrap(), Vec::<String>::new());
    assert_eq!(registry.children("/none").await.unwrap(), None);
    assert_eq!(registry.children("/").await.unwrap().unwrap(), ["top", "topmost"]);
    assert!(registry.read("/").await.unwrap().is_some());
    let is_not_empty = registry.delete("/top/c", 0).await;
    assert!(matches!(is_not_empty, Err(RegistryError::NotEmpty { path }) if path == "/top/c"));
}

async fn a_multi_takes_effect_whole_or_not_at_all(clients: Clients) {
    let registry = clients.one;
    for path in ["/a", "/b", "/c"] {
        registry.create(path, "0".into()).await.unwrap();
    }
    let ops = |checked| {
        vec![
            Op::Set { path: "/a".into(), data: "1".into(), version: 0 },
            Op::Delete { path: "/b".into(), version: 0 },
            Op::Create { path: "/d".into(), data: "1".into() },
            Op::Create { path: "/d/e".into(), data: "1".into() },
            Op::Check { path: "/c".into(), version: checked },
        ]
    };
    assert_conflict(registry.commit(ops(1)).await, "/c");
    assert_eq!(registry.children("/").await.unwrap().unwrap(), ["a", "b", "c"]);
    assert_eq!(registry.read("/a").await.unwrap().unwrap().version, 0);

    registry.commit(ops(0)).await.unwrap();
    assert_eq!(registry.children("/").await.unwrap().unwrap(), ["a", "c", "d"]);
    let set = registry.read("/a").await.unwrap().unwrap();
    let created = registry.read("/d/e").await.unwrap().unwrap();
    assert_eq!((set.version, created.version), (1, 0));
    assert_eq!(set.changed, created.changed, "one transaction is one change");
    registry.commit(Vec::new()).await.unwrap();
}

async fn a_multi_says_which_write_failed(clients: Clients) {
    let registry = clients.one;
    registry.create("/a/child", "".into()).await.unwrap();
    let check = || Op::Check { path: "/a".into(), version: 0 };
    let failing = async |op| registry.commit(vec![check(), op, check()]).await;
    assert_missing(failing(Op::Check { path: "/x".into(), version: 0 }).await, "/x");
    assert_missing(failing(Op::Set { path: "/x".into(), data: "".into(), version: 0 }).await, "/x");
    assert_missing(failing(Op::Create { path: "/x/y".into(), data: "".into() }).await, "/x");
    assert_exists(failing(Op::Create { path: "/a/child".into(), data: "".into() }).await, "/a/child");
    assert_conflict(failing(Op::Delete { path: "/a/child".into(), version: 3 }).await, "/a/child");
    let is_not_empty = failing(Op::Delete { path: "/a".into(), version: 0 }).await;
    assert!(matches!(is_not_empty, Err(RegistryError::NotEmpty { path }) if path == "/a"));
}

async fn a_watch_fires_once_for_each_way_a_node_can_change(clients: Clients) {
    let Clients { one: registry, two: operator } = clients;
    let recorder = Recorder::listening_to(&*registry);

    assert_eq!(registry.watch("/n").await.unwrap(), None);
    operator.create("/n", "a".into()).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/n"]);

    assert_eq!(&registry.watch("/n").await.unwrap().unwrap().data[..], b"a");
    operator.set("/n", "b".into(), 0).await.unwrap();
    operator.set("/n", "c".into(), 1).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/n"]);

    assert_eq!(&registry.watch("/n").await.unwrap().unwrap().data[..], b"c");
    operator.delete("/n", 2).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/n"]);

    // A client's own writes are changes like any other's; reading arms nothing.
    registry.watch("/sentinel").await.unwrap();
    registry.read("/n").await.unwrap();
    registry.create("/n", "d".into()).await.unwrap();
    registry.create("/sentinel", "".into()).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/sentinel"]);
}

async fn watches_on_one_path_fire_once_together(clients: Clients) {
    let Clients { one: registry, two: operator } = clients;
    let recorder = Recorder::listening_to(&*registry);
    operator.create("/n", "a".into()).await.unwrap();
    let (first, second) = tokio::join!(registry.watch("/n"), registry.watch("/n"));
    assert_eq!(first.unwrap(), second.unwrap());
    registry.watch("/n").await.unwrap();
    registry.watch("/sentinel").await.unwrap();

    operator.set("/n", "b".into(), 0).await.unwrap();
    operator.create("/sentinel", "".into()).await.unwrap();
    assert_eq!(recorder.take(2).await, ["/n", "/sentinel"]);

    assert_eq!(&registry.watch("/n").await.unwrap().unwrap().data[..], b"b");
    operator.set("/n", "c".into(), 1).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/n"], "armed anew by the next read");
}

async fn a_node_made_deleted_and_made_again_is_seen_each_time(clients: Clients) {
    let Clients { one: registry, two: operator } = clients;
    let recorder = Recorder::listening_to(&*registry);
    let mut last = None;
    for cluster in ["a", "b", "c"] {
        assert_eq!(registry.watch("/zms/topic/orders").await.unwrap(), None);
        operator.create("/zms/topic/orders", cluster.into()).await.unwrap();
        assert_eq!(recorder.take(1).await, ["/zms/topic/orders"]);

        let node = registry.watch("/zms/topic/orders").await.unwrap().unwrap();
        assert_eq!((node.version, &node.data[..]), (0, cluster.as_bytes()));
        assert!(last < Some(node.changed));
        last = Some(node.changed);
        operator.delete("/zms/topic/orders", 0).await.unwrap();
        assert_eq!(recorder.take(1).await, ["/zms/topic/orders"]);
    }
}

async fn children_do_not_fire_the_watch_of_their_parent(clients: Clients) {
    let Clients { one: registry, two: operator } = clients;
    let recorder = Recorder::listening_to(&*registry);
    operator.create("/topic", "a".into()).await.unwrap();
    registry.watch("/topic").await.unwrap();
    operator.register("/topic/client", "".into()).await.unwrap();
    operator.unregister("/topic/client").await.unwrap();
    registry.watch("/sentinel").await.unwrap();
    operator.create("/sentinel", "".into()).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/sentinel"]);
}

async fn registering_creates_once_and_then_only_changes_data(clients: Clients) {
    let Clients { one: registry, two: other } = clients;
    registry.create("/topic", "".into()).await.unwrap();
    let epoch = registry.session().borrow().epoch;
    assert_eq!(registry.register("/topic/me", "a".into()).await.unwrap(), epoch);
    let first = other.read("/topic/me").await.unwrap().unwrap();
    assert_eq!(registry.register("/topic/me", "a".into()).await.unwrap(), epoch);
    assert_eq!(other.read("/topic/me").await.unwrap().unwrap(), first, "nothing to do, nothing written");

    registry.register("/topic/me", "b".into()).await.unwrap();
    let second = other.read("/topic/me").await.unwrap().unwrap();
    assert_eq!((second.version, &second.data[..]), (1, &b"b"[..]), "changed, not made anew");
    assert_missing(registry.register("/none/me", "a".into()).await, "/none");
}

async fn registering_replaces_the_node_of_another_session(clients: Clients) {
    let Clients { one: earlier, two: later } = clients;
    earlier.create("/topic", "".into()).await.unwrap();
    earlier.register("/topic/me", "a".into()).await.unwrap();
    later.register("/topic/me", "a".into()).await.unwrap();
    earlier.close().await;
    let node = later.read("/topic/me").await.unwrap();
    assert_eq!(&node.expect("the later session's node stays").data[..], b"a");
}

async fn registering_refuses_a_node_that_is_not_ephemeral(clients: Clients) {
    let registry = clients.one;
    registry.create("/topic/me", "kept".into()).await.unwrap();
    assert_exists(registry.register("/topic/me", "a".into()).await, "/topic/me");
    assert_eq!(&registry.read("/topic/me").await.unwrap().unwrap().data[..], b"kept");
}

async fn unregistering_is_idempotent_and_spares_other_nodes(clients: Clients) {
    let registry = clients.one;
    registry.create("/topic", "".into()).await.unwrap();
    registry.register("/topic/me", "a".into()).await.unwrap();
    registry.register("/topic/me", "b".into()).await.unwrap();
    registry.unregister("/topic/me").await.unwrap();
    assert_eq!(registry.read("/topic/me").await.unwrap(), None);
    registry.unregister("/topic/me").await.unwrap();
    assert_invalid(registry.unregister("/topic").await);
    assert!(registry.read("/topic").await.unwrap().is_some());
}

async fn ephemeral_nodes_have_no_children(clients: Clients) {
    let registry = clients.one;
    registry.create("/topic", "".into()).await.unwrap();
    registry.register("/topic/me", "".into()).await.unwrap();
    assert_invalid(registry.create("/topic/me/child", "".into()).await);
}

async fn closing_removes_what_was_registered_and_refuses_what_follows(clients: Clients) {
    let Clients { one: registry, two: other } = clients;
    let recorder = Recorder::listening_to(&*other);
    registry.create("/topic", "".into()).await.unwrap();
    registry.register("/topic/me", "".into()).await.unwrap();
    other.watch("/topic/me").await.unwrap();
    registry.close().await;
    registry.close().await;
    assert_eq!(recorder.take(1).await, ["/topic/me"]);
    assert_eq!(other.children("/topic").await.unwrap().unwrap(), Vec::<String>::new());
    assert_eq!(registry.session().borrow().state, SessionState::Closed);
    assert!(matches!(registry.read("/topic").await, Err(RegistryError::Closed)));
    assert!(matches!(registry.register("/topic/me", "".into()).await, Err(RegistryError::Closed)));
}

async fn dropping_the_client_removes_what_was_registered(clients: Clients) {
    let Clients { one: registry, two: other } = clients;
    let recorder = Recorder::listening_to(&*other);
    registry.create("/topic", "".into()).await.unwrap();
    registry.register("/topic/me", "".into()).await.unwrap();
    other.watch("/topic/me").await.unwrap();
    drop(registry);
    assert_eq!(recorder.take(1).await, ["/topic/me"]);
}

async fn malformed_requests_are_refused(clients: Clients) {
    let registry = clients.one;
    for path in ["", "n", "/n/", "//n", "/../n", "/n\0"] {
        assert_invalid(registry.read(path).await);
        assert_invalid(registry.watch(path).await);
        assert_invalid(registry.children(path).await);
        assert_invalid(registry.create(path, "".into()).await);
        assert_invalid(registry.register(path, "".into()).await);
        assert_invalid(registry.commit(vec![Op::Create { path: path.into(), data: "".into() }]).await);
    }
    assert_invalid(registry.create("/big", vec![0; 2 << 20].into()).await);
    registry.create("/n", "".into()).await.unwrap();
    assert_invalid(registry.set("/n", "".into(), -1).await);
    assert_invalid(registry.delete("/n", -1).await);
    assert_invalid(registry.commit(vec![Op::Check { path: "/n".into(), version: -1 }]).await);
    registry.create("/large", vec![7; 1 << 19].into()).await.unwrap();
    assert_eq!(registry.read("/large").await.unwrap().unwrap().data.len(), 1 << 19);
}

#[track_caller]
fn assert_conflict<T: std::fmt::Debug>(result: Result<T, RegistryError>, expected: &str) {
    let error = result.unwrap_err();
    assert!(matches!(&error, RegistryError::Conflict { path } if path == expected), "{error:?}");
}

#[track_caller]
fn assert_missing<T: std::fmt::Debug>(result: Result<T, RegistryError>, expected: &str) {
    let error = result.unwrap_err();
    assert!(matches!(&error, RegistryError::Missing { path } if path == expected), "{error:?}");
}

#[track_caller]
fn assert_exists<T: std::fmt::Debug>(result: Result<T, RegistryError>, expected: &str) {
    let error = result.unwrap_err();
    assert!(matches!(&error, RegistryError::Exists { path } if path == expected), "{error:?}");
}

#[track_caller]
fn assert_invalid<T: std::fmt::Debug>(result: Result<T, RegistryError>) {
    let error = result.unwrap_err();
    assert!(matches!(&error, RegistryError::Invalid { .. }), "{error:?}");
}
