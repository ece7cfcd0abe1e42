//! `verify`.

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
};
use zms_integration_tests::{
    services::{Shared, require_services},
    wait::await_that,
};

use crate::operator::{Operator, end, interrupt, messages_of};

/// Deletes all messages that a topic on cluster a holds.
fn delete_messages(topic: &str) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", Shared::get().a().bootstrap());
    let client: AdminClient<DefaultClientContext> = config.create().unwrap();
    let mut all = TopicPartitionList::new();
    all.add_partition_offset(topic, 0, Offset::End).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let deleted = runtime.block_on(client.delete_records(&all, &AdminOptions::new())).unwrap();
    deleted.elements().iter().for_each(|partition| partition.error().unwrap());
}

#[test]
fn a_sound_topic_is_clean_and_messages_of_others_are_passed_over() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("3");
    operator.done(&["produce", &name, "an order", "--count", "7"]);
    let verify =
        ["verify", "--topic", &name, "--group", &name, "--count", "500", "--keys", "7", "-o", "json"];
    let report = operator.json(&verify);
    for (field, expected) in [
        ("sent", 500),
        ("acknowledged", 500),
        ("handled", 500),
        ("foreign", 7),
        ("lost", 0),
        ("unfinished", 0),
        ("reordered", 0),
        ("handledAgain", 0),
        ("storedTwice", 0),
    ] {
        assert_eq!(report[field], expected, "{field}: {report}");
    }
    assert_eq!((&report["verdict"], &report["clusters"]), (&"clean".into(), &serde_json::json!(["a"])));
    assert_eq!(operator.json(&verify)["foreign"], 0, "what was handled is committed");
}

#[test]
fn messages_that_are_deleted_before_they_are_handled_are_lost() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("1");
    operator.done(&["group", "set", &name, "--suspend"]);
    // Far more than a member fetches ahead while its group is suspended.
    let count = 150_000;
    let text = count.to_string();
    let verify =
        ["verify", "--topic", &name, "--group", &name, "--count", &text, "--timeout", "60s", "-o", "json"];
    let child = operator.spawn(&verify);
    await_that("all messages are stored", || messages_of(&name) == count);
    delete_messages(&name);
    operator.done(&["group", "set", &name, "--suspend", "false"]);
    let ended = end(child).expect(10);
    let report = ended.json(&verify);
    let number = |field: &str| report[field].as_i64().unwrap();
    assert_eq!(report["verdict"], "loss", "{report}");
    assert!(number("lost") > 0 && number("lost") + number("handled") == count, "{report}");
    assert!(report["examples"][0].as_str().unwrap().starts_with("lost: message "), "{report}");
    assert!(ended.stderr.contains(r#""code":10"#), "{ended:?}");
}

#[test]
fn messages_that_are_merely_late_are_unfinished_and_not_lost() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("1");
    operator.done(&["group", "set", &name, "--suspend"]);
    let verify = ["verify", "--topic", &name, "--group", &name, "--count", "5", "-o", "json"];
    let late = [&verify[..], &["--timeout", "20s"]].concat();
    let report = operator.run(&late).expect(14).json(&late);
    assert_eq!(
        (&report["verdict"], &report["unfinished"], &report["lost"]),
        (&"unfinished".into(), &5.into(), &0.into())
    );

    let child = operator.spawn(&verify);
    await_that("its messages are stored", || messages_of(&name) == 10);
    interrupt(&child);
    end(child).expect(14);
}

#[test]
fn what_cannot_be_verified_is_refused() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let (name, other) = (operator.topic_and_group("1"), operator.topic_and_group("1"));
    let verify = |more: &[&str]| operator.run(&[&["verify", "--topic", &name], more].concat());
    assert!(verify(&["--group", &other]).expect(5).stderr.contains("reads topic"));
    verify(&["--group", "nowhere"]).expect(3);
    verify(&["--group", &name, "--count", "0"]).expect(2);
    verify(&["--group", &name, "--rate", "0"]).expect(2);
    verify(&["--group", &name, "--keys", "0"]).expect(2);
    verify(&[]).expect(2);

    let member = operator.spawn(&["consume", &name]);
    await_that("another member is there", || {
        operator.json(&["clients", "--group", &name, "-o", "json"]) != serde_json::json!([])
    });
    assert!(verify(&["--group", &name]).expect(5).stderr.contains("other members"));
    interrupt(&member);
    end(member).expect(0);

    operator.done(&["cluster", "add", "dead", "--bootstrap", "127.0.0.1:9"]);
    operator.done(&["topic", "add", "t", "--cluster", "dead"]);
    operator.done(&["group", "add", "g", "--topic", "t"]);
    let ended = operator.run(&["verify", "--topic", "t", "--group", "g", "--timeout", "3s"]).expect(14);
    assert!(ended.stderr.contains("nothing was sent"), "{ended:?}");
}
