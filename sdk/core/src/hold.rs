//! Sends that wait while a topic is held: first in, first out, each with its deadline.
