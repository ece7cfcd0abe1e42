//! Opening a client for a route.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::warn;
use zms_core::{backoff::Backoff, route::GroupRoute};

use super::{
    alone::AloneClient, context::Context, delivery::Origin, holdings::Holdings, mode::Mode, options::Options,
    overrides::properties, pool::Pool, start::Rule,
};
use crate::engine::port::{ConsumerClient, ConsumerSpec, Engine};

/// Between attempts to open a client.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// No client is open; one is to be.
pub(super) struct Away {
    pub(super) target: Arc<GroupRoute>,
    /// The member comes from another cluster.
    pub(super) moved: bool,
    /// A client was open on this very cluster before, and has not finished there.
    pub(super) resumes: bool,
    /// The workers for this topic on this cluster.
    pub(super) pool: Option<Pool>,
    pub(super) since: Instant,
    pub(super) failures: u32,
    pub(super) not_before: Instant,
}

impl Away {
    /// Begins on a cluster.
    pub(super) fn towards(target: Arc<GroupRoute>, moved: bool) -> Self {
        let now = Instant::now();
        Self { target, moved, resumes: false, pool: None, since: now, failures: 0, not_before: now }
    }

    /// Another target, at once.
    pub(super) fn redirected(self, target: Arc<GroupRoute>) -> Self {
        Self { target, failures: 0, not_before: Instant::now(), ..self }
    }

    /// Puts the next attempt off, longer after each failure.
    pub(super) fn put_off(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.not_before =
            Instant::now() + AGAIN.delay(self.failures, RandomState::new().hash_one(self.failures));
    }

    pub(super) fn open(
        &self,
        engine: &dyn Engine,
        options: &Options,
        context: &Context,
    ) -> Result<(Box<dyn ConsumerClient>, Arc<Holdings>), String> {
        let route = &self.target;
        let told = &options.mode;
        let mode = Mode::of(told, route)?;
        let origin = Arc::new(Origin {
            group: route.group.clone(),
            cluster: route.cluster.name.clone(),
            topic: route.topic.clone(),
        });
        let elsewhere = told.comes_from_elsewhere(&route.cluster.name);
        if elsewhere && !self.moved {
            warn!(topic = %route.topic, cluster = %route.cluster.name,
                  "start_at has positions on other clusters only: the topic has moved here; beginning at its oldest message");
        }
        let consume_from = told.consume_from.unwrap_or(route.consume_from);
        let rule = Rule { consume_from, moved: self.moved || elsewhere };
        let holdings = Arc::new(Holdings::new(origin, Arc::clone(&context.books), rule));
        let spec = ConsumerSpec {
            cluster: Arc::clone(&route.cluster),
            client_id: options.client_id.clone(),
            group: mode.group(route).clone(),
            topic: route.topic.clone(),
            membership: mode.membership(),
            properties: client_properties(route, options, &mode)?,
        };
        let listener = Arc::clone(&holdings);
        let client: Result<Box<dyn ConsumerClient>, _> = match mode {
            Mode::Member => engine.open_consumer(&spec, listener),
            Mode::Alone(alone) => {
                let ledger = alone.positions.is_none().then(|| context.books.ledgers.of(&route.cluster.name));
                AloneClient::open(engine, &spec, listener, (alone.partitions, ledger))
                    .map(|client| Box::new(client) as _)
            }
        };
        Ok((client.map_err(|error| error.to_string())?, holdings))
    }
}

fn client_properties(
    route: &GroupRoute,
    options: &Options,
    mode: &Mode,
) -> Result<Vec<(String, String)>, String> {
    let mut properties = properties(&route.consumer, &options.properties)?;
    if let (Mode::Member, Some(instance)) = (mode, &options.mode.instance) {
        properties.push(("group.instance.id".to_owned(), instance.clone()));
    }
    Ok(properties)
}
