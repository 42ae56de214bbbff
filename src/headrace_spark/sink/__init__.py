"""The writing half of `format("headrace")`: Arrow in, record batches out, a micro-batch published at once and exactly
once; it knows nothing of the source.
"""
