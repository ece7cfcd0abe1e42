//! Sends at an even pace, in a process of its own: its CPU time is not a consumer's.

use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{fill, payload};
use crate::{Failure, job::Job, settings};

/// Between bursts.
const TICK: Duration = Duration::from_millis(5);

/// Sends the job's messages to `partitions` in turns, evenly over the time that the job's partition is stuck. Each
/// carries the time at which it was sent.
pub(crate) fn feed(job: &Job, partitions: i32) -> Result<(), Failure> {
    let producer: BaseProducer = settings::producer(job, settings::PROMPT_PRODUCER).create()?;
    let mut payload = payload::blank();
    let began = Instant::now();
    let mut turns = (0..partitions).cycle();
    let mut sent = 0;
    while sent < job.messages {
        let due = due(job, began.elapsed());
        for partition in turns.by_ref().take(usize::try_from(due - sent)?) {
            payload::number(&mut payload, now());
            let record: BaseRecord<'_, (), [u8]> =
                BaseRecord::to(&job.topic).partition(partition).payload(&payload[..]);
            fill::send(&producer, record)?;
        }
        sent = due;
        producer.poll(Duration::ZERO);
        thread::sleep(TICK);
    }
    producer.flush(Duration::from_secs(60))?;
    if producer.in_flight_count() > 0 {
        return Err("not all messages were acknowledged".into());
    }
    Ok(())
}

/// Messages to have been sent by now.
fn due(job: &Job, elapsed: Duration) -> u64 {
    let due = u128::from(job.messages) * elapsed.as_nanos() / job.stuck.as_nanos().max(1);
    u64::try_from(due).map_or(job.messages, |due| due.min(job.messages))
}

/// Nanoseconds since 1970, which all processes of this machine agree on.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
