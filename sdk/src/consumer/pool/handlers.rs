//! The kinds of handlers.

use std::{
    future::Future,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_util::FutureExt;

use super::{
    super::{
        IntoOutcome,
        batch::{Batch, IntoOutcomes},
        delivery::Delivery,
    },
    turn::Turn,
};

/// A handler that a thread calls.
pub(in super::super) trait Blocking: Send + Sync + 'static {
    /// Works a turn off.
    fn handle(&self, turn: &mut Turn);
}

/// A handler that is a future.
pub(in super::super) trait Waiting: Send + Sync + 'static {
    /// Works a turn off.
    fn handle(&self, turn: &mut Turn) -> impl Future<Output = ()> + Send;
}

/// Calls for one message each.
pub(in super::super) struct Each<H>(pub(in super::super) H);

/// Calls for several messages, so many at most.
pub(in super::super) struct Batches<H>(pub(in super::super) H);

/// How many messages a handler takes at once.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Portion {
    One,
    UpTo(NonZeroUsize),
}

impl<H, O> Blocking for Each<H>
where
    H: Fn(Delivery) -> O + Send + Sync + 'static,
    O: IntoOutcome,
{
    fn handle(&self, turn: &mut Turn) {
        while let Some(delivery) = turn.next() {
            turn.end(catch_unwind(AssertUnwindSafe(|| (self.0)(delivery).into_outcome())));
        }
    }
}

impl<H, O> Blocking for Batches<H>
where
    H: Fn(Batch) -> O + Send + Sync + 'static,
    O: IntoOutcomes,
{
    fn handle(&self, turn: &mut Turn) {
        if let Some(batch) = turn.batch() {
            turn.end_batch(catch_unwind(AssertUnwindSafe(|| (self.0)(batch).into_outcomes())));
        }
    }
}

impl<H, F, O> Waiting for Each<H>
where
    H: Fn(Delivery) -> F + Send + Sync + 'static,
    F: Future<Output = O> + Send,
    O: IntoOutcome,
{
    async fn handle(&self, turn: &mut Turn) {
        while let Some(delivery) = turn.next() {
            // The call itself may panic too, so that it belongs inside.
            let call = async { (self.0)(delivery).await.into_outcome() };
            turn.end(AssertUnwindSafe(call).catch_unwind().await);
        }
    }
}

impl<H, F, O> Waiting for Batches<H>
where
    H: Fn(Batch) -> F + Send + Sync + 'static,
    F: Future<Output = O> + Send,
    O: IntoOutcomes,
{
    async fn handle(&self, turn: &mut Turn) {
        if let Some(batch) = turn.batch() {
            let call = async { (self.0)(batch).await.into_outcomes() };
            turn.end_batch(AssertUnwindSafe(call).catch_unwind().await);
        }
    }
}
