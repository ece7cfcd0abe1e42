//! Which worker handles a message.
