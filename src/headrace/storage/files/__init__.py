"""The small files of a data directory and the names of all of them, and what an error of the disk means; it reads and
writes through `runtime.disk` only.
"""
