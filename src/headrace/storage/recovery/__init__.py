"""Open a log that is on disk, or create one: verify what was not flushed, remove what a crash has torn; everything
blocks and runs in a thread.
"""
