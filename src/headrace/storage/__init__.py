"""Logs on disk; it touches the world only through `runtime` and knows nothing of clients or of other nodes."""
