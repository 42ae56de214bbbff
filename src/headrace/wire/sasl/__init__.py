"""The messages inside SASL's exchanges, bytes to values and back, and SCRAM's arithmetic: servers and clients use the
same; it knows nothing of connections.
"""
