//! The Kafka adapter: librdkafka behind the engine port.
