//! For users' own tests: in-process Kafka clusters, an in-memory registry, guarantee checkers.
