"""The reading half of `format("headrace")`: options, planning and the tasks that fetch; it asks the cluster through
`blocking` and knows nothing of the sink.
"""
