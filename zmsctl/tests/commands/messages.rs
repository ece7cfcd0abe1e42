//! `produce` and `consume`.

use std::{io::Read, process::Stdio};

use zms_integration_tests::{services::require_services, wait::await_that};

use crate::operator::{Operator, end, interrupt, messages_of};

#[test]
fn messages_come_out_as_they_went_in() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("1");
    let receipt = operator.done(&["produce", &name, "--key", "k", "--header", "trace=7f", "hello"]);
    assert_eq!(receipt, "a/0@0\n");
    let json = ["--output", "json"];
    let receipts =
        operator.run(&[&["produce", &name, "--count", "2", "--null", "--key", "k"], &json[..]].concat());
    let receipts = receipts.expect(0).json_lines();
    assert_eq!(
        (&receipts[1]["cluster"], &receipts[1]["partition"], &receipts[1]["offset"]),
        (&"a".into(), &0.into(), &2.into())
    );
    let fed =
        operator.feed(&["produce", &name, "--key-separator=:", "--partition", "0"], "x:1\ny:2:3\n").expect(0);
    assert_eq!(fed.stdout, "a/0@3\na/0@4\n");
    operator.feed(&["produce", &name, "-"], "plain\n").expect(0);

    let consume = [&["consume", &name, "--max", "6", "--timeout", "60s"], &json[..]].concat();
    let messages = operator.run(&consume).expect(0).json_lines();
    let seen: Vec<_> = messages.iter().map(|it| (it["key"].as_str(), it["payload"].as_str())).collect();
    let (k, tombstone) = (Some("k"), (Some("k"), None));
    assert_eq!(
        seen,
        [
            (k, Some("hello")),
            tombstone,
            tombstone,
            (Some("x"), Some("1")),
            (Some("y"), Some("2:3")),
            (None, Some("plain"))
        ]
    );
    assert_eq!(messages[0]["headers"], serde_json::json!([{ "name": "trace", "value": "7f" }]));
}

#[test]
fn what_was_printed_is_committed_and_nothing_else() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("1");
    operator.feed(&["produce", &name], "1\n2\n3\n4\n5\n").expect(0);
    assert_eq!(operator.done(&["consume", &name, "--max", "2"]), "a/0@0\t(null)\t1\na/0@1\t(null)\t2\n");

    // Ended by Ctrl-C after it printed the rest.
    let mut child = operator.spawn(&["consume", &name]);
    let mut rest = [0; "a/0@2\t(null)\t3\n".len() * 3];
    child.stdout.as_mut().unwrap().read_exact(&mut rest).unwrap();
    interrupt(&child);
    let ended = end(child).expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", "3 messages printed\n"));
    assert_eq!(operator.done(&["consume", &name, "--timeout", "3s"]), "");
}

#[test]
fn a_reader_that_goes_away_ends_it_without_a_panic() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("1");
    let mut child = operator.command(&["consume", &name]).spawn().unwrap();
    drop(child.stdout.take());
    operator.feed(&["produce", &name], "1\n2\n").expect(0);
    end(child).expect(0);
    assert_eq!(operator.done(&["consume", &name, "--max", "2"]).lines().count(), 2, "nothing was committed");

    let mut child = operator.command(&["produce", &name, "--count", "500", "x"]).spawn().unwrap();
    drop(child.stdout.take());
    end(child).expect(0);
    assert_eq!(messages_of(&name), 502, "messages are sent whether or not the receipts are read");

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = operator.command(&["consume", &name]);
    let ended = end(child.stdout(Stdio::from(full)).spawn().unwrap()).expect(1);
    assert!(ended.stderr.contains("cannot write"), "{ended:?}");
}

#[test]
fn a_message_that_cannot_be_sent_ends_it_with_what_was_sent_before() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("1");
    let nowhere = operator.run(&["produce", &name, "--partition", "7", "x", "-o", "json"]).expect(9);
    assert_eq!(nowhere.json_lines()[0]["arrived"], "no");
    let broken =
        operator.feed(&["produce", &name, "--key-separator"], "k\tv\nno separator\nk\tv\n").expect(2);
    assert_eq!(broken.stdout, "a/0@0\n");
    assert!(broken.stderr.contains("line 2"), "{broken:?}");
}

#[test]
fn bad_input_is_refused_before_anything_is_done() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("1");
    for (arguments, code) in [
        (&["produce", "no/name", "x"][..], 2),
        (&["produce", &name, "x", "--count", "0"], 2),
        (&["produce", &name, "x", "--null"], 2),
        (&["produce", &name, "x", "--header", "nothing"], 2),
        (&["produce", &name, "x", "--key-separator"], 2),
        (&["produce", &name, "-", "--count", "2"], 2),
        (&["produce", "nowhere", "x", "--wait", "5s"], 3),
        (&["consume", "nowhere"], 3),
        (&["consume", &name, "--max", "0"], 2),
        (&["consume", &name, "--timeout", "5"], 2),
    ] {
        assert_eq!(operator.run(arguments).code, code, "{arguments:?}");
    }
    operator.done(&["group", "set", &name, "--suspend"]);
    assert!(operator.run(&["consume", &name]).expect(5).stderr.contains("suspended"));
    assert_eq!(messages_of(&name), 0);
}

#[test]
fn a_cluster_that_does_not_answer_is_told_apart_from_silence() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    operator.done(&["cluster", "add", "dead", "--bootstrap", "127.0.0.1:9"]);
    operator.done(&["topic", "add", "t", "--cluster", "dead"]);
    operator.done(&["group", "add", "g", "--topic", "t"]);
    operator.run(&["consume", "g", "--timeout", "3s"]).expect(8);
    // Members show among the connected clients while they are there.
    let child = operator.spawn(&["consume", "g"]);
    await_that("the member is registered", || {
        operator.json(&["clients", "--group", "g", "-o", "json"])[0]["instance"] == "zmsctl"
    });
    interrupt(&child);
    end(child).expect(0);
    assert_eq!(operator.json(&["clients", "--group", "g", "-o", "json"]), serde_json::json!([]));
}
