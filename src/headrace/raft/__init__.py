"""Consensus, pure: messages and time go in, `Ready` comes out: what to save, what to send, what is decided."""
