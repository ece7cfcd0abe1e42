//! Editing the registry: what operators do, as an API.
