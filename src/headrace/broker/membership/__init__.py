"""How a node belongs to a cluster: whose its disk is, joining, registration and lease, and the connections to other
nodes.
"""
