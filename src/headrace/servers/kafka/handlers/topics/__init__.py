"""Topics and their partitions: described, created, grown and deleted."""
