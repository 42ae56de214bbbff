"""Groups and transactions: a coordinator for each partition of an internal topic that is led here, and the questions
that go to those elsewhere.
"""
