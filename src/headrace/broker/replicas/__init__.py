"""The replicas that a node keeps: in step with the image, fetched from leaders, in sync, whole, compacted, and within
the disk's space.
"""
