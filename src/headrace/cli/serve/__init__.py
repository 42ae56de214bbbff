"""`headrace serve`: one node in one process, put together from the real parts; may touch every room of a node."""
