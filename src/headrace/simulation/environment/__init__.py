"""What a simulated machine stands on, virtual time, disk, network, threads and chance, all drawn from one seed; knows
nothing of the nodes that run on it.
"""
