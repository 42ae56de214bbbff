"""One partition's log while it is open: append, read, truncate, retention; belongs to the event loop and decides
nothing about replication.
"""
