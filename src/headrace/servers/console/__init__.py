"""HTTP: health and metrics of a node, read-only."""
