//! Java and Rust services share topics: the same key goes to the same partition, and nothing is changed on the way.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use zms_integration_tests::estate::{CLOSE_LIMIT, Estate};
use zms_integration_tests::services::{Shared, java_class_path, require_services_and_jdk};
use zms_integration_tests::wait::eventually;
use zms_sdk::admin::{ClusterMeta, Format};
use zms_sdk::{ClusterName, Delivery, GroupName, Outcome, TopicName, Zms};

/// Many, so that two partitioners agree by chance on hardly any table of keys.
const PARTITIONS: i32 = 31;

type Bytes = Option<Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    key: Bytes,
    value: Bytes,
    headers: Vec<(String, Bytes)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_choose_the_same_partition_and_read_what_the_other_wrote() {
    if !require_services_and_jdk() {
        return;
    }
    let estate = Estate::shared().await;
    let bootstrap = Shared::get().a().bootstrap();
    let (from_java, from_rust) =
        (estate.topic("from-java", PARTITIONS).await, estate.topic("from-rust", PARTITIONS).await);
    let zms = estate.open("interop").await;
    let sent = messages();

    let java_chose = java_produce(&bootstrap, from_java.as_str(), &sent);
    let rust_chose = rust_produce(&zms, from_rust.as_str(), &sent).await;
    for (message, (java, rust)) in sent.iter().zip(java_chose.iter().zip(&rust_chose)) {
        // A message without a key goes anywhere.
        assert!(message.key.is_none() || java == rust, "{message:?}: Java chose {java}, Rust {rust}");
    }

    let expected = |chosen: Vec<i32>| sorted(chosen.into_iter().zip(sent.clone()).collect());
    let group = estate.group(&from_java).await;
    assert_eq!(sorted(rust_consume(&zms, group.as_str(), sent.len()).await), expected(java_chose));
    assert_eq!(sorted(java_consume(&bootstrap, from_rust.as_str(), sent.len())), expected(rust_chose));
    zms.close(CLOSE_LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_java_service_follows_what_the_operator_wrote_in_its_own_format() {
    if !require_services_and_jdk() {
        return;
    }
    let estate = Estate::shared().await;
    let (admin, shared) = (estate.admin(), Shared::get());
    let (a, b) = (ClusterName::new("old-a").unwrap(), ClusterName::new("old-b").unwrap());
    for (name, cluster) in [(&a, shared.a()), (&b, shared.b())] {
        let fill = |meta: &mut ClusterMeta| meta.bootstrap = format!("{},127.0.0.1:1", cluster.bootstrap());
        admin.add_cluster(name, Format::Properties, fill).await.unwrap();
    }
    let (topic, group) = (TopicName::new("shipments").unwrap(), GroupName::new("logistics").unwrap());
    admin.add_topic(&topic, Format::Properties, &a, |_| ()).await.unwrap();
    admin.add_group(&group, Format::Properties, &topic, |_| ()).await.unwrap();
    let expected = |of_group: &str, of_topic: &str| {
        format!("{of_group},127.0.0.1:1 shipments\n{of_topic},127.0.0.1:1\n")
    };
    let route = || java(&["route", estate.connect_string(), "logistics"], "");
    assert_eq!(route(), expected(&shared.a().bootstrap(), &shared.a().bootstrap()));

    // A rewrite keeps the format.
    estate.set_topic_cluster(&topic, "old-b").await;
    assert_eq!(route(), expected(&shared.a().bootstrap(), &shared.b().bootstrap()));
    estate.set_group_cluster(&group, "old-b").await;
    assert_eq!(route(), expected(&shared.b().bootstrap(), &shared.b().bootstrap()));
}

fn messages() -> Vec<Message> {
    let keys: [&[u8]; 8] = [
        b"",
        b"k",
        b"order-42",
        "schlüssel-\u{20ac}-\u{1f511}".as_bytes(),
        b"\x00\x01\x02",
        b"\x80\xff\xfe\x7f\x80",
        b"with space, comma = equals",
        &[b'x'; 4096],
    ];
    let numbered = (0..40).map(|number| format!("user-{number}").into_bytes());
    let mut messages: Vec<Message> = keys
        .into_iter()
        .map(<[u8]>::to_vec)
        .chain(numbered)
        .map(|key| Message {
            value: Some([b"value of ", key.as_slice()].concat()),
            key: Some(key),
            headers: vec![],
        })
        .collect();

    let header = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
    messages.extend([
        Message { key: None, value: Some(b"no key".to_vec()), headers: vec![] },
        Message {
            key: Some(b"tombstone".to_vec()),
            value: None,
            headers: vec![header("why", Some(b"deleted"))],
        },
        Message {
            key: Some(b"empty".to_vec()),
            value: Some(vec![]),
            headers: vec![header("empty", Some(b""))],
        },
        Message {
            key: Some(b"headers".to_vec()),
            value: Some(vec![0, 255, 128]),
            headers: vec![
                header("repeated", Some(b"1")),
                header("null", None),
                header("repeated", Some(&[0xff, 0])),
                header("naïve", Some("größe".as_bytes())),
                header("", Some(b"no name")),
            ],
        },
    ]);
    messages
}

fn sorted(mut messages: Vec<(i32, Message)>) -> Vec<(i32, Message)> {
    messages.sort();
    messages
}

async fn rust_produce(zms: &Zms, topic: &str, messages: &[Message]) -> Vec<i32> {
    let mut partitions = Vec::new();
    for message in messages {
        let mut own = match (&message.key, &message.value) {
            (_, Some(value)) => zms_sdk::Message::new(value.clone()),
            (Some(key), None) => zms_sdk::Message::tombstone(key.clone()),
            (None, None) => unreachable!("not in the table"),
        };
        if let Some(key) = &message.key {
            own = own.key(key.clone());
        }
        for (name, value) in &message.headers {
            own = match value {
                Some(value) => own.header(name, value.clone()),
                None => own.null_header(name),
            };
        }
        partitions.push(zms.send(topic, own).await.unwrap().partition);
    }
    partitions
}

async fn rust_consume(zms: &Zms, group: &str, count: usize) -> Vec<(i32, Message)> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&found);
    let handler = move |delivery: Delivery| {
        let owned = |bytes: &[u8]| bytes.to_vec();
        let headers = delivery.headers().iter();
        let message = Message {
            key: delivery.key().map(owned),
            value: delivery.payload().map(owned),
            headers: headers.map(|h| (h.name.to_owned(), h.value.map(owned))).collect(),
        };
        sink.lock().unwrap().push((delivery.partition(), message));
        std::future::ready(Outcome::Done)
    };
    let subscription = zms.subscribe(group).handle(handler).await.unwrap();
    eventually("all are read", || found.lock().unwrap().len() >= count).await;
    subscription.shutdown(CLOSE_LIMIT).await.unwrap();
    found.lock().unwrap().clone()
}

