"""Sending records in batches, with or without transactions; it reads nothing."""
