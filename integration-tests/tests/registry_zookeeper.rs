//! The registry in `ZooKeeper` when connections break, sessions expire and servers go away.

// A scenario that cannot go on has failed.
#![allow(clippy::unwrap_used)]

mod registry_support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use zms_integration_tests::{
    proxy::Proxy,
    services::{ZooKeeperServer, require_services},
};
use zms_sdk::registry::{
    ZooKeeper, ZooKeeperOptions,
    port::{ChangeListener, Registry, RegistryError, Session, SessionState, SharedRegistry},
};

use registry_support::{LIMIT, Recorder, session};

/// A client behind a proxy, and an operator that reaches the server directly.
struct Setup {
    server: ZooKeeperServer,
    proxy: Proxy,
    client: SharedRegistry,
    operator: SharedRegistry,
}

/// Take all of it apart: what is left out of a pattern ends at once. None when there is no server to be had.
async fn setup(session_timeout: Duration) -> Option<Setup> {
    if !blocking(require_services).await {
        return None;
    }
    let (server, proxy) = blocking(|| {
        let server = ZooKeeperServer::start().unwrap();
        let proxy = Proxy::start(server.port()).unwrap();
        (server, proxy)
    })
    .await;
    let options = |address: String| {
        ZooKeeperOptions::new(address)
            .session_timeout(session_timeout)
            .request_timeout(Duration::from_secs(10))
    };
    let client = connect(options(proxy.address())).await;
    let operator = connect(options(server.connect_string()).session_timeout(Duration::from_secs(20))).await;
    Some(Setup { server, proxy, client, operator })
}

