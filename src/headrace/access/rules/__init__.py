"""What somebody may do: access rules, and which of them match; may touch the names of principals and of operations."""
