//! The metadata store: which cluster a topic lives on, who is connected. A port and its adapters.

pub mod port;
