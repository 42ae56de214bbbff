"""Keep the newest record of each key: which log is cleaned, what stays of it, and how cleaned segments replace the old
ones in a log that is in use.
"""
