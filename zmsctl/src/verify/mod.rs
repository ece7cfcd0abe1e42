//! `zmsctl verify`: numbered messages from end to end.

mod judge;
mod progress;
mod report;
mod tally;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use tokio::{
    sync::Semaphore,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use zms_core::sequence::stamp;
use zms_sdk::{
    Delivery, GroupName, Message, Producer, Receipt, SendError, Subscription, TopicName, Zms, admin::Admin,
    producer::SendOutcome,
};

use self::{
    judge::Judge,
    progress::ProgressLine,
    tally::{Place, Tally},
};
use crate::{context::Context, failure::Failure, print::note, signal::Interrupt, text::duration, view::View};

pub(crate) const ABOUT: &str = "\
Works with a topic and a group for this purpose: what else lies in the topic is passed over by the group, and counted.
The group must have no other members, as what they handle would look lost. A move of the topic meanwhile is welcome:
it is a good thing to verify.

A message is lost when the group's position is past it, or the topic no longer holds it, and it was never handled. One
that is merely late by the end of --timeout counts as unfinished.

Exit codes: 0 clean, 10 loss, 11 duplicates, 12 reordering, 13 several of these, 14 unfinished, 9 sends that were not
acknowledged and nothing worse.

Examples:
  zmsctl topic create smoke --cluster a --partitions 6 --register && zmsctl group add smoke --topic smoke
  zmsctl verify --topic smoke --group smoke
  zmsctl verify --topic smoke --group smoke --count 60000 --rate 500 --keys 100 --output json
";

/// Messages handed over and not yet reported.
const WINDOW: usize = 1_000;
/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Without any progress for this long the clusters are asked what became of the rest, and again each time.
const STALLED: Duration = Duration::from_secs(2);
/// After the last one: time for duplicates to show up.
const AFTERMATH: Duration = Duration::from_secs(1);
/// How long the end may take.
const END: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct VerifyArgs {
    /// The topic to send to.
    #[arg(long)]
    topic: TopicName,
    /// The group that handles; it must be bound to the topic.
    #[arg(long)]
    group: GroupName,
    /// How many messages to send.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    count: u64,
    /// Messages in a second; as fast as it goes unless given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    /// Over how many keys the messages are spread. Order is checked for each key.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    keys: u64,
    /// How long to wait for the group to join, and after the last message for the rest to be handled.
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "DURATION")]
    timeout: Duration,
}

impl VerifyArgs {
    pub(crate) async fn run(self, context: &Context) -> Result<View, Failure> {
        let mut interrupt = Interrupt::watch()?;
        let admin = context.admin().await?;
        self.check(&admin).await?;
        let zms = context.zms().await?;
        let mut judge = Judge::new(&admin, &self, context.wait());
        let measured = self.measure(&zms, &mut judge, &mut interrupt).await;
        let _ = zms.close(END).await;
        measured
    }

    async fn check(&self, admin: &Admin) -> Result<(), Failure> {
        let (topic, group) = (&self.topic, &self.group);
        admin.topic(topic).await?;
        let meta = admin.group(group).await?;
        if meta.topic != *topic {
            let bound = meta.topic;
            return Err(Failure::Refused(format!(
                "group {group} reads topic {bound}, not {topic}; add one for this purpose with `zmsctl group add \
                 <group> --topic {topic}`"
            )));
        }
        let members = admin.members(group).await?.len();
        if members > 0 {
            return Err(Failure::Refused(format!(
                "group {group} has {members} other members, and what they handle would look lost; add a group for this \
                 purpose with `zmsctl group add <group> --topic {topic}`"
            )));
        }
        if meta.suspend {
            note(&format!("group {group} is suspended: nothing is handled until it is resumed"));
        }
        Ok(())
    }

