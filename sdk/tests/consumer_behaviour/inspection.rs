//! What an inspection is for programs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zms_sdk::consumer::{Counts, Health};

use crate::{
    fake::Event,
    rig::{LIMIT, Rig, Script, counts, until},
};

/// Names that programs rely on. Some may be added.
const PARTITION: [&str; 9] = [
    "partition",
    "position",
    "committed",
    "queuedMessages",
    "queuedBytes",
    "blockedMessages",
    "paused",
    "oldest",
    "trouble",
];

#[tokio::test]
async fn a_thousand_partitions_are_looked_at_again_and_again_while_messages_flow() {
    let (rig, cluster) = Rig::new(1000);
    let cluster = cluster.scripted();
    (0..1000).for_each(|p| cluster.fill(p, 3));
    let script = Script::new();
    script.hold(7, 1);
    let sub = script.subscribe(rig.subscriber().workers(8).commit_interval(Duration::from_secs(1)));
    until("a client is open", || cluster.state().members.len() == 1).await;
    cluster.tell(0, Event::Assign((0..1000).collect()));
    let look = || serde_json::to_value(sub.inspect()).unwrap();
    let deadline = Instant::now() + LIMIT;
    loop {
        let shown = look();
        // All but those of worker 7, which waits.
        if shown["counts"]["handled"].as_u64() >= Some(3 * 875)
            && shown["partitions"][7]["oldest"]["worker"] == 7
        {
            assert_eq!(shown["partitions"].as_array().map(Vec::len), Some(1000));
            assert_eq!(shown["partitions"][7]["oldest"]["offset"], 1);
            break;
        }
        assert!(Instant::now() < deadline, "{}", shown["counts"]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    script.release(7, 1);
    until("all is handled", || counts(&sub).handled == 3000).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn names_are_as_documented() {
    let (rig, cluster) = Rig::new(2);
    cluster.fill(0, 2);
    let script = Script::new();
    script.hold(0, 1);
    let sub = script.subscribe(rig.subscriber());
    until("one runs, the other is committed", || cluster.committed(0) == Some(1) && script.calls() == 2)
        .await;
    until("it is shown", || {
        sub.inspect().partitions.len() == 2 && sub.inspect().partitions[0].committed == Some(1)
    })
    .await;
    let shown = serde_json::to_value(sub.inspect()).unwrap();
    for (name, value) in [
        ("state", json!("running")),
        ("cluster", json!("a")),
        ("route", json!("a")),
        ("topic", json!("orders")),
        ("failure", Value::Null),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert!(shown["bufferedMessages"].is_u64() && shown["bufferedBytes"].is_u64());
    let partition = &shown["partitions"][0];
    let names: Vec<&String> = partition.as_object().unwrap().keys().collect();
    assert_eq!(names, PARTITION);
    assert_eq!((&partition["position"], &partition["queuedMessages"]), (&json!(1), &json!(1)));
    assert_eq!((&partition["oldest"]["offset"], &partition["oldest"]["attempt"]), (&json!(1), &json!(1)));
    assert!(partition["oldest"]["ageMs"].is_u64() && partition["oldest"]["keyHash"].is_null());
    let counts = serde_json::to_value(Counts::default()).unwrap();
    assert_eq!((&counts["pollErrors"], &counts["lateCompletions"]), (&json!(0), &json!(0)));
    assert_eq!(serde_json::to_value(sub.health()).unwrap(), json!({"status": "healthy"}));
    let starting = Health::Starting { causes: Vec::new() };
    assert_eq!(serde_json::to_value(starting).unwrap(), json!({"status": "starting", "causes": []}));
    script.release(0, 1);
    sub.shutdown(LIMIT).await.unwrap();
}
