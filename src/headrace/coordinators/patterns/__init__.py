"""Regular expressions over names of topics and transactions, in time that no expression can blow up; knows neither
groups nor transactions.
"""
