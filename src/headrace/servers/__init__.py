"""Ways in: they translate between a protocol and the node, decide nothing, and do not know each other."""
