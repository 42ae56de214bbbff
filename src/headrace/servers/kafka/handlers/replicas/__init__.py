"""Where replicas are, who leads them, and how they move."""
