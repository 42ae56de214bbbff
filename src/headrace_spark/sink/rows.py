"""The columns that can be written: those of the official Kafka connector, and `timestamp`, which it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructType, TimestampType

from headrace_spark.codec.columns import HEADERS_TYPE, TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType


def _is_text_or_bytes(found: DataType) -> bool:
    return isinstance(found, StringType | BinaryType)


def _is_headers(found: DataType) -> bool:
    if not (isinstance(found, ArrayType) and isinstance(found.elementType, StructType)):
        return False
    fields = found.elementType.fields
    return [field.name for field in fields] == ["key", "value"] and (
        isinstance(fields[0].dataType, StringType) and isinstance(fields[1].dataType, BinaryType)
    )


_EXPECTED: Final[dict[str, tuple[str, Callable[[DataType], bool]]]] = {
    "value": ("string or binary", _is_text_or_bytes),
    "key": ("string or binary", _is_text_or_bytes),
    "headers": ("array<struct<key:string,value:binary>>", _is_headers),
    "topic": ("string", lambda found: isinstance(found, StringType)),
    "partition": ("int", lambda found: isinstance(found, IntegerType)),
    "timestamp": ("timestamp", lambda found: isinstance(found, TimestampType)),
}
_RECORD_TYPES: Final = {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS_TYPE, "timestamp": TIMESTAMP_TYPE}


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raises ValueError before anything is written. Other columns are allowed and not looked at."""
    found = {field.name: field.dataType for field in schema.fields}
    if "value" not in found:
        names = ", ".join(found) or "no column at all"
        raise ValueError(f"column 'value' is missing; the rows to write have {names}")
    for name, (expected, fits) in _EXPECTED.items():
        if name in found and not fits(found[name]):
            raise ValueError(f"column '{name}' is of type {found[name].simpleString()}; expected is {expected}")
    if topic is None and "topic" not in found:
        raise ValueError("nothing says where to write: set the option 'topic', or give a column 'topic'")


def record_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What becomes part of a record, in the types that the encoder takes. Text becomes its UTF-8 bytes."""
    names = [name for name in _RECORD_TYPES if name in batch.schema.names]
    return pa.record_batch([batch.column(name).cast(_RECORD_TYPES[name]) for name in names], names=names)
