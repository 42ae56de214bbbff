"""Groups and transactions, as pure minds: a command becomes records and answers; only `apply` changes what is kept.

A mind stands for one partition of `__consumer_offsets` or `__transaction_state`. It lives on the node that leads that
partition, and is built by applying the partition's records from the first to the last. What must not be lost is
changed by `apply` alone. Sessions, timers and members who wait for an answer are soft: a new leader starts them anew.
"""
