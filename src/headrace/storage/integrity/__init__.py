"""Batches on disk checked one by one, for recovery, the scrub and `salvage`; it reads files that it opens itself and
needs no open log.
"""
