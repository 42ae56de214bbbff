"""For projects that test against Kafka: an in-process broker and pytest fixtures."""
