"""Record batches as Kafka's protocol carries them, to Arrow and back, without an object per record; bytes and arrays
only, no cluster and no Spark.
"""
