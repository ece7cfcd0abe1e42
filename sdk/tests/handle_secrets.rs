#![cfg(feature = "testing")]
//! What a reference in a cluster's properties leads to shows nowhere: not in errors, not in what a handle says of
//! itself, not in the log.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use zms_sdk::{
    ClusterName, Delivery, GroupName, Message, Outcome, TopicName, admin::Format, testing::Sandbox,
};

/// Where the log goes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reference_leads_to_shows_nowhere() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .init();
    let secret = std::env::var("PATH").unwrap();
    let sandbox = Sandbox::start(["a"]).await.unwrap();
    let admin = sandbox.admin();
    let secured = [("security.protocol", "sasl_plaintext"), ("sasl.username", "u")];
    // The last two as somebody would try who can write to the registry and read logs.
    for (number, property) in
        ["sasl.password", "sasl.mechanisms", "security.protocol"].into_iter().enumerate()
    {
        let cluster = ClusterName::new(format!("c{number}")).unwrap();
        let topic = TopicName::new(format!("t{number}")).unwrap();
        let group = GroupName::new(format!("g{number}")).unwrap();
        let bootstrap = sandbox.cluster("a").unwrap().bootstrap();
        let add = admin.add_cluster(&cluster, Format::Json, |meta| {
            bootstrap.clone_into(&mut meta.bootstrap);
            let mechanism = ("sasl.mechanisms", "PLAIN");
            for (name, value) in secured.iter().chain([&mechanism, &(property, "${env:PATH}")]) {
                meta.properties.insert((*name).to_owned(), (*value).to_owned());
            }
        });
        add.await.unwrap();
        admin.add_topic(&topic, Format::Json, &cluster, |_| ()).await.unwrap();
        admin.add_group(&group, Format::Json, &topic, |_| ()).await.unwrap();
        let zms = sandbox.connect().await.unwrap();
        let limit = Duration::from_millis(300);
        let sent = tokio::time::timeout(limit, zms.send(topic.as_str(), Message::new("x"))).await;
        let handler = |_: Delivery| async { Outcome::Done };
        let subscription = zms.subscribe(group.as_str()).handle(handler).await.unwrap();
        let ready = tokio::time::timeout(limit, subscription.ready()).await;
        let said = format!("{sent:?} {ready:?} {:?} {:?}", subscription.inspect(), zms.status());
        assert!(!said.contains(&secret), "{property}: {said}");
        let _undelivered = zms.close(limit).await;
        let logged = String::from_utf8_lossy(&std::mem::take(&mut *log.0.lock().unwrap())).into_owned();
        assert!(logged.contains(cluster.as_str()) && !logged.contains(&secret), "{property}: {logged}");
    }
}
