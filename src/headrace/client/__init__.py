"""A client of a cluster: it produces, reads, joins groups and administers; it needs wire, model and runtime, never a
node's code.
"""
