//! Operators see which services send and handle.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::Duration;

use zms_core::registration::RegistrationName;
use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::proxy::Proxy;
use zms_integration_tests::services::{Shared, require_services};
use zms_integration_tests::wait::LIMIT;
use zms_sdk::admin::LiveClient;
use zms_sdk::registry::ZooKeeperOptions;
use zms_sdk::registry::port::SessionState;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_listed_while_it_lives_and_again_after_its_session_expired() {
    if !require_services() {
        return;
    }
    let estate = Estate::shared().await;
    let trial = Trial::begin(&estate, 4, Kept::CLEAN).await;
    let proxy = Proxy::start(Shared::get().zookeeper().port()).unwrap();
    let (_, chroot) = estate.connect_string().split_once('/').unwrap();
    let options = ZooKeeperOptions::new(format!("{}/{chroot}", proxy.address()));
    let options = options.session_timeout(Duration::from_secs(2));
    let builder = estate.builder("billing").addresses(["10.1.1.1"]).zookeeper_with(options);
    let zms = builder.connect().await.unwrap();
    let subscription = trial.member(&zms).await;
    let sender = trial.sender("steady", &zms).await;

    let listed = until_listed(&estate, &trial, (1, 1)).await;
    for client in &listed {
        assert_eq!(client.ip.as_deref(), Some("10.1.1.1"), "{client:?}");
        assert_eq!(client.instance.as_deref(), Some("billing"), "{client:?}");
        assert!(client.version.is_some() && client.started.is_some(), "{client:?}");
        let name = RegistrationName::parse(&client.node);
        assert!(name.number.is_some_and(|number| number < 100_000), "{name:?}");
        assert_eq!(client.node.split("||").count(), 5, "ZMS's console splits it into five parts");
    }

    let session = zms.status().registry;
    proxy.cut();
    until_listed(&estate, &trial, (0, 0)).await;
    proxy.restore().unwrap();
    let again = until_listed(&estate, &trial, (1, 1)).await;
    let renewed = zms.status().registry;
    assert_eq!(renewed.state, SessionState::Connected);
    assert!(renewed.epoch > session.epoch, "{session:?} {renewed:?}");
    let names = |clients: &[LiveClient]| clients.iter().map(|client| client.node.clone()).collect::<Vec<_>>();
    assert_eq!(names(&again), names(&listed), "a client keeps its name");

    let sent = sender.finish().await;
    trial.settled().await;
    assert_eq!(sent.failed, Vec::<String>::new());
    subscription.shutdown(CLOSE_LIMIT).await.unwrap();
    until_listed(&estate, &trial, (1, 0)).await;
    zms.close(CLOSE_LIMIT).await.unwrap();
    assert_eq!(listing(&estate, &trial).await, (vec![], vec![]), "it has left when the close returns");
    trial.assert_holds();
}

async fn listing(estate: &Estate, trial: &Trial) -> (Vec<LiveClient>, Vec<LiveClient>) {
    let producers = estate.admin().producers(trial.topic()).await.unwrap();
    (producers, estate.admin().members(trial.group()).await.unwrap())
}

/// Waits until so many producers and members are listed.
async fn until_listed(estate: &Estate, trial: &Trial, wanted: (usize, usize)) -> Vec<LiveClient> {
    let found = tokio::time::timeout(LIMIT, async {
        loop {
            let (producers, members) = listing(estate, trial).await;
            if (producers.len(), members.len()) == wanted {
                return [producers, members].concat();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{wanted:?} producers and members are not listed"))
}
