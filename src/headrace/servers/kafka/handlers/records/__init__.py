"""Writing, reading and locating records in partitions."""
