"""One group of KIP-848: the coordinator says who owns which partition, and members follow at their own pace; knows no
other kind of group.
"""
