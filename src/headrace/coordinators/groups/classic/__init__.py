"""One group of the classic protocol: its members join, sync and follow the assignment that their leader makes; knows no
other kind of group.
"""
