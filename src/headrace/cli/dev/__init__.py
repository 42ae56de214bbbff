"""`headrace dev`: a whole cluster on one machine, a process for each node; may start processes, imports no part of a
node.
"""
