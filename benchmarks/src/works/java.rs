//! Peers that are Java programs: `benchmarks/java`, run against the same cluster.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use zms_integration_tests::services;

use super::{Preparation, waits::WORKERS};
use crate::{Failure, child, frame, job::Job, stopwatch::Sample};

/// Names the jars of decaton and of what it needs, as a Java class path: they are not on Maven Central.
const DECATON_CLASS_PATH: &str = "ZMS_DECATON_CLASS_PATH";

/// It tells of its own closing as of an error.
const QUIET: &str = "-Dorg.slf4j.simpleLogger.log.io.confluent.parallelconsumer.internal.AbstractParallelEoSStreamProcessor=off";

/// Fetches its jars and compiles its program.
pub(super) fn prepare_parallel_consumer(preparation: &Preparation) -> Result<(), Failure> {
    prepare(preparation, "ParallelConsumerPeer", &parallel_consumer_class_path()?)
}

/// Compiles its program, where its jars are there.
pub(super) fn prepare_decaton(preparation: &Preparation) -> Result<(), Failure> {
    prepare(preparation, "DecatonPeer", &decaton_class_path()?)
}

pub(super) fn parallel_consumer(job: &Job) -> Result<Sample, Failure> {
    run(job, "ParallelConsumerPeer", &parallel_consumer_class_path()?)
}

pub(super) fn decaton(job: &Job) -> Result<Sample, Failure> {
    run(job, "DecatonPeer", &decaton_class_path()?)
}

fn parallel_consumer_class_path() -> Result<String, Failure> {
    Ok(services::jars(&sources().join("pom.xml"), "peers")?)
}

fn decaton_class_path() -> Result<String, Failure> {
    env::var(DECATON_CLASS_PATH).map_err(|_| {
        format!(
            "com.linecorp.decaton:decaton-processor is not on Maven Central; \
             {DECATON_CLASS_PATH} may name its jars and those that it needs"
        )
        .into()
    })
}

fn prepare(preparation: &Preparation, program: &str, class_path: &str) -> Result<(), Failure> {
    if preparation.mock {
        return Err("Java's client is measured against a real Kafka only".into());
    }
    let output = Command::new("javac")
        .args(["-cp", class_path, "-d"])
        .arg(classes(program))
        .args(["Account", program].map(|name| sources().join(name).with_extension("java")))
        .output()
        .map_err(|error| format!("javac: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("javac: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// The program prints one line, in the form of a measurement.
fn run(job: &Job, program: &str, class_path: &str) -> Result<Sample, Failure> {
    let process = Command::new("java")
        .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", QUIET, "-cp"])
        .arg(format!("{}:{class_path}", classes(program).display()))
        .args([program, &job.bootstrap, &job.topic, &job.group])
        .args([WORKERS.to_string(), job.messages.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("java: {error}"))?;
    Sample::from_json(&child::output_within(process, frame::LIMIT)?)
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("java")
}

/// Where a program's classes go: beside the jars of the services.
fn classes(program: &str) -> PathBuf {
    services::jar_directory(&format!("peers-{program}"))
}
