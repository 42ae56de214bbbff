"""Transactions: who may write under a transactional id, which partitions it touched, how it ended."""