    async fn measure(
        &self,
        zms: &Zms,
        judge: &mut Judge<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<View, Failure> {
        let shared = Arc::new(Shared { tally: Mutex::new(Tally::new(run_name())) });
        let handler = Arc::clone(&shared);
        let subscriber = zms.subscribe(self.group.as_str());
        let subscription = subscriber
            .handle(move |delivery| {
                handler.handled(&delivery);
                std::future::ready(())
            })
            .await?;
        self.join(&subscription, interrupt).await?;

        let began = Instant::now();
        let progress = ProgressLine::show(&shared, self.count);
        let producer = zms.producer(self.topic.as_str()).await?;
        let interrupted = tokio::select! {
            () = self.send(&producer, &shared) => false,
            () = interrupt.received() => true,
        };
        if !interrupted {
            tokio::select! {
                () = self.wait(&shared, judge) => {}
                () = interrupt.received() => {}
            }
        }
        drop(progress);
        let took = began.elapsed();
        // What is done is committed, so that the next run does not begin with the rest of this one.
        let _ = subscription.shutdown(END).await;
        judge.judge(&shared).await;
        let summary = shared.tally().summary();
        Ok(report::view(self, &summary, took))
    }

    async fn join(&self, subscription: &Subscription, interrupt: &mut Interrupt) -> Result<(), Failure> {
        let group = &self.group;
        let unfinished = |what: String| Failure::Found { what, code: 14 };
        tokio::select! {
            ready = subscription.ready() => Ok(ready?),
            () = sleep(self.timeout) => {
                let inspection = subscription.inspect();
                let reason = inspection.failure.unwrap_or_else(|| "it gave no partitions".to_owned());
                let cluster = inspection.cluster;
                Err(unfinished(format!("group {group} could not be joined on cluster {cluster}: {reason}; nothing was sent")))
            }
            () = interrupt.received() => Err(unfinished("interrupted; nothing was sent".to_owned())),
        }
    }

    /// Hands all messages over. Dropping the future leaves those that were handed over to their results.
    async fn send(&self, producer: &Producer, shared: &Arc<Shared>) {
        let run = shared.tally().run().to_owned();
        let window = Arc::new(Semaphore::new(WINDOW));
        let mut pace = self.rate.map(|rate| {
            let mut pace = interval(Duration::from_secs(1) / rate);
            pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
            pace
        });
        for index in 0..self.count {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            // Never closed, so there is always a permit in the end.
            let Ok(permit) = Arc::clone(&window).acquire_owned().await else { return };
            let (key, number) = (format!("key-{}", index % self.keys), index / self.keys);
            shared.tally().sent(&key, number);
            let message = Message::new(stamp(&run, number)).key(key.clone());
            let results = Arc::clone(shared);
            let ended = move |result| {
                results.ended(&key, number, result);
                drop(permit);
            };
            producer.send_with(message, ended).await;
        }
    }

    /// Waits until everything that was acknowledged is handled or lost, or the time is over.
    async fn wait(&self, shared: &Shared, judge: &mut Judge<'_>) {
        let mut seen = shared.tally().progress();
        let (mut moved, mut acknowledged) = (Instant::now(), Instant::now());
        let mut asked = moved;
        loop {
            let now = shared.tally().progress();
            if now.in_flight == 0 && now.outstanding == 0 {
                return sleep(AFTERMATH).await;
            }
            if now.in_flight > 0 {
                // Each send has a limit of its own; the wait for the rest begins behind the last result.
                acknowledged = Instant::now();
            }
            if now != seen {
                (seen, moved) = (now, Instant::now());
            }
            if acknowledged.elapsed() >= self.timeout {
                return;
            }
            if moved.elapsed() >= STALLED && asked.elapsed() >= STALLED {
                judge.judge(shared).await;
                asked = Instant::now();
            }
            sleep(LOOK).await;
        }
    }
}

/// The books, as handlers, results and the command itself share them.
pub(crate) struct Shared {
    tally: Mutex<Tally>,
}

impl Shared {
    // Short: entries are made under it, nothing is called.
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handled(&self, delivery: &Delivery) {
        let place = Place {
            cluster: delivery.cluster().to_string(),
            partition: delivery.partition(),
            offset: delivery.offset(),
        };
        let (key, payload) = (delivery.key().unwrap_or_default(), delivery.payload().unwrap_or_default());
        self.tally().handled(key, payload, place);
    }

    fn ended(&self, key: &str, number: u64, result: Result<Receipt, SendError>) {
        let mut tally = self.tally();
        match result {
            Ok(receipt) => {
                let place = Place {
                    cluster: receipt.cluster.to_string(),
                    partition: receipt.partition,
                    // Unknown for a message that idempotence found there already: never known to be passed.
                    offset: receipt.offset.unwrap_or(i64::MAX),
                };
                tally.acknowledged(key, number, place);
            }
            Err(error) => {
                let may_have_arrived = error.outcome() == SendOutcome::Unknown;
                tally.failed(key, number, may_have_arrived, error.to_string());
            }
        }
    }
}

/// Tells runs apart.
fn run_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("verify-{}-{}", std::process::id(), now.as_millis())
}
