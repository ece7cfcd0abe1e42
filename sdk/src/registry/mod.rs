//! The metadata store: which cluster a topic lives on, who is connected. A port and its adapters.

mod memory;
mod path;
pub mod port;

pub use memory::{Fault, MemoryRegistry};
