"""The columns that a topic has in Spark: those of the official Kafka connector, name by name and type by type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

HEADERS_TYPE: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Columns:
    """Which of the columns that cost something are wanted. The others are made of numbers and always there."""

    key: bool = True
    value: bool = True
    headers: bool = False  # as in the official connector, where `includeHeaders` is off by default


def schema_for(columns: Columns) -> pa.Schema:
    """What a batch of these columns looks like to Arrow, and so to Spark."""
    fields = []
    if columns.key:
        fields.append(("key", pa.binary()))
    if columns.value:
        fields.append(("value", pa.binary()))
    fields += [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
    ]
    if columns.headers:
        fields.append(("headers", HEADERS_TYPE))
    return pa.schema(fields)


SCHEMA: Final = schema_for(Columns())
SCHEMA_WITH_HEADERS: Final = schema_for(Columns(headers=True))
