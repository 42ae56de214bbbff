"""The image of the cluster, the records that it is the sum of, as values and as bytes, and what can be read off it;
decides nothing.
"""
