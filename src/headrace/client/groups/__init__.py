"""Reading as a member of a consumer group, and a group's committed offsets."""
