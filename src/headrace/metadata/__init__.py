"""The cluster as an immutable image, and the decisions that change it. Pure."""
