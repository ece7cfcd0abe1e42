//! Routes: read with their watches, resolved, adopted whole, one reconciler per entry.

mod error;

pub use error::ResolveError;
