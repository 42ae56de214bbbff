"""Consensus: messages and time go in, `Ready` comes out, which says what to save, what to send and what is decided;
pure, and may touch model alone.
"""
