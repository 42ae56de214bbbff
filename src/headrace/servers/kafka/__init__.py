"""The Kafka protocol: a listener, its connections, and one handler file per API."""
