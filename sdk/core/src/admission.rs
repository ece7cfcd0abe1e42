//! Bounded admission of bytes: first in, first out, no waiter starved, every byte returned exactly once.
