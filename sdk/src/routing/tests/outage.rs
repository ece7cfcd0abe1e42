//! Lost connections, lost events, lost sessions, refused registrations.

use std::time::Duration;

use zms_core::registration::{RegistrationData, RegistrationName, Role};

use super::support::{Operator, Sink, config, eventually, settle, topic};
use crate::registry::port::Registry;

#[tokio::test(start_paused = true)]
async fn what_changed_while_the_connection_was_away_is_adopted_on_return() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    let name = operator.children("/zms/topic/t").await.remove(0);
    let registration = operator.0.read(&format!("/zms/topic/t/{name}")).await.unwrap();

    client.inner.disconnect();
    operator.topic_on("t", "b").await;
    settle().await;
    assert_eq!(sink.clusters(), ["a"], "traffic stays where it was");
    client.inner.reconnect();
    sink.comes_to("b").await;
    assert_eq!(router.inspect().counters.reconnects, 1);
    // Same session: neither deleted nor created.
    assert_eq!(operator.0.read(&format!("/zms/topic/t/{name}")).await.unwrap(), registration);
    let registrations = client.calls().iter().filter(|call| call.starts_with("register")).count();
    assert_eq!(registrations, 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_any_length_costs_no_calls() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let _lease = router.topic(&topic("t"), Sink::new()).await.unwrap();
    client.inner.disconnect();
    client.forget_calls();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(client.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_event_was_lost_is_found_by_the_periodic_reread() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    client.lose_events();
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    operator.topic_on("t", "b").await;
    sink.comes_to("b").await;
    assert!(router.inspect().counters.rereads > 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_session_registers_again_under_the_same_name() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    let before = operator.children("/zms/topic/t").await;
    client.inner.expire_session();
    operator.topic_on("t", "b").await;
    sink.comes_to("b").await;
    assert_eq!(operator.sees_children("/zms/topic/t", 1).await, before);
    settle().await;
    assert_eq!(operator.children("/zms/topic/t").await, before);
}

#[tokio::test(start_paused = true)]
async fn a_refused_registration_does_not_stop_traffic_and_is_made_up_for() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    client.refuse_registration(true);
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    operator.topic_on("t", "b").await;
    sink.comes_to("b").await;
    assert_eq!(router.inspect().counters.failed_registrations, 1, "counted once, not at each attempt");

    client.refuse_registration(false);
    operator.topic_on("t", "a").await;
    operator.sees_children("/zms/topic/t", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_registration_with_an_unknown_result_is_made_sure_of_before_anything_is_adopted() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    client.inner.fail_next(crate::registry::Fault::AnswerLost);
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    let calls = client.calls();
    assert_eq!(calls[..2], ["register /zms/topic/t", "register /zms/topic/t"]);
    assert_eq!(operator.children("/zms/topic/t").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_flaps_ends_in_the_newest_state() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    for round in 0..50 {
        client.inner.disconnect();
        operator.topic_on("t", if round % 2 == 0 { "b" } else { "a" }).await;
        client.inner.reconnect();
        if round % 3 == 0 {
            client.inner.expire_session();
        }
        tokio::task::yield_now().await;
    }
    operator.topic_on("t", "b").await;
    sink.comes_to("b").await;
    operator.sees_children("/zms/topic/t", 1).await;
    eventually("a settled state", || router.inspect().entries[0].trouble.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn registrations_have_the_form_of_zms_and_say_what_the_client_does() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    operator.topic_on("statistic_topic_producerinfo", "a").await;
    let router = operator.client().router(config());
    let _lease = router.topic(&topic("t"), Sink::new()).await.unwrap();
    let statistics = topic("statistic_topic_producerinfo");
    let _statistics = router.topic(&statistics, Sink::new()).await.unwrap();
    let name = operator.children("/zms/topic/t").await.remove(0);
    let parsed = RegistrationName::parse(&name);
    assert_eq!((parsed.ip.as_str(), parsed.instance.as_str()), ("10.0.0.1", "tests"));
    let node = operator.0.read(&format!("/zms/topic/t/{name}")).await.unwrap().unwrap();
    let data = RegistrationData { proto: 0, role: Role::Producer };
    assert_eq!(RegistrationData::parse(&node.data), Some(data));
    assert!(operator.children("/zms/topic/statistic_topic_producerinfo").await.is_empty());
}
