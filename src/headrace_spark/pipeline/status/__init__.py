"""What runs tell through a compacted topic: their state, the lease that lets one run at a time go on, requests to stop,
and cleaning up; it needs no Spark.
"""
