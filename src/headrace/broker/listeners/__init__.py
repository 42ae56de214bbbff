"""The listeners of a node as its settings say: where each is, and what it asks of whoever connects; it opens none."""
