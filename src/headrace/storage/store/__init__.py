"""All logs of a node together: found, opened, flushed, checkpointed, truncated and removed; it may use every other room
of storage.
"""
