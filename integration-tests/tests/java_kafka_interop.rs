//! Java and Rust services share topics: the same key goes to the same partition, and nothing is changed on the way.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use zms_integration_tests::services::{Shared, java_class_path, require_services_and_jdk};
use zms_integration_tests::wait::LIMIT;

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
    let cluster = Shared::get().a();
    let (from_java, from_rust) = (Shared::unique("from-java"), Shared::unique("from-rust"));
    cluster.create_topic(&from_java, PARTITIONS).unwrap();
    cluster.create_topic(&from_rust, PARTITIONS).unwrap();
    let sent = messages();

    let java_chose = java_produce(&cluster.bootstrap(), &from_java, &sent);
    let rust_chose = rust_produce(&cluster.bootstrap(), &from_rust, &sent).await;
    for (message, (java, rust)) in sent.iter().zip(java_chose.iter().zip(&rust_chose)) {
        // A message without a key goes anywhere.
        assert!(message.key.is_none() || java == rust, "{message:?}: Java chose {java}, Rust {rust}");
    }

    let expected = |chosen: Vec<i32>| sorted(chosen.into_iter().zip(sent.clone()).collect());
    assert_eq!(sorted(rust_consume(&cluster.bootstrap(), &from_java, sent.len())), expected(java_chose));
    assert_eq!(sorted(java_consume(&cluster.bootstrap(), &from_rust, sent.len())), expected(rust_chose));
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

async fn rust_produce(bootstrap: &str, topic: &str, messages: &[Message]) -> Vec<i32> {
    let producer: FutureProducer = client(bootstrap).set("partitioner", "murmur2_random").create().unwrap();
    let mut partitions = Vec::new();
    for message in messages {
        let headers = message.headers.iter().fold(OwnedHeaders::new(), |headers, (name, value)| {
            headers.insert(Header { key: name, value: value.as_ref() })
        });
        let mut record = FutureRecord::to(topic).headers(headers);
        record.key = message.key.as_ref();
        record.payload = message.value.as_ref();
        partitions.push(producer.send(record, LIMIT).await.map_err(|(error, _)| error).unwrap().partition);
    }
    partitions
}

fn rust_consume(bootstrap: &str, topic: &str, count: usize) -> Vec<(i32, Message)> {
    let consumer: BaseConsumer = client(bootstrap).set("group.id", "interop").create().unwrap();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let (mut found, limit) = (Vec::new(), Instant::now() + LIMIT);
    while found.len() < count && Instant::now() < limit {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else { continue };
        let message = message.unwrap();
        let headers = message.headers().map(|headers| {
            headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
        });
        let own = Message {
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.unwrap_or_default(),
        };
        found.push((message.partition(), own));
    }
    found
}

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("log_level", "0");
    config
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
