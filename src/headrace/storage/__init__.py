"""Logs on disk: segments, indexes, recovery, retention, the flusher."""
