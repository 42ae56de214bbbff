"""A way out when a majority of the voters' disks is gone: a new cluster of one disk that is left, made while no node
runs.
"""
