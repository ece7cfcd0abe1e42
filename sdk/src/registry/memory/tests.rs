use std::sync::{Arc, Mutex};

use super::*;
use crate::registry::port::SessionState;

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn listening_to(registry: &MemoryRegistry) -> Arc<Self> {
        let recorder = Arc::new(Self::default());
        let weak = Arc::downgrade(&recorder);
        registry.listen(weak);
        recorder
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl ChangeListener for Recorder {
    fn changed(&self, path: &str) {
        self.0.lock().unwrap().push(path.to_owned());
    }
}

fn state(registry: &MemoryRegistry) -> (SessionState, u64, u64) {
    let session = *registry.session().borrow();
    (session.state, session.epoch, session.connection)
}

#[tokio::test]
async fn a_lost_connection_forgets_watches_and_keeps_the_session() {
    let client = MemoryRegistry::new();
    let operator = client.connect();
    let recorder = Recorder::listening_to(&client);
    operator.create("/topic", "a".into()).await.unwrap();
    client.register("/topic/me", "".into()).await.unwrap();
    client.watch("/topic").await.unwrap();

    client.disconnect();
    client.disconnect();
    assert_eq!(state(&client), (SessionState::Disconnected, 1, 1));
    assert!(matches!(client.read("/topic").await, Err(RegistryError::Unavailable { .. })));
    operator.set("/topic", "b".into(), 0).await.unwrap();
    client.reconnect();
    client.reconnect();
    assert_eq!(state(&client), (SessionState::Connected, 1, 2));
    operator.set("/topic", "c".into(), 1).await.unwrap();
    assert_eq!(recorder.take(), Vec::<String>::new(), "only reading shows what was missed");
    assert!(operator.read("/topic/me").await.unwrap().is_some());

    assert_eq!(&client.watch("/topic").await.unwrap().unwrap().data[..], b"c");
    operator.set("/topic", "d".into(), 2).await.unwrap();
    assert_eq!(recorder.take(), ["/topic"]);
}

#[tokio::test]
async fn an_expired_session_loses_its_nodes_and_its_number() {
    let client = MemoryRegistry::new();
    let operator = client.connect();
    let recorder = Recorder::listening_to(&operator);
    client.create("/topic", "".into()).await.unwrap();
    assert_eq!(client.register("/topic/me", "".into()).await.unwrap(), 1);
    operator.watch("/topic/me").await.unwrap();

    client.expire_session();
    assert_eq!(recorder.take(), ["/topic/me"]);
    assert_eq!(state(&client), (SessionState::Connected, 2, 2));
    assert_eq!(client.register("/topic/me", "".into()).await.unwrap(), 2);

    client.disconnect();
    client.expire_session();
    assert_eq!(state(&client), (SessionState::Disconnected, 2, 2));
    assert_eq!(operator.read("/topic/me").await.unwrap(), None);
    client.reconnect();
    assert_eq!(state(&client), (SessionState::Connected, 3, 3));
}

#[tokio::test]
async fn a_client_can_start_offline() {
    let operator = MemoryRegistry::new();
    let client = operator.connect_offline();
    assert_eq!(*client.session().borrow(), Session::default());
    assert!(matches!(client.read("/").await, Err(RegistryError::Unavailable { .. })));
    client.reconnect();
    assert_eq!(state(&client), (SessionState::Connected, 1, 1));
    client.read("/").await.unwrap();
}

#[tokio::test]
async fn injected_faults_lose_a_request_or_its_answer() {
    let client = MemoryRegistry::new();
    client.fail_next(Fault::RequestLost);
    client.fail_next(Fault::AnswerLost);
    assert!(matches!(client.create("/n", "a".into()).await, Err(RegistryError::Unavailable { .. })));
    assert!(matches!(client.create("/m", "a".into()).await, Err(RegistryError::Unavailable { .. })));
    assert_eq!(client.children("/").await.unwrap().unwrap(), ["m"]);
}

#[tokio::test]
async fn faults_of_one_client_are_not_those_of_another() {
    let client = MemoryRegistry::new();
    let other = client.connect();
    client.fail_next(Fault::RequestLost);
    other.create("/n", "".into()).await.unwrap();
    client.disconnect();
    other.read("/n").await.unwrap();
    client.clone().reconnect();
    assert!(client.read("/n").await.is_err(), "the fault waited");
    assert!(client.read("/n").await.is_ok());
}

#[tokio::test]
async fn a_closed_client_stays_closed() {
    let client = MemoryRegistry::new();
    client.close().await;
    client.reconnect();
    client.expire_session();
    client.disconnect();
    assert_eq!(state(&client).0, SessionState::Closed);
    assert!(matches!(client.read("/").await, Err(RegistryError::Closed)));
}

#[tokio::test]
async fn a_listener_may_use_the_registry_and_ends_with_its_owner() {
    struct Reader(MemoryRegistry, Mutex<usize>);
    impl ChangeListener for Reader {
        fn changed(&self, _path: &str) {
            self.0.disconnect();
            *self.1.lock().unwrap() += 1;
        }
    }
    let client = MemoryRegistry::new();
    let other = client.connect();
    let reader = Arc::new(Reader(other.clone(), Mutex::default()));
    let weak = Arc::downgrade(&reader);
    client.listen(weak);
    client.watch("/n").await.unwrap();
    client.create("/n", "".into()).await.unwrap();
    assert_eq!(*reader.1.lock().unwrap(), 1);
    assert_eq!(state(&other).0, SessionState::Disconnected);

    client.watch("/m").await.unwrap();
    drop(reader);
    client.create("/m", "".into()).await.unwrap();
}
