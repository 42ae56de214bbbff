"""A program that knows a Spark Connect server and nothing else: `python connect_client.py sc://… bootstrap topic home`.

It copies a topic in a batch and as a stream, and prints how many records it saw.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(server: str, bootstrap_servers: str, topic: str, home: str) -> None:
    spark = SparkSession.builder.remote(server).getOrCreate()
    cluster = {"kafka.bootstrap.servers": bootstrap_servers}
    events = spark.read.format("headrace").options(**cluster, subscribe=topic).load()
    print(events.count())
    once = {"txnAppId": "copy", "txnVersion": "1"}
    for _ in range(2):  # the second is not new
        writer = events.select("value").write.format("headrace").mode("append")
        writer.options(**cluster, **once, topic=f"{topic}-batch").save()
    stream = spark.readStream.format("headrace").options(**cluster, subscribe=topic, startingOffsets="earliest").load()
    query = (
        stream.select("value")
        .writeStream.format("headrace")
        .options(**cluster, topic=f"{topic}-stream", checkpointLocation=f"{home}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
