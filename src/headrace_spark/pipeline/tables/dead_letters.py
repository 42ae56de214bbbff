"""Rejected records as they go to the dead-letter topic: as they came, and with headers that say what happened.

Key, value and headers are the original's, so that a record can be sent again once its cause is mended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace_spark.pipeline.decode.records import VALUE
from headrace_spark.pipeline.tables.expectations import REASON, VERDICT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace_spark.pipeline.file.spec import Pipeline

HEADER_PREFIX = "headrace-dlq-"
_TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def as_dead_letters(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Of records with verdicts, those that are dead letters, in the columns of the sink."""
    rejected = records.filter(F.col(VERDICT) == "dead-letter")
    added = F.array(
        _header("topic", F.col("_topic")),
        _header("partition", F.col("_partition")),
        _header("offset", F.col("_offset")),
        _header("reason", F.col(REASON)),
        # In a stream this is the batch's time: a batch that is written again says the same.
        _header("at", F.date_format(F.to_utc_timestamp(F.current_timestamp(), F.current_timezone()), _TIME_FORMAT)),
        _header("source", F.lit(pipeline.run.group)),
    )
    return rejected.select(
        F.lit(pipeline.dead_letters.topic).alias("topic"),
        F.col("_key").alias("key"),
        F.col(VALUE).alias("value"),
        F.when(F.col("_headers").isNull(), added).otherwise(F.concat(F.col("_headers"), added)).alias("headers"),
    )


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(HEADER_PREFIX + name).alias("key"), value.cast("string").cast("binary").alias("value"))
