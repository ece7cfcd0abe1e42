use clap::{CommandFactory, Parser};
use zms_sdk::registry::{MemoryRegistry, port::Registry};

use crate::{
    command::Cli,
    context::Context,
    failure::Failure,
    view::{Output, View},
};

/// Runs command lines on a registry in memory.
struct Operator {
    registry: MemoryRegistry,
}

impl Operator {
    fn new() -> Self {
        Self { registry: MemoryRegistry::new() }
    }

    fn run(&self, line: &str) -> Result<View, Failure> {
        let cli =
            Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{line}: {error}"));
        block_on(cli.command.run(&Context::memory(&self.registry, cli.output)))
    }

    fn json(&self, line: &str) -> serde_json::Value {
        let view = self.run(line).unwrap_or_else(|failure| panic!("{line}: {failure}"));
        serde_json::from_str(&view.render(Output::Json)).unwrap()
    }

    fn code(&self, line: &str) -> u8 {
        self.run(line).and_then(View::outcome).expect_err(line).code()
    }

    fn data(&self, path: &str) -> String {
        let node = block_on(self.registry.read(path)).unwrap().expect(path);
        String::from_utf8(node.data.to_vec()).unwrap()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Cluster a and b, topic orders on a, group billing.
fn estate() -> Operator {
    let operator = Operator::new();
    for line in [
        "zmsctl cluster add a --bootstrap a1:9092,a2:9092 --no-kafka-id",
        "zmsctl cluster add b --bootstrap b1:9092 --no-kafka-id",
        "zmsctl topic add orders --cluster a",
        "zmsctl group add billing --topic orders",
    ] {
        operator.json(line);
    }
    operator
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn what_is_added_is_shown_and_listed() {
    let operator = estate();
    let shown = operator.json("zmsctl group show billing");
    assert_eq!(
        (&shown["topic"], &shown["cluster"], &shown["format"]),
        (&"orders".into(), &"a".into(), &"json".into())
    );
    let table = operator.run("zmsctl cluster list").unwrap().render(Output::Table);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "BROKER", "BOOTSTRAP", "CLUSTERID", "FORMAT"]);
    assert_eq!(lines[1], ["a", "kafka", "a1:9092,a2:9092", "-", "json"]);
    assert_eq!(lines.len(), 3);
}

#[test]
fn every_setting_reaches_the_node() {
    let operator = estate();
    operator.json("zmsctl cluster set a --kafka-id X --property security.protocol=SSL --property sasl.password=${env:P}");
    operator.json("zmsctl cluster set a --unset-property security.protocol");
    let expected = r#"{"schema":1,"broker":"kafka","bootstrap":"a1:9092,a2:9092","clusterId":"X","properties":{"sasl.password":"${env:P}"}}"#;
    assert_eq!(operator.data("/zms/cluster/a"), expected);

    operator.json("zmsctl topic set orders --gate-addresses 10.0.0.1,10.0.0.2 --gate-cluster b --producer linger=5ms --statistics disk");
    let expected = r#"{"schema":1,"cluster":"a","gate":{"addresses":["10.0.0.1","10.0.0.2"],"cluster":"b"},"statisticsLogger":"disk","producer":{"linger":"5ms"}}"#;
    assert_eq!(operator.data("/zms/topic/orders"), expected);
    assert!(operator.json("zmsctl topic set orders --no-gate")["gate"].is_null());

    let line = "zmsctl group add g --topic orders --format properties --consume-from latest --broadcast --suspend --consumer sessionTimeout=10s";
    operator.json(line);
    let expected = "bindingTopic=orders\nclusterName=a\ntype=consumergroup\nconsumeFrom=latest\nbroadcast=true\nsuspend=true\nconsumer.sessionTimeout=10s";
    assert_eq!(operator.data("/zms/consumergroup/g"), expected);
    let resumed = operator.json("zmsctl group set g --suspend false");
    assert_eq!((&resumed["suspend"], &resumed["broadcast"]), (&false.into(), &true.into()));
}

#[test]
fn a_group_that_is_bound_to_another_topic_goes_to_its_cluster() {
    let operator = estate();
    operator.json("zmsctl topic add refunds --cluster b");
    let bound = operator.json("zmsctl group set billing --topic refunds");
    assert_eq!((&bound["topic"], &bound["cluster"]), (&"refunds".into(), &"b".into()));
}

#[test]
fn failures_have_the_documented_exit_codes() {
    let operator = estate();
    assert_eq!(operator.code("zmsctl cluster set a --property client.id=x"), 2);
    assert_eq!(operator.code("zmsctl cluster set a --property sasl.password=plain"), 2);
    assert_eq!(operator.code("zmsctl topic show nowhere"), 3);
    assert_eq!(operator.code("zmsctl topic add orders --cluster a"), 4);
    assert_eq!(operator.code("zmsctl cluster remove a"), 5);
    assert_eq!(operator.code("zmsctl group set billing --cluster b"), 5);
    block_on(operator.registry.create("/zms/topic/odd", "{".into())).unwrap();
    assert_eq!(operator.code("zmsctl topic list"), 7);
    assert_eq!(operator.code("zmsctl topic show odd"), 7);
    operator.registry.disconnect();
    assert_eq!(operator.code("zmsctl topic list"), 6);
}

#[test]
fn a_list_shows_what_can_be_read_beside_what_cannot() {
    let operator = estate();
    block_on(operator.registry.create("/zms/topic/odd", "{".into())).unwrap();
    let table = operator.run("zmsctl topic list").unwrap().render(Output::Table);
    assert!(
        table.contains("PROBLEM") && table.contains("orders") && table.contains("/zms/topic/odd"),
        "{table}"
    );
}

#[test]
fn clients_are_shown_by_role() {
    let operator = estate();
    let path = "/zms/topic/orders/10.0.0.1||pod||2.1||2024-05-01T10:00:00||7";
    block_on(operator.registry.register(path, r#"{"proto":1}"#.into())).unwrap();
    let all = operator.json("zmsctl clients");
    assert_eq!(all.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&all[0]["role"], &all[0]["of"], &all[0]["instance"]),
        (&"producer".into(), &"orders".into(), &"pod".into())
    );
    assert_eq!(operator.json("zmsctl clients --group billing"), serde_json::json!([]));
    assert_eq!(operator.code("zmsctl clients --group nowhere"), 3);
}

#[test]
fn plain_secrets_and_control_characters_are_not_printed() {
    let operator = Operator::new();
    let data = "bootAddr=h\u{1b}[31m\nproperties.sasl.password=hunter2";
    block_on(operator.registry.create("/zms/cluster/a", data.into())).unwrap();
    for output in [Output::Table, Output::Json] {
        let shown = operator.run("zmsctl cluster show a").unwrap().render(output);
        assert!(!shown.contains("hunter2") && !shown.contains('\u{1b}'), "{shown}");
    }
}

#[test]
fn settings_that_no_client_could_be_opened_with_are_refused() {
    let operator = estate();
    for (line, words) in [
        (
            "zmsctl topic set orders --producer linger=40s",
            "linger.ms is 40000 ms, message.timeout.ms is 30000 ms",
        ),
        ("zmsctl topic add late --cluster a --producer linger=soon", "linger=soon: expected a duration"),
        ("zmsctl topic set orders --producer compression=gzipp", "expected none, gzip, snappy, lz4 or zstd"),
        ("zmsctl group set billing --consumer maxPollInterval=30s", "max.poll.interval.ms is 30000 ms"),
        ("zmsctl topic set orders --producer lingr=5ms", "did you mean linger?"),
        ("zmsctl group set billing --consumer sessionTimeout=soon", "sessionTimeout=soon"),
        ("zmsctl group add g --topic orders --consumer sessionTimeout=soon", "sessionTimeout=soon"),
        ("zmsctl cluster add c --bootstrap nonsense --no-kafka-id", "nonsense is not host:port"),
        ("zmsctl cluster set a --bootstrap nonsense", "nonsense is not host:port"),
    ] {
        let failure = operator.run(line).unwrap_err();
        assert_eq!(failure.code(), 2, "{line}: {failure}");
        assert!(failure.to_string().contains(words), "{line}: {failure}");
    }
    assert_eq!(operator.data("/zms/topic/orders"), r#"{"schema":1,"cluster":"a"}"#);
    let bare = operator.json("zmsctl topic set orders --producer linger=20");
    assert_eq!(bare["producer"]["linger"], "20");
}

#[test]
fn a_topic_in_use_says_how_it_is_moved_live() {
    let operator = estate();
    operator.json("zmsctl group add audit --topic orders");
    let failure = operator.run("zmsctl topic set orders --cluster b").unwrap_err();
    assert_eq!(failure.code(), 5);
    let words = failure.to_string();
    let expected = "to move it live: add --force, then `zmsctl group set audit --cluster b`, \
                    `zmsctl group set billing --cluster b`";
    assert!(words.contains("in use by group audit, group billing") && words.ends_with(expected), "{words}");
    for line in [
        "zmsctl topic set orders --cluster b --force",
        "zmsctl group set audit --cluster b",
        "zmsctl group set billing --cluster b",
    ] {
        assert_eq!(operator.json(line)["cluster"], "b", "{line}");
    }
}

#[test]
fn changing_nothing_is_a_wrong_command_line() {
    for line in [
        "zmsctl topic set orders",
        "zmsctl topic set orders --force",
        "zmsctl group set billing",
        "zmsctl group set billing --force",
        "zmsctl cluster set a",
    ] {
        let error = Cli::try_parse_from(line.split_whitespace()).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        let words = error.to_string();
        assert!(words.contains("not provided") && words.contains("--unset-"), "{line}: {words}");
    }
}
