"""Record batches: their header, records, compression, markers, and the checks that a batch of a client must pass; pure,
and knows nothing of requests.
"""
