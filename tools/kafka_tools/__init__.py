"""Kafka's command-line tools against Apache Kafka and against Headrace: the same commands, the answers side by side."""
