"""A living node: it joins each pure mind to its log, its timers and its peers, and knows the world only through
`runtime/`.
"""
