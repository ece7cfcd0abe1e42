//! The per-topic gate of sends: messages in flight and the hold bit in one atomic word.
