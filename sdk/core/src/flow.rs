//! Back-pressure marks: when a partition stops being fetched, and when it goes on.
