"""Clock, disk, network, threads and chance, each a small Protocol and one real class; the only room that touches the
system, and it imports nothing of the house.
"""
