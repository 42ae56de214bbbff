"""One segment: its file of batches, its indexes, its producer snapshot, and the cache of what is kept open; it does not
know which log it belongs to.
"""
