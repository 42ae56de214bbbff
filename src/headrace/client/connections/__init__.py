"""Connections to the nodes of a cluster, and what a client knows of it: nodes, leaders, coordinators."""
