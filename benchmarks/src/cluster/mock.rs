//! librdkafka's mock cluster, in a process of its own: its CPU time is not a client's.

use std::{
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout},
};

use rdkafka::mocking::MockCluster;

use crate::{Failure, child};

/// The process, asked over its standard input and output. Ends with this value.
pub(super) struct MockProcess {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(super) bootstrap: String,
}

impl MockProcess {
    pub(super) fn start() -> Result<Self, Failure> {
        let mut child = child::spawn(["mock-cluster"])?;
        let requests = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().ok_or("a child without output")?);
        let mut bootstrap = String::new();
        answers.read_line(&mut bootstrap)?;
        Ok(Self { child, requests, answers, bootstrap: bootstrap.trim().to_owned() })
    }

    pub(super) fn create_topic(&mut self, topic: &str, partitions: i32) -> Result<(), Failure> {
        let requests = self.requests.as_mut().ok_or("the mock cluster is gone")?;
        writeln!(requests, "{topic} {partitions}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim() {
            "ok" => Ok(()),
            other => Err(format!("the mock cluster did not create {topic}: {other:?}").into()),
        }
    }
}

impl Drop for MockProcess {
    /// The end of its input is the process's sign to end.
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Err(error) = self.child.wait() {
            eprintln!("bench: the mock cluster's process: {error}");
        }
    }
}

/// The other end of [`MockProcess`]: prints the address, then creates a topic for each line read, until the input ends.
pub(crate) fn serve() -> Result<(), Failure> {
    let cluster = MockCluster::new(1)?;
    println!("{}", cluster.bootstrap_servers());
    for line in io::stdin().lock().lines() {
        let answer = match create_as_asked(&cluster, &line?) {
            Ok(()) => "ok".to_owned(),
            Err(failure) => failure.to_string(),
        };
        println!("{answer}");
    }
    Ok(())
}

fn create_as_asked(
    cluster: &MockCluster<'_, impl rdkafka::ClientContext>,
    line: &str,
) -> Result<(), Failure> {
    let (topic, partitions) = line.split_once(' ').ok_or("expected a name and a number of partitions")?;
    Ok(cluster.create_topic(topic, partitions.parse()?, 1)?)
}