const LONG: Duration = Duration::from_secs(20);
/// Sessions that are to expire, and those after them that are to last.
const SHORT: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_missed_during_a_reconnect_is_seen_by_reading_again() {
    let Some(Setup { proxy, client, operator, server: _server }) = setup(LONG).await else { return };
    let recorder = Recorder::listening_to(&*client);
    operator.create("/topic", "a".into()).await.unwrap();
    client.watch("/topic").await.unwrap();
    let before = *client.session().borrow();
    assert_eq!(before, Session { state: SessionState::Connected, epoch: 1, connection: 1 });

    proxy.cut();
    session(&client, |session| session.state == SessionState::Disconnected).await;
    assert_unavailable(client.read("/topic").await);
    operator.set("/topic", "b".into(), 0).await.unwrap();
    proxy.restore().unwrap();

    let after = session(&client, |session| session.state == SessionState::Connected).await;
    assert_eq!(after, Session { state: SessionState::Connected, epoch: 1, connection: 2 });
    assert_eq!(&client.watch("/topic").await.unwrap().unwrap().data[..], b"b");
    operator.set("/topic", "c".into(), 1).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/topic"], "armed by the read after the reconnect, once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reconnect_counts_even_when_nobody_sees_it_happen() {
    let Some(Setup { proxy, client, server: _server, operator: _operator }) = setup(LONG).await else {
        return;
    };
    for connection in 2..6 {
        proxy.drop_connections();
        let now = session(&client, |session| session.connection >= connection).await;
        assert_eq!((now.epoch, now.connection), (1, connection));
        client.read("/").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_survives_a_reconnect_without_a_flap() {
    let Some(Setup { proxy, client, operator, server: _server }) = setup(LONG).await else { return };
    let recorder = Recorder::listening_to(&*operator);
    operator.create("/topic", "".into()).await.unwrap();
    client.register("/topic/me", "a".into()).await.unwrap();
    let before = operator.watch("/topic/me").await.unwrap();

    for connection in 2..4 {
        proxy.drop_connections();
        session(&client, |session| session.connection >= connection).await;
        assert_eq!(client.register("/topic/me", "a".into()).await.unwrap(), 1);
    }
    assert_eq!(operator.read("/topic/me").await.unwrap(), before);
    operator.watch("/sentinel").await.unwrap();
    operator.create("/sentinel", "".into()).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/sentinel"], "nothing happened to the node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_session_loses_its_nodes_and_a_new_one_registers_for_good() {
    let Some(Setup { proxy, client, operator, server: _server }) = setup(SHORT).await else { return };
    let recorder = Recorder::listening_to(&*operator);
    operator.create("/topic", "".into()).await.unwrap();
    client.register("/topic/me", "a".into()).await.unwrap();
    operator.watch("/topic/me").await.unwrap();

    proxy.cut();
    assert_eq!(recorder.take(1).await, ["/topic/me"], "the servers end the session");
    proxy.restore().unwrap();
    let after = session(&client, |session| session.epoch == 2).await;
    assert_eq!(after, Session { state: SessionState::Connected, epoch: 2, connection: 2 });
    assert_eq!(client.register("/topic/me", "b".into()).await.unwrap(), 2);
    stays(&*operator, "/topic/me", 2 * SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_the_servers_are_about_to_remove_is_replaced() {
    let Some(Setup { server, proxy, client: earlier, operator }) = setup(SHORT).await else { return };
    operator.create("/topic", "".into()).await.unwrap();
    earlier.register("/topic/me", "a".into()).await.unwrap();
    proxy.cut();

    let later = connect(ZooKeeperOptions::new(server.connect_string())).await;
    later.register("/topic/me", "a".into()).await.unwrap();
    let registered = operator.read("/topic/me").await.unwrap();
    stays(&*operator, "/topic/me", 3 * SHORT).await;
    assert_eq!(operator.read("/topic/me").await.unwrap(), registered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_costs_each_call_its_limit_and_no_more() {
    let Some(Setup { server, client, proxy: _proxy, operator: _operator }) = setup(LONG).await else {
        return;
    };
    client.create("/n", "a".into()).await.unwrap();
    on(&server, |server| server.pause().unwrap()).await;
    let since = Instant::now();
    assert_unavailable(client.read("/n").await);
    assert_unavailable(client.watch("/n").await);
    assert_unavailable(client.set("/n", "b".into(), 0).await);
    assert!(since.elapsed() < LIMIT);
    on(&server, |server| server.resume().unwrap()).await;
    assert!(eventually(async || client.read("/n").await.ok().flatten()).await.version <= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_leaves_the_outcome_to_be_read() {
    let Some(Setup { proxy, client, operator, server: _server }) = setup(LONG).await else { return };
    client.create("/n", "a".into()).await.unwrap();
    proxy.lose_replies().unwrap();
    assert_unavailable(client.set("/n", "b".into(), 0).await);
    assert_eq!(&operator.read("/n").await.unwrap().unwrap().data[..], b"b");
    proxy.restore().unwrap();
    session(&client, |session| session.connection > 1 && session.state == SessionState::Connected).await;
    assert_eq!(client.read("/n").await.unwrap().unwrap().version, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_is_found_again_with_the_session() {
    let Some(Setup { server, client, operator, proxy: _proxy }) = setup(LONG).await else { return };
    operator.create("/topic", "".into()).await.unwrap();
    client.register("/topic/me", "a".into()).await.unwrap();
    on(&server, ZooKeeperServer::kill).await;
    session(&client, |session| session.state == SessionState::Disconnected).await;
    on(&server, |server| server.restart().unwrap()).await;
    let after = session(&client, |session| session.state == SessionState::Connected).await;
    assert_eq!((after.epoch, after.connection), (1, 2));
    assert_eq!(client.read("/topic/me").await.unwrap().unwrap().version, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_listener_costs_a_connection_but_no_event() {
    struct Panicking;
    impl ChangeListener for Panicking {
        fn changed(&self, path: &str) {
            assert_ne!(path, "/poison", "on purpose");
        }
    }
    let Some(Setup { server: _server, proxy: _proxy, client, operator }) = setup(LONG).await else { return };
    let panicking = Arc::new(Panicking);
    client.listen(Arc::downgrade(&panicking) as _);
    let recorder = Recorder::listening_to(&*client);
    client.watch("/poison").await.unwrap();
    operator.create("/poison", "".into()).await.unwrap();
    let after = session(&client, |session| session.connection == 2).await;
    assert_eq!(after.epoch, 1);
    client.watch("/n").await.unwrap();
    operator.create("/n", "".into()).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/n"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_network_is_noticed_and_left_when_it_is_back() {
    let Some(Setup { server: _server, proxy, client, operator: _operator }) =
        setup(Duration::from_secs(3)).await
    else {
        return;
    };
    proxy.hang().unwrap();
    session(&client, |session| session.state == SessionState::Disconnected).await;
    assert_unavailable(client.read("/").await);
    proxy.restore().unwrap();
    session(&client, |session| session.state == SessionState::Connected).await;
    client.read("/").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_paths_are_watched_at_once() {
    let Some(Setup { client, operator, server: _server, proxy: _proxy }) = setup(LONG).await else { return };
    let recorder = Recorder::listening_to(&*client);
    let paths: Vec<String> = (0..1000).map(|n| format!("/topic-{n:04}")).collect();
    let armed = paths.iter().map(|path| client.watch(path));
    for found in join_all(armed).await {
        assert_eq!(found.unwrap(), None);
    }
    for path in &paths {
        operator.create(path, "".into()).await.unwrap();
    }
    let mut seen = recorder.take(paths.len()).await;
    seen.sort();
    assert_eq!(seen, paths);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_good_server_among_wrong_ones_is_enough() {
    let Some(Setup { server, proxy, client: _client, operator: _operator }) = setup(LONG).await else {
        return;
    };
    proxy.cut();
    let servers = format!("no-such-host.invalid:2181,{},{}", proxy.address(), server.connect_string());
    for _ in 0..5 {
        let client = connect(ZooKeeperOptions::new(&servers)).await;
        client.read("/").await.unwrap();
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_to_nothing_fails_within_the_limit_and_says_why() {
    let proxy = blocking(|| Proxy::start(1).unwrap()).await;
    proxy.cut();
    let servers = format!("{},no-such-host.invalid", proxy.address());
    let options = ZooKeeperOptions::new(servers).connect_timeout(Duration::from_millis(500));
    let since = Instant::now();
    let error = ZooKeeper::connect(options).await.unwrap_err();
    assert!(since.elapsed() < LIMIT);
    let text = error.to_string();
    assert!(matches!(error, RegistryError::Unavailable { .. }), "{text}");
    assert!(text.contains(&proxy.address()) && text.contains("500ms"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_while_the_servers_are_down_connects_when_they_are_up() {
    let Some(Setup { server, proxy: _proxy, client: _client, operator: _operator }) = setup(LONG).await
    else {
        return;
    };
    on(&server, ZooKeeperServer::kill).await;
    let options = ZooKeeperOptions::new(server.connect_string());
    let client: SharedRegistry = Arc::new(ZooKeeper::start(options).unwrap());
    assert_eq!(*client.session().borrow(), Session::default());
    assert_unavailable(client.read("/").await);
    on(&server, |server| server.restart().unwrap()).await;
    let now = session(&client, |session| session.state == SessionState::Connected).await;
    assert_eq!((now.epoch, now.connection), (1, 1));
    assert!(client.read("/").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_connected_closes_at_once() {
    let proxy = blocking(|| Proxy::start(1).unwrap()).await;
    proxy.hang().unwrap();
    let client = ZooKeeper::start(ZooKeeperOptions::new(proxy.address())).unwrap();
    tokio::time::timeout(LIMIT, client.close()).await.unwrap();
    assert_eq!(client.session().borrow().state, SessionState::Closed);
    assert!(matches!(client.read("/").await, Err(RegistryError::Closed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_while_the_servers_are_silent_ends_within_its_limit() {
    let Some(Setup { proxy, client, server: _server, operator: _operator }) = setup(LONG).await else {
        return;
    };
    proxy.hang().unwrap();
    tokio::time::timeout(LIMIT, client.close()).await.unwrap();
    assert_eq!(client.session().borrow().state, SessionState::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chroot_stands_before_every_path() {
    let Some(Setup { server, operator, proxy: _proxy, client: _client }) = setup(LONG).await else { return };
    let inside = connect(ZooKeeperOptions::new(format!("{}/prod/eu", server.connect_string()))).await;
    let recorder = Recorder::listening_to(&*inside);
    assert_eq!(inside.read("/n").await.unwrap(), None);
    assert_eq!(inside.watch("/n").await.unwrap(), None);
    inside.create("/n", "a".into()).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/n"]);
    assert_eq!(&operator.read("/prod/eu/n").await.unwrap().unwrap().data[..], b"a");

    inside.register("/n/me", "".into()).await.unwrap();
    assert_eq!(operator.children("/prod/eu/n").await.unwrap().unwrap(), ["me"]);
    inside.watch("/n").await.unwrap();
    operator.set("/prod/eu/n", "b".into(), 0).await.unwrap();
    assert_eq!(recorder.take(1).await, ["/n"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn protected_nodes_open_to_the_right_password_alone() {
    let Some(Setup { server, operator, proxy, client: _client }) = setup(LONG).await else { return };
    operator.create("/open", "".into()).await.unwrap();
    registry_support::create_protected(&server.connect_string(), "/secret", ("billing", "s3cr3t")).await;
    assert!(
        matches!(operator.read("/secret").await, Err(RegistryError::Denied { path }) if path == "/secret")
    );
    assert!(matches!(operator.watch("/secret").await, Err(RegistryError::Denied { .. })));

    let wrong = connect(ZooKeeperOptions::new(proxy.address()).digest("billing", "guess")).await;
    assert!(matches!(wrong.read("/secret").await, Err(RegistryError::Denied { .. })));
    let right = connect(ZooKeeperOptions::new(proxy.address()).digest("billing", "s3cr3t")).await;
    assert!(right.read("/secret").await.unwrap().is_some());
    proxy.drop_connections();
    session(&right, |session| session.connection == 2).await;
    assert!(right.read("/secret").await.unwrap().is_some(), "every connection is authenticated");
    assert!(!format!("{right:?}").contains("s3cr3t"));
}

async fn connect(options: ZooKeeperOptions) -> SharedRegistry {
    Arc::new(ZooKeeper::connect(options).await.unwrap())
}

/// The harness blocks; the clients' tasks are to go on meanwhile.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(call).await.unwrap()
}

async fn on(server: &ZooKeeperServer, act: impl FnOnce(&ZooKeeperServer) + Send + 'static) {
    let server = server.clone();
    blocking(move || act(&server)).await;
}

/// Watches over `period` that the node is never gone.
async fn stays(registry: &dyn Registry, path: &str, period: Duration) {
    let until = Instant::now() + period;
    while Instant::now() < until {
        assert!(registry.read(path).await.unwrap().is_some(), "{path} is gone");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(LIMIT, asked).await.expect("waited in vain")
}

#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(result: Result<T, RegistryError>) {
    let error = result.unwrap_err();
    assert!(matches!(&error, RegistryError::Unavailable { .. }), "{error:?}");
}
