"""`headrace topics`: create, list, describe, alter, delete; may touch `client`, and `cli.cluster` for a warning about
the cluster's health.
"""
