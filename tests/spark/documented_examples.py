"""What Spark's guide to its Kafka connector shows, in Python, with the word for `format` left open.

Each function is one of the guide's examples, with topics and servers that exist here. They run in a `SparkProcess`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.spark.either_format import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

KEY_AND_VALUE = ("CAST(key AS STRING)", "CAST(value AS STRING)")


# ---- reading a stream: from now on, which is the default


def stream_of_one_topic(spark: SparkSession, word: str, servers: str, topics: Sequence[str]) -> DataFrame:
    frame = (
        spark.readStream.format(word).option("kafka.bootstrap.servers", servers).option("subscribe", topics[0]).load()
    )
    return frame.selectExpr(*KEY_AND_VALUE)


def stream_with_headers(spark: SparkSession, word: str, servers: str, topics: Sequence[str]) -> DataFrame:
    frame = (
        spark.readStream.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topics[0])
        .option("includeHeaders", "true")
        .load()
    )
    return frame.selectExpr(*KEY_AND_VALUE, "headers")


def stream_of_several_topics(spark: SparkSession, word: str, servers: str, topics: Sequence[str]) -> DataFrame:
    frame = (
        spark.readStream.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", ",".join(topics))
        .load()
    )
    return frame.selectExpr(*KEY_AND_VALUE)


def stream_of_a_pattern(spark: SparkSession, word: str, servers: str, topics: Sequence[str]) -> DataFrame:
    frame = (
        spark.readStream.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribePattern", f"{topics[0]}.*")
        .load()
    )
    return frame.selectExpr(*KEY_AND_VALUE)


# ---- reading what is there


def batch_of_one_topic(spark: SparkSession, word: str, servers: str, topics: Sequence[str]) -> DataFrame:
    frame = spark.read.format(word).option("kafka.bootstrap.servers", servers).option("subscribe", topics[0]).load()
    return frame.selectExpr(*KEY_AND_VALUE)


def batch_of_ranges(spark: SparkSession, word: str, servers: str, topics: Sequence[str]) -> DataFrame:
    first, second = topics
    frame = (
        spark.read.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", f"{first},{second}")
        .option("startingOffsets", f"""{{"{first}":{{"0":2,"1":-2}},"{second}":{{"0":-2,"1":1}}}}""")
        .option("endingOffsets", f"""{{"{first}":{{"0":4,"1":-1}},"{second}":{{"0":-1,"1":3}}}}""")
        .load()
    )
    return frame.selectExpr(*KEY_AND_VALUE)


def batch_of_a_pattern(spark: SparkSession, word: str, servers: str, topics: Sequence[str]) -> DataFrame:
    frame = (
        spark.read.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribePattern", f"{topics[0]}.*")
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )
    return frame.selectExpr(*KEY_AND_VALUE)


STREAMS = {
    "one topic": stream_of_one_topic,
    "with headers": stream_with_headers,
    "several topics": stream_of_several_topics,
    "a pattern": stream_of_a_pattern,
}
BATCHES = {"one topic": batch_of_one_topic, "ranges": batch_of_ranges, "a pattern": batch_of_a_pattern}


def rows_of_batch(spark: SparkSession, name: str, word: str, servers: str, topics: Sequence[str]) -> list[Any]:
    return [plain(row) for row in BATCHES[name](spark, word, servers, topics).collect()]


def begin_stream(spark: SparkSession, name: str, word: str, servers: str, topics: Sequence[str], table: str) -> None:
    """Into a table in memory. Returns when the stream has taken note of where the topics end."""
    frame = STREAMS[name](spark, word, servers, topics)
    frame.writeStream.format("memory").queryName(table).start().processAllAvailable()


def end_stream(spark: SparkSession, table: str) -> list[Any]:
    """What has come until now."""
    (query,) = (query for query in spark.streams.active if query.name == table)
    query.processAllAvailable()
    query.stop()
    return [plain(row) for row in spark.table(table).collect()]


# ---- writing


def write_stream_to_one_topic(
    spark: SparkSession, word: str, servers: str, source: str, target: str, place: str
) -> None:
    query = (
        _everything_as_stream(spark, word, servers, source)
        .selectExpr(*KEY_AND_VALUE)
        .writeStream.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("checkpointLocation", place)
        .start()
    )
    query.processAllAvailable()
    query.stop()


def write_stream_to_the_topics_in_it(
    spark: SparkSession, word: str, servers: str, source: str, target: str, place: str
) -> None:
    query = (
        _everything_as_stream(spark, word, servers, source)
        .selectExpr(f"'{target}' AS topic", *KEY_AND_VALUE)
        .writeStream.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("checkpointLocation", place)
        .start()
    )
    query.processAllAvailable()
    query.stop()


def _everything_as_stream(spark: SparkSession, word: str, servers: str, topic: str) -> DataFrame:
    reader = spark.readStream.format(word).option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    return reader.option("startingOffsets", "earliest").load()


def write_to_one_topic(spark: SparkSession, word: str, servers: str, source: str, target: str, place: str) -> None:
    (
        batch_of_one_topic(spark, word, servers, [source])
        .write.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .mode("append")
        .save()
    )


def write_to_the_topics_in_it(
    spark: SparkSession, word: str, servers: str, source: str, target: str, place: str
) -> None:
    (
        batch_of_one_topic(spark, word, servers, [source])
        .selectExpr(f"'{target}' AS topic", "key", "value")
        .write.format(word)
        .option("kafka.bootstrap.servers", servers)
        .mode("append")
        .save()
    )


def write_in_the_default_mode(
    spark: SparkSession, word: str, servers: str, source: str, target: str, place: str
) -> None:
    (
        batch_of_one_topic(spark, word, servers, [source])
        .write.format(word)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .save()
    )


WRITES = {
    "stream to one topic": write_stream_to_one_topic,
    "stream to the topics in it": write_stream_to_the_topics_in_it,
    "batch to one topic": write_to_one_topic,
    "batch to the topics in it": write_to_the_topics_in_it,
}


def write(spark: SparkSession, name: str, word: str, servers: str, source: str, target: str, place: str) -> None:
    WRITES[name](spark, word, servers, source, target, place)
