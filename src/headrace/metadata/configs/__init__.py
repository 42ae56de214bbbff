"""What settings there are of topics, nodes and groups, their bounds and their meaning as values; knows no image."""
