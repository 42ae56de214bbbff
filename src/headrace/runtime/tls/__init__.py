"""TLS between a network and those who use it: the same links and receivers, encrypted; keys and certificates come from
PEM files that may change while it runs. It knows no protocol above it.
"""
