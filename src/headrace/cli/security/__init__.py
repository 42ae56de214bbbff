"""`headrace security`: keys, certificates and a first administrator for a cluster; may touch files, and no node."""
