"""The groups of one partition of `__consumer_offsets`, classic ones and those of KIP-848, and the offsets of both;
knows no transactions but by their producers.
"""
