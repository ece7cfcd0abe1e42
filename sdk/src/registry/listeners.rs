//! Who is told of changes.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::port::ChangeListener;

/// Listeners, held weakly; bounded by the listeners that live.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<Weak<dyn ChangeListener>>>);

impl Listeners {
    pub(super) fn add(&self, listener: Weak<dyn ChangeListener>) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }

    /// The listeners of now, to be called without any lock held.
    pub(super) fn live(&self) -> Vec<Arc<dyn ChangeListener>> {
        let listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().filter_map(Weak::upgrade).collect()
    }
}
