"""What every command shares: options, the connection to a cluster, output, complaints with exit codes, Ctrl-C; touches
the terminal and `client`.
"""
