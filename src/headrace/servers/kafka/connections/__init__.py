"""Sockets of clients: frames in, answers out in the order of the requests; it knows which handler begins, not what a
request means.
"""
