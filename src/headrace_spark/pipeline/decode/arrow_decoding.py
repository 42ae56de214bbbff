"""What Avro and Protobuf share: values are decoded in Python workers, a batch at a time, into one Arrow struct.

The JARs that would do this inside Spark are not in its pip package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from headrace_spark.pipeline.decode.records import OWN_PREFIX, PROBLEM, ROW, VALUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    Row = dict[str, Any]
    DecodeOne = Callable[[bytes], Row]
    """Raises Undecodable."""

_DECODED = f"{OWN_PREFIX}decoded"
REGISTRY_PREFIX_BYTES = 5  # a zero and the schema's number
_REASON_CHARACTERS_MAX = 200  # a reason is read by people; libraries may quote the whole value


class Undecodable(Exception):
    """Says why."""


class NoColumnFor(Exception):
    """A type of the schema file that has no counterpart among Spark's."""


def decode_in_workers(records: DataFrame, columns: StructType, make: Callable[[], DecodeOne]) -> DataFrame:
    """`make` runs once per batch, in the worker: what it builds need not travel."""
    outcome = StructType([StructField("row", columns), StructField("problem", StringType())])
    arrow_type = to_arrow_type(columns, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        return _decode_batch(values, arrow_type, make())

    # Not deterministic: Spark must not evaluate it a second time for a filter that it has pushed down.
    udf = arrow_udf(decode, outcome).asNondeterministic()  # type: ignore[call-overload]  # its stubs know only named types
    decoded = records.withColumn(_DECODED, udf(F.col(VALUE)))
    return decoded.withColumns({ROW: F.col(_DECODED)["row"], PROBLEM: F.col(_DECODED)["problem"]}).drop(_DECODED)


def _decode_batch(values: pa.Array, arrow_type: pa.DataType, decode_one: DecodeOne) -> pa.Array:
    rows: list[Row | None] = []
    problems: list[str | None] = []
    for value in values.to_pylist():
        try:
            rows.append(decode_one(value) if value is not None else None)
            problems.append(None)
        except Undecodable as reason:
            rows.append(None)
            problems.append(str(reason)[:_REASON_CHARACTERS_MAX])
    try:
        row_array = pa.array(rows, arrow_type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        row_array = _convert_singly(rows, problems, arrow_type)
    return pa.StructArray.from_arrays([row_array, pa.array(problems, pa.string())], ["row", "problem"])


def _convert_singly(rows: list[Row | None], problems: list[str | None], arrow_type: pa.DataType) -> pa.Array:
    """Find the rows that do not fit the columns' types, so that the others are decoded all the same."""
    for at, row in enumerate(rows):
        try:
            pa.array([row], arrow_type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            rows[at], problems[at] = None, f"a value does not fit its column: {error}"[:_REASON_CHARACTERS_MAX]
    return pa.array(rows, arrow_type)


def without_registry_prefix(value: bytes) -> bytes:
    """The value after the five bytes of a schema registry. Raises Undecodable if they are not there."""
    if len(value) < REGISTRY_PREFIX_BYTES or value[0] != 0:
        raise Undecodable("the value does not begin with a registry's prefix (a zero byte and four of the schema's id)")
    return value[REGISTRY_PREFIX_BYTES:]


def prefix_hint(value: bytes) -> str:
    """For a value that did not decode, and that looks as if it came through a schema registry."""
    looks_like_it = len(value) > REGISTRY_PREFIX_BYTES and value[:2] == b"\0\0"
    return "; it begins like a schema registry's values: is registry_prefix = true missing?" if looks_like_it else ""
