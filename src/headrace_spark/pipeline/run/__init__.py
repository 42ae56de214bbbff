"""A pipeline's run from start to end: streaming queries, their progress, failures, restarts and how all that looks on a
terminal.
"""
