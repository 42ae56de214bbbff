"""A small Kafka-wire client on our own codec."""
