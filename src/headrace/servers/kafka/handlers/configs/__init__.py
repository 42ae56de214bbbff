"""Settings of topics and nodes: described and altered."""
