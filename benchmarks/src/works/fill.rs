//! Fills a topic before it is consumed.

use std::time::Duration;

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, Producer},
};

use super::payload;
use crate::{Failure, job::Job, settings};

/// Sends the job's messages, evenly over the partitions. Ends when all of them are acknowledged.
pub(crate) fn fill(job: &Job, partitions: i32) -> Result<(), Failure> {
    let producer: BaseProducer = settings::producer(job, settings::PRODUCER).create()?;
    let mut payload = payload::blank();
    for (number, partition) in (0..job.messages).zip((0..partitions).cycle()) {
        payload::number(&mut payload, number);
        send(&producer, &job.topic, partition, &payload)?;
    }
    producer.flush(Duration::from_secs(60))?;
    verify(&producer, job, partitions)
}

fn send(producer: &BaseProducer, topic: &str, partition: i32, payload: &[u8]) -> Result<(), Failure> {
    let mut record: BaseRecord<'_, (), [u8]> = BaseRecord::to(topic).partition(partition).payload(payload);
    while let Err((error, refused)) = producer.send(record) {
        if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
            return Err(error.into());
        }
        producer.poll(Duration::from_millis(10));
        record = refused;
    }
    Ok(())
}

/// A cluster that keeps less than was sent would make consumers wait for ever.
fn verify(producer: &BaseProducer, job: &Job, partitions: i32) -> Result<(), Failure> {
    let mut held = 0;
    for partition in 0..partitions {
        let (low, high) =
            producer.client().fetch_watermarks(&job.topic, partition, Duration::from_secs(10))?;
        held += (high - low).unsigned_abs();
    }
    if held == job.messages {
        return Ok(());
    }
    Err(format!("{} holds {held} of {} messages", job.topic, job.messages).into())
}
