//! How routes reach the producers: the routing driver pushes, one reconciler per topic.

use std::sync::Arc;

use zms_core::route::TopicRoute;

use crate::registry::port::BoxFuture;

/// Takes a topic's route as adopted by its reconciler. The reconciler awaits it before it looks at the next change of
/// this topic.
pub(crate) trait TopicSink: Send + Sync {
    /// Makes `route` the one that sends of its topic follow. Ends when they do: messages in flight on another cluster
    /// have their result by then, or the limit for waiting on it has passed. Dropping the future before that leaves
    /// the topic where it was; adopting again makes up for it.
    fn adopt(self: Arc<Self>, route: Arc<TopicRoute>) -> BoxFuture<'static, ()>;
}
