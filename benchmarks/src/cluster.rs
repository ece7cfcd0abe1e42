//! The cluster that is measured against: started for it, in processes of its own.

use std::{
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout},
};

use rdkafka::mocking::MockCluster;

use crate::{Failure, child};

/// A running cluster. Ends with this value.
pub(crate) struct Cluster {
    mock: MockProcess,
    topics: u32,
}

impl Cluster {
    /// Starts librdkafka's mock cluster in a process of its own.
    pub(crate) fn start_mock() -> Result<Self, Failure> {
        Ok(Self { mock: MockProcess::start()?, topics: 0 })
    }

    pub(crate) fn bootstrap(&self) -> &str {
        &self.mock.bootstrap
    }

    /// Creates a topic that nobody used before; its name.
    pub(crate) fn create_topic(&mut self, work: &str, partitions: i32) -> Result<String, Failure> {
        self.topics += 1;
        let topic = format!("bench-{work}-{}", self.topics);
        self.mock.create_topic(&topic, partitions)?;
        Ok(topic)
    }
}

/// The process behind a mock cluster, asked over its standard input and output.
struct MockProcess {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    bootstrap: String,
}

impl MockProcess {
    fn start() -> Result<Self, Failure> {
        let mut child = child::spawn(["mock-cluster"])?;
        let requests = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().ok_or("a child without output")?);
        let mut bootstrap = String::new();
        answers.read_line(&mut bootstrap)?;
        Ok(Self { child, requests, answers, bootstrap: bootstrap.trim().to_owned() })
    }

    fn create_topic(&mut self, topic: &str, partitions: i32) -> Result<(), Failure> {
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
pub(crate) fn serve_mock() -> Result<(), Failure> {
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
