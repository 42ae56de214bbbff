"""The offsets that groups have committed: to commit, read, delete and expire them, for groups of either kind."""
