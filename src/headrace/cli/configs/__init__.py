"""`headrace configs`: what a topic, a node or a group is set to; may touch `client`."""
