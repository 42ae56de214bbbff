"""Bytes to values and back: frames, messages, record batches. Pure."""
