//! Fills a topic before it is consumed.

use std::time::Duration;

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    message::ToBytes,
    producer::{BaseProducer, BaseRecord, Producer},
};

use super::payload;
use crate::{Failure, job::Job, settings};

/// Sends the job's messages, evenly over the partitions. Ends when all of them are acknowledged. With `keys`, a key is
/// always in the same partition.
pub(crate) fn fill(job: &Job, partitions: i32, keys: Option<u64>) -> Result<(), Failure> {
    let producer: BaseProducer = settings::producer(job, settings::PRODUCER).create()?;
    let mut payload = payload::blank();
    for number in 0..job.messages {
        payload::number(&mut payload, number);
        let key = keys.map(|keys| payload::key_of(number, keys));
        let partition = i32::try_from(key.unwrap_or(number) % u64::from(partitions.unsigned_abs()))?;
        let key = key.map(|key| format!("key-{key:06}"));
        let mut record = BaseRecord::to(&job.topic).partition(partition).payload(&payload[..]);
        record.key = key.as_deref();
        send(&producer, record)?;
    }
    producer.flush(Duration::from_secs(60))?;
    verify(&producer, job, partitions)
}

/// Waits while the producer's queue is full.
pub(super) fn send<K: ToBytes + ?Sized>(
    producer: &BaseProducer,
    mut record: BaseRecord<'_, K, [u8]>,
) -> Result<(), Failure> {
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
