//! How routes reach the producers: the routing driver pushes, one reconciler per topic.

use std::sync::Arc;

use zms_core::route::TopicRoute;

use crate::registry::port::BoxFuture;

/// Takes a topic's route as adopted by its reconciler. The reconciler awaits it before it looks at the next change of
/// this topic.
pub(crate) trait TopicSink: Send + Sync {
    /// Makes `route` the one that sends of its topic follow, from the call on. The future ends when they do: a held
    /// route holds new sends by then; an open one on another client has sent what was held, after the messages in
    /// flight on the old client had their results, or the limit for waiting on them had passed.
    ///
    /// Dropping the future does not undo or stop the change; it goes on in the background.
    fn adopt(self: Arc<Self>, route: Arc<TopicRoute>) -> BoxFuture<'static, ()>;
}
