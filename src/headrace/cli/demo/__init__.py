"""`headrace demo`: a tour of the commands on a cluster of its own, one node of which is killed; may start and kill
processes.
"""
