"""The columns that records travel in on their way through a pipeline's first steps.

A record comes with the columns of the Kafka connector. From there on its metadata have the names that the file's author
uses (`_key`, `_offset`, …); what belongs to the pipeline alone has a prefix that no author would choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""What a source gives. All but the value may be left out where nobody looks at it."""

OWN_PREFIX = "__headrace_"
VALUE = f"{OWN_PREFIX}value"
ROW = f"{OWN_PREFIX}row"
"""The declared columns as a struct."""
PROBLEM = f"{OWN_PREFIX}problem"
"""Why the record was not decoded; null if it was."""

_METADATA_TYPES = {
    "key": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}


def named(records: DataFrame) -> DataFrame:
    """The source's columns under the names that they have here. Metadata that were not read are null."""
    metadata = [
        (F.col(name) if name in records.columns else F.lit(None).cast(kind)).alias(f"_{name}")
        for name, kind in _METADATA_TYPES.items()
    ]
    return records.select(*metadata, F.col("value").alias(VALUE))


def evaluated_once(column: Column) -> Column:
    """The same column, but Spark must not compute it twice.

    Filters are pushed below the projection that they follow, and take a copy of its expressions along: every value
    would be parsed once for the filter and once more for its columns. What is not deterministic cannot be copied.
    """
    # A sum, because Spark knows by itself that chance alone is never below zero.
    return F.when(F.rand(0) + 1 > 0, column)
