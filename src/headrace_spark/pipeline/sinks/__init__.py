"""Where a batch of the result goes, each batch exactly once: topics, Parquet, Delta and the console; it may write to
clusters and file systems.
"""
