"""The transactional ids of one partition of `__transaction_state`: who may write under each, which partitions it
touched, how it ended; knows no groups.
"""
