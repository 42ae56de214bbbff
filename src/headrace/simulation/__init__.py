"""A whole node in one process on virtual time, with a disk and a network that fail on command."""
