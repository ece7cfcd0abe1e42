//! Sends 100-byte messages as fast as the client takes them, until the last one is acknowledged.

use std::{collections::VecDeque, sync::Arc, thread, time::Duration};

use rdkafka::{
    ClientContext, Message,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{
        BaseRecord, DeliveryFuture, DeliveryResult, FutureProducer, FutureRecord, ProducerContext,
        ThreadedProducer,
    },
};
use zms_sdk::{Producer, Receipt, SendError};

use super::{Incumbent, Metric, Stage, Work, payload, tally::Tally};
use crate::{
    Failure,
    job::Job,
    settings,
    statistics::Goal,
    stopwatch::{Sample, Stopwatch},
};

pub(super) const WORK: Work = Work {
    name: "produce",
    what: "100-byte messages without a key, from one thread, to 8 partitions, until all are acknowledged",
    metric: Metric::Rate,
    stage: Stage::Fresh { partitions: 8 },
    messages: 1_000_000,
    mock_limit: u64::MAX,
    settings: &[("producer", settings::PRODUCER)],
    profile: "durable",
    note: None,
    ours,
    standards: &[],
    incumbents: &[
        Incumbent {
            name: "threaded",
            what: "rdkafka ThreadedProducer with a delivery callback",
            goal: Goal::AtLeast(1.0),
            cpu_goal: None,
            prepare: None,
            measure: threaded,
        },
        Incumbent {
            name: "future",
            what: "rdkafka FutureProducer with 10,000 in flight",
            goal: Goal::AtLeast(1.0),
            cpu_goal: None,
            prepare: None,
            measure: future,
        },
    ],
};

/// Messages sent before the clock starts, so that connections stand and metadata is there.
const WARM_UP: u64 = 1000;

fn ours(job: &Job) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let zms = super::connect(job).await?;
        let producer = zms.producer(&job.topic).await?;
        hand_over(&producer, WARM_UP).await?;
        let watch = Stopwatch::start();
        hand_over(&producer, job.messages).await?;
        let sample = watch.stop(job.messages);
        zms.close(super::CLOSE_LIMIT).await?;
        Ok(sample)
    })
}

/// Every message is a value of its own, as the SDK's users make them: the copy and its allocation are ours to pay.
async fn hand_over(producer: &Producer, messages: u64) -> Result<(), Failure> {
    let tally = Arc::new(Tally::default());
    tally.expect(messages);
    let mut payload = payload::blank();
    for number in 0..messages {
        payload::number(&mut payload, number);
        let tally = Arc::clone(&tally);
        let callback = move |result: Result<Receipt, SendError>| match result {
            Ok(_) => tally.acknowledged(),
            Err(error) => tally.failed(error.to_string()),
        };
        producer.send_with(zms_sdk::Message::new(payload.to_vec()), callback).await;
    }
    // On the thread that sends, which has nothing else to do.
    tally.wait()
}

fn threaded(job: &Job) -> Result<Sample, Failure> {
    let tally = Arc::new(Tally::default());
    let producer: ThreadedProducer<Reports> =
        settings::producer(job, settings::PRODUCER).create_with_context(Reports(Arc::clone(&tally)))?;
    send_all(&producer, &tally, &job.topic, WARM_UP)?;
    let watch = Stopwatch::start();
    send_all(&producer, &tally, &job.topic, job.messages)?;
    Ok(watch.stop(job.messages))
}

fn send_all(
    producer: &ThreadedProducer<Reports>,
    tally: &Tally,
    topic: &str,
    messages: u64,
) -> Result<(), Failure> {
    tally.expect(messages);
    let mut payload = payload::blank();
    for number in 0..messages {
        payload::number(&mut payload, number);
        let mut record: BaseRecord<'_, (), [u8]> = BaseRecord::to(topic).payload(&payload);
        while let Err((error, refused)) = producer.send(record) {
            wait_for_room(error)?;
            record = refused;
        }
    }
    tally.wait()
}

/// The client's own thread empties the queue; a full one holds work for tens of milliseconds.
fn wait_for_room(error: KafkaError) -> Result<(), Failure> {
    if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
        return Err(error.into());
    }
    thread::sleep(Duration::from_millis(1));
    Ok(())
}

/// Receives delivery reports on the producer's own thread. Nothing travels with a message: anything that does costs
/// the incumbent an allocation or a shared counter.
struct Reports(Arc<Tally>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, report: &DeliveryResult<'_>, (): ()) {
        match report {
            Ok(_) => self.0.acknowledged(),
            Err((error, message)) => self.0.failed(format!("partition {}: {error}", message.partition())),
        }
    }
}

/// What [`future`] keeps in flight.
const IN_FLIGHT: usize = 10_000;

fn future(job: &Job) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let producer: FutureProducer = settings::producer(job, settings::PRODUCER).create()?;
        send_windowed(&producer, &job.topic, WARM_UP).await?;
        let watch = Stopwatch::start();
        send_windowed(&producer, &job.topic, job.messages).await?;
        Ok(watch.stop(job.messages))
    })
}

async fn send_windowed(producer: &FutureProducer, topic: &str, messages: u64) -> Result<(), Failure> {
    let mut in_flight = VecDeque::with_capacity(IN_FLIGHT);
    let mut payload = payload::blank();
    for number in 0..messages {
        if in_flight.len() == IN_FLIGHT
            && let Some(oldest) = in_flight.pop_front()
        {
            acknowledged(oldest).await?;
        }
        payload::number(&mut payload, number);
        let record: FutureRecord<'_, (), [u8]> = FutureRecord::to(topic).payload(&payload);
        in_flight.push_back(producer.send_result(record).map_err(|(error, _)| error)?);
    }
    for delivery in in_flight {
        acknowledged(delivery).await?;
    }
    Ok(())
}

async fn acknowledged(delivery: DeliveryFuture) -> Result<(), Failure> {
    delivery.await?.map(drop).map_err(|(error, _)| error.into())
}
