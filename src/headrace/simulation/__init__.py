"""Whole nodes in one process on virtual time, with disks and a network that fail on command."""
