//! Which librdkafka properties the registry may set.
