use zms_core::name::{ClusterName, GroupName, TopicName};

use super::*;
use crate::registry::{
    MemoryRegistry,
    port::{Registry, RegistryError},
};

struct Estate {
    registry: MemoryRegistry,
    admin: Admin,
}

fn cluster(name: &str) -> ClusterName {
    ClusterName::new(name).unwrap()
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

/// Clusters a and b, topic `orders` on a, group `billing` bound to it.
async fn estate(format: Format) -> Estate {
    let registry = MemoryRegistry::new();
    let admin = Admin::new(registry.shared());
    for name in ["a", "b"] {
        admin
            .add_cluster(&cluster(name), format, |meta| meta.bootstrap = format!("{name}:9092"))
            .await
            .unwrap();
    }
    admin.add_topic(&topic("orders"), format, &cluster("a"), |_| ()).await.unwrap();
    admin.add_group(&group("billing"), format, &topic("orders"), |_| ()).await.unwrap();
    Estate { registry, admin }
}

impl Estate {
    async fn text(&self, path: &str) -> String {
        let node = self.registry.read(path).await.unwrap().expect("a node");
        String::from_utf8(node.data.to_vec()).unwrap()
    }

    async fn record(&self, phase: &str) {
        let data = format!(r#"{{"schema":1,"id":"m1","phase":"{phase}","from":"a","to":"b"}}"#);
        let path = "/zms/migration/orders";
        let node = self.registry.read(path).await.unwrap().expect("made by the estate");
        self.registry.set(path, data.into(), node.version).await.unwrap();
    }
}

#[tokio::test]
async fn entries_are_written_in_the_format_asked_for_and_kept_in_it() {
    let estate = estate(Format::Properties).await;
    assert_eq!(estate.text("/zms/topic/orders").await, "clusterName=a\ntype=topic");
    estate
        .admin
        .set_topic(&topic("orders"), Safety::Checked, |meta| {
            meta.producer.insert("linger".to_owned(), "5ms".to_owned());
        })
        .await
        .unwrap();
    assert_eq!(estate.text("/zms/topic/orders").await, "clusterName=a\ntype=topic\nproducer.linger=5ms");
    let billing = estate.admin.group(&group("billing")).await.unwrap();
    assert_eq!((billing.format(), billing.cluster), (Format::Properties, cluster("a")));
}

#[tokio::test]
async fn a_group_gets_the_cluster_of_its_topic_and_no_other_unforced() {
    let Estate { admin, .. } = estate(Format::Json).await;
    let elsewhere =
        admin.add_group(&group("g"), Format::Json, &topic("orders"), |g| g.cluster = cluster("b")).await;
    assert!(
        matches!(elsewhere, Err(AdminError::Misplaced { ref lives_on, .. }) if lives_on == "a"),
        "{elsewhere:?}"
    );
    let moved =
        admin.set_group(&group("billing"), Safety::Checked, |group| group.cluster = cluster("b")).await;
    assert!(matches!(moved, Err(AdminError::Misplaced { .. })), "{moved:?}");
    let forced =
        admin.set_group(&group("billing"), Safety::Forced, |group| group.cluster = cluster("b")).await;
    assert_eq!(forced.unwrap().cluster, cluster("b"));
}

#[tokio::test]
async fn what_does_not_exist_is_said_and_not_created() {
    let Estate { admin, .. } = estate(Format::Json).await;
    let missing = [
        admin.add_topic(&topic("t"), Format::Json, &cluster("nowhere"), |_| ()).await.map(drop),
        admin.add_group(&group("g"), Format::Json, &topic("nowhere"), |_| ()).await.map(drop),
        admin
            .set_topic(&topic("orders"), Safety::Forced, |topic| topic.cluster = cluster("nowhere"))
            .await
            .map(drop),
        admin.remove_group(&group("nowhere"), Safety::Forced).await,
        admin.producers(&topic("nowhere")).await.map(drop),
        admin.cluster(&cluster("nowhere")).await.map(drop),
    ];
    for result in missing {
        assert!(matches!(&result, Err(AdminError::Missing { name, .. }) if name == "nowhere"), "{result:?}");
    }
    assert_eq!(admin.topics().await.unwrap().len(), 1);
    assert_eq!(admin.groups().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_entry_is_added_once_and_an_empty_node_is_filled() {
    let Estate { admin, registry } = estate(Format::Json).await;
    let twice =
        admin.add_cluster(&cluster("a"), Format::Json, |meta| meta.bootstrap = "h:9092".to_owned()).await;
    assert!(matches!(twice, Err(AdminError::Exists { what: "cluster", .. })), "{twice:?}");
    registry.create("/zms/topic/half", bytes::Bytes::new()).await.unwrap();
    assert!(matches!(admin.topic(&topic("half")).await, Err(AdminError::Missing { .. })));
    admin.add_topic(&topic("half"), Format::Json, &cluster("b"), |_| ()).await.unwrap();
    assert_eq!(admin.topic(&topic("half")).await.unwrap().cluster, cluster("b"));
}

#[tokio::test]
async fn what_is_in_use_is_not_removed_unless_forced() {
    let Estate { admin, registry } = estate(Format::Json).await;
    registry.register("/zms/topic/orders/10.0.0.1||p||1||t||2", "{}".into()).await.unwrap();
    registry.register("/zms/consumergroup/billing/10.0.0.2||c||1||t||2", "{}".into()).await.unwrap();
    let users = |result: Result<(), AdminError>| match result {
        Err(AdminError::InUse { users, .. }) => users,
        other => panic!("{other:?}"),
    };
    let on_a = users(admin.remove_cluster(&cluster("a"), Safety::Checked).await);
    assert_eq!(on_a, ["topic orders", "group billing"]);
    let of_orders = users(admin.remove_topic(&topic("orders"), Safety::Checked).await);
    assert_eq!(of_orders, ["group billing", "producer 10.0.0.1||p||1||t||2"]);
    let of_billing = users(admin.remove_group(&group("billing"), Safety::Checked).await);
    assert_eq!(of_billing, ["member 10.0.0.2||c||1||t||2"]);

    admin.remove_group(&group("billing"), Safety::Forced).await.unwrap();
    admin.remove_topic(&topic("orders"), Safety::Forced).await.unwrap();
    admin.remove_cluster(&cluster("a"), Safety::Checked).await.unwrap();
    assert_eq!(registry.children("/zms/topic").await.unwrap().unwrap().len(), 0);
}

#[tokio::test]
async fn the_cluster_of_a_used_topic_is_not_changed_by_accident() {
    let Estate { admin, .. } = estate(Format::Json).await;
    let moved =
        admin.set_topic(&topic("orders"), Safety::Checked, |topic| topic.cluster = cluster("b")).await;
    assert!(matches!(moved, Err(AdminError::InUse { .. })), "{moved:?}");
    let forced =
        admin.set_topic(&topic("orders"), Safety::Forced, |topic| topic.cluster = cluster("b")).await;
    assert_eq!(forced.unwrap().cluster, cluster("b"));
}

#[tokio::test]
async fn a_group_with_members_follows_its_topic_but_is_not_bound_to_another() {
    let Estate { admin, registry } = estate(Format::Json).await;
    registry.register("/zms/consumergroup/billing/10.0.0.2||c||1||t||2", "{}".into()).await.unwrap();
    admin.add_topic(&topic("refunds"), Format::Json, &cluster("a"), |_| ()).await.unwrap();
    let rebind = |group: &mut GroupMeta| group.topic = topic("refunds");
    let rebound = admin.set_group(&group("billing"), Safety::Checked, rebind).await;
    assert!(matches!(rebound, Err(AdminError::InUse { .. })), "{rebound:?}");
    admin.set_topic(&topic("orders"), Safety::Forced, |topic| topic.cluster = cluster("b")).await.unwrap();
    let follow = |group: &mut GroupMeta| group.cluster = cluster("b");
    let followed = admin.set_group(&group("billing"), Safety::Checked, follow).await;
    assert_eq!(followed.unwrap().cluster, cluster("b"));
}

#[tokio::test]
async fn a_running_move_is_left_alone_even_by_force() {
    let estate = estate(Format::Json).await;
    estate.record("prepare").await;
    let admin = &estate.admin;
    let (orders, billing) = (topic("orders"), group("billing"));
    let gate = Gate { addresses: vec!["h".to_owned()], cluster: cluster("b") };
    let refused = [
        admin.set_topic(&orders, Safety::Forced, |topic| topic.cluster = cluster("b")).await.map(drop),
        admin.set_topic(&orders, Safety::Forced, |topic| topic.gate = Some(gate.clone())).await.map(drop),
        admin.set_group(&billing, Safety::Forced, |group| group.gate = Some(gate.clone())).await.map(drop),
        admin.add_group(&group("late"), Format::Json, &orders, |_| ()).await.map(drop),
        admin.remove_group(&billing, Safety::Forced).await,
        admin.remove_topic(&orders, Safety::Forced).await,
    ];
    for result in refused {
        assert!(
            matches!(&result, Err(AdminError::Moving { state, .. }) if state.contains("prepare")),
            "{result:?}"
        );
    }
    let suspended = admin.set_group(&billing, Safety::Checked, |group| group.suspend = true).await;
    assert!(suspended.unwrap().suspend, "what does not touch the route goes on");
    estate.record("idle").await;
    admin.set_topic(&orders, Safety::Forced, |topic| topic.cluster = cluster("b")).await.unwrap();
}

#[tokio::test]
async fn an_edit_is_made_anew_on_what_somebody_else_wrote_meanwhile() {
    let Estate { admin, registry } = estate(Format::Json).await;
    let rival = registry.connect();
    let mut calls = 0;
    let written = admin
        .set_cluster(&cluster("a"), |meta| {
            calls += 1;
            meta.kafka_id = Some("id".to_owned());
            if calls == 1 {
                let data = r#"{"schema":1,"bootstrap":"new:9092","owner":"x"}"#;
                let write = rival.set("/zms/cluster/a", data.into(), 0);
                futures_util::FutureExt::now_or_never(write).expect("in memory").unwrap();
            }
        })
        .await
        .unwrap();
    assert_eq!((calls, written.bootstrap.as_str()), (2, "new:9092"));
    let node = registry.read("/zms/cluster/a").await.unwrap().unwrap();
    assert_eq!(&node.data[..], br#"{"schema":1,"bootstrap":"new:9092","owner":"x","clusterId":"id"}"#);
}

#[tokio::test]
async fn an_edit_that_changes_nothing_writes_nothing() {
    let Estate { admin, registry } = estate(Format::Json).await;
    admin.set_cluster(&cluster("a"), |_| ()).await.unwrap();
    assert_eq!(registry.read("/zms/cluster/a").await.unwrap().unwrap().version, 0);
}

#[tokio::test]
async fn settings_that_could_not_work_are_refused() {
    let Estate { admin, .. } = estate(Format::Json).await;
    let set = |name: &'static str, value: &'static str| {
        let admin = admin.clone();
        async move {
            admin
                .set_cluster(&cluster("a"), |meta| {
                    drop(meta.properties.insert(name.to_owned(), value.to_owned()));
                })
                .await
        }
    };
    assert!(matches!(set("plugin.library.paths", "x.so").await, Err(AdminError::Invalid { .. })));
    let plain = set("sasl.password", "hunter2").await.unwrap_err();
    assert!(matches!(plain, AdminError::Secret { .. }) && !plain.to_string().contains("hunter2"), "{plain}");
    set("sasl.password", "${env:KAFKA_PW}").await.unwrap();
    let gate = Gate { addresses: vec!["10.0.0.1 10.0.0.2".to_owned()], cluster: cluster("b") };
    let two_in_one =
        admin.set_topic(&topic("orders"), Safety::Checked, |topic| topic.gate = Some(gate.clone())).await;
    assert!(
        matches!(two_in_one, Err(AdminError::Invalid { ref field, .. }) if field == "gate"),
        "{two_in_one:?}"
    );
    let no_servers = admin.add_cluster(&cluster("c"), Format::Json, |_| ()).await;
    assert!(
        matches!(no_servers, Err(AdminError::Invalid { ref field, .. }) if field == "bootstrap"),
        "{no_servers:?}"
    );
    let tuned = admin
        .set_topic(&topic("orders"), Safety::Checked, |t| {
            drop(t.producer.insert("acks".to_owned(), "0".to_owned()));
        })
        .await;
    assert!(matches!(tuned, Err(AdminError::Invalid { .. })), "{tuned:?}");
}

#[tokio::test]
async fn producer_settings_are_checked_over_the_properties_of_each_cluster_that_they_meet() {
    let Estate { admin, .. } = estate(Format::Json).await;
    let limit = |meta: &mut ClusterMeta| {
        drop(meta.properties.insert("message.max.bytes".to_owned(), "200000".to_owned()));
    };
    admin.set_cluster(&cluster("b"), limit).await.unwrap();
    let batch =
        |topic: &mut TopicMeta| drop(topic.producer.insert("batchSize".to_owned(), "500000".to_owned()));
    let orders = topic("orders");
    let refused = |result: Result<TopicMeta, AdminError>| match result {
        Err(AdminError::Invalid { field, reason }) => {
            assert!(field == "producer" && reason.contains("200000 bytes"), "{field}: {reason}");
        }
        other => panic!("{other:?}"),
    };
    refused(admin.add_topic(&topic("late"), Format::Json, &cluster("b"), batch).await);
    admin.set_topic(&orders, Safety::Checked, batch).await.unwrap();
    refused(admin.set_topic(&orders, Safety::Forced, |topic| topic.cluster = cluster("b")).await);
    let gate = Gate { addresses: vec!["10.0.0.1".to_owned()], cluster: cluster("b") };
    refused(admin.set_topic(&orders, Safety::Checked, |topic| topic.gate = Some(gate.clone())).await);
}

#[tokio::test]
async fn settings_of_others_that_cannot_work_do_not_stand_in_the_way_of_mending() {
    let Estate { admin, registry } = estate(Format::Json).await;
    let topics = r#"{"schema":1,"cluster":"a","producer":{"linger":"40s","acks":"0"}}"#;
    registry.create("/zms/topic/odd", topics.into()).await.unwrap();
    let groups = r#"{"schema":1,"cluster":"a","topic":"orders","consumer":{"sessionTimeout":"soon"}}"#;
    registry.create("/zms/consumergroup/odd", groups.into()).await.unwrap();
    let set = |name: &'static str, value: &'static str| {
        move |settings: &mut std::collections::BTreeMap<String, String>| {
            settings.insert(name.to_owned(), value.to_owned());
        }
    };
    let (topic, group) = (topic("odd"), group("odd"));
    let other = set("compression", "lz4");
    admin.set_topic(&topic, Safety::Checked, |meta| other(&mut meta.producer)).await.unwrap();
    let worse = set("linger", "50s");
    let worse = admin.set_topic(&topic, Safety::Checked, |meta| worse(&mut meta.producer)).await;
    assert!(matches!(worse, Err(AdminError::Invalid { ref field, .. }) if field == "producer"), "{worse:?}");
    let mended = set("linger", "20ms");
    admin.set_topic(&topic, Safety::Checked, |meta| mended(&mut meta.producer)).await.unwrap();

    admin.set_group(&group, Safety::Checked, |group| group.suspend = true).await.unwrap();
    let worse = set("maxPollInterval", "5 weeks");
    let worse = admin.set_group(&group, Safety::Checked, |group| worse(&mut group.consumer)).await;
    assert!(matches!(worse, Err(AdminError::Invalid { ref field, .. }) if field == "consumer"), "{worse:?}");
}

#[tokio::test]
async fn servers_without_a_host_or_a_port_are_refused() {
    let Estate { admin, .. } = estate(Format::Json).await;
    for servers in ["nonsense", "h:9092,nonsense", ":9092", "h:0", "h:port"] {
        let added =
            admin.add_cluster(&cluster("c"), Format::Json, |meta| meta.bootstrap = servers.to_owned()).await;
        assert!(
            matches!(added, Err(AdminError::Invalid { ref field, .. }) if field == "bootstrap"),
            "{servers}: {added:?}"
        );
    }
    let servers = "h:9092, SASL_SSL://k:9093 [::1]:9094";
    admin.add_cluster(&cluster("c"), Format::Json, |meta| meta.bootstrap = servers.to_owned()).await.unwrap();
}

#[tokio::test]
async fn a_node_that_cannot_be_read_is_listed_blocks_removal_and_can_be_forced_out() {
    let Estate { admin, registry } = estate(Format::Json).await;
    registry.create("/zms/consumergroup/broken", "bindingTopic=x,y".into()).await.unwrap();
    let groups = admin.groups().await.unwrap();
    assert_eq!(groups.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["billing", "broken"]);
    assert!(groups[1].meta.is_err());
    let removed = admin.remove_cluster(&cluster("b"), Safety::Checked).await;
    assert!(
        matches!(removed, Err(AdminError::InUse { ref users, .. }) if users == &["group broken"]),
        "{removed:?}"
    );
    let checked = admin.remove_group(&group("broken"), Safety::Checked).await;
    assert!(matches!(checked, Err(AdminError::Unreadable(_))), "{checked:?}");
    admin.remove_group(&group("broken"), Safety::Forced).await.unwrap();
}

#[tokio::test]
async fn live_clients_are_listed_with_what_they_say() {
    let Estate { admin, registry } = estate(Format::Json).await;
    registry
        .register("/zms/topic/orders/10.0.0.1||pod||2.1||2024-05-01T10:00:00||7", r#"{"proto":1}"#.into())
        .await
        .unwrap();
    let clients = admin.producers(&topic("orders")).await.unwrap();
    assert_eq!(clients.len(), 1);
    assert_eq!(clients[0].instance.as_deref(), Some("pod"));
    assert_eq!(clients[0].data, Some(serde_json::json!({ "proto": 1 })));
    assert_eq!(admin.members(&group("billing")).await.unwrap(), []);
}

#[tokio::test]
async fn a_registry_that_does_not_answer_is_an_error() {
    let Estate { admin, registry } = estate(Format::Json).await;
    registry.disconnect();
    let result = admin.clusters().await;
    assert!(matches!(result, Err(AdminError::Registry(RegistryError::Unavailable { .. }))), "{result:?}");
}

#[test]
fn edits_can_be_made_on_any_thread() {
    fn assert_send(_: &impl Send) {}
    let admin = Admin::new(MemoryRegistry::new().shared());
    let (topic, group) = (topic("orders"), group("billing"));
    assert_send(&admin.set_topic(&topic, Safety::Checked, |_| ()));
    assert_send(&admin.add_group(&group, Format::Json, &topic, |_| ()));
    assert_send(&admin.remove_group(&group, Safety::Checked));
    assert_send(&admin.clusters());
}

#[tokio::test]
async fn the_record_of_a_move_is_shown_once_there_is_one() {
    let estate = estate(Format::Json).await;
    assert_eq!(estate.admin.migration(&topic("refunds")).await.unwrap(), None);
    estate.record("fence").await;
    let record = estate.admin.migration(&topic("orders")).await.unwrap().expect("just written");
    assert!(record.is_running() && record.id == "m1", "{record:?}");
}
