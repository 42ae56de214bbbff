"""All logs of a node together: found, opened, flushed, checkpointed, truncated and removed; the only room here that
waits on the event loop and knows every other one.
"""
