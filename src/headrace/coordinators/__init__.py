"""Groups and transactions as pure minds: a command becomes records and replies, and only `apply` changes what is kept;
may touch wire and model alone.
"""
