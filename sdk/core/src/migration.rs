//! The migration record of a topic, as far as clients that only follow it read it.
