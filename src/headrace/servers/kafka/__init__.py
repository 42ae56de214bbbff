"""The Kafka protocol: one connection class, one handler file per API."""
