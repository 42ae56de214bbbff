"""Clients of every kind that use the simulated cluster and write down in the history what they were told."""