fn java_produce(bootstrap: &str, topic: &str, messages: &[Message]) -> Vec<i32> {
    let lines: Vec<_> = messages.iter().map(write_line).collect();
    java(&["produce", bootstrap, topic], &lines.join("\n"))
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

fn java_consume(bootstrap: &str, topic: &str, count: usize) -> Vec<(i32, Message)> {
    let read = |line: &str| {
        let (partition, message) = line.split_once(' ').unwrap();
        (partition.parse().unwrap(), read_line(message))
    };
    java(&["consume", bootstrap, topic, &count.to_string()], "").lines().map(read).collect()
}

fn java(arguments: &[&str], input: &str) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/KafkaInterop.java");
    let mut java = Command::new("java")
        .args(["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"])
        .arg(java_class_path().unwrap())
        .arg(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It reads all its input before it answers, so this cannot block on a full pipe.
    java.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = java.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The text form that `KafkaInterop.java` describes.
fn write_line(message: &Message) -> String {
    let header =
        |(name, value): &(String, Bytes)| format!("{}={}", hex(Some(name.as_bytes())), hex(value.as_deref()));
    let headers: Vec<_> = message.headers.iter().map(header).collect();
    let headers = if headers.is_empty() { "-".to_owned() } else { headers.join(",") };
    format!("{} {} {headers}", hex(message.key.as_deref()), hex(message.value.as_deref()))
}

fn read_line(line: &str) -> Message {
    let [key, value, headers] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let header = |text: &str| {
        let (name, value) = text.split_once('=').unwrap();
        (String::from_utf8(unhex(name).unwrap()).unwrap(), unhex(value))
    };
    let headers = if headers == "-" { vec![] } else { headers.split(',').map(header).collect() };
    Message { key: unhex(key), value: unhex(value), headers }
}

fn hex(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "-".to_owned() };
    bytes.iter().fold("x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn unhex(text: &str) -> Bytes {
    let digits = text.strip_prefix('x')?;
    let byte = |index| u8::from_str_radix(&digits[index..index + 2], 16).unwrap();
    Some((0..digits.len()).step_by(2).map(byte).collect())
}
