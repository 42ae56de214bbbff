"""Which columns of a Parquet file become a message's key, value, timestamp and headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace_spark.codec.columns import HEADERS_TYPE, TIMESTAMP_TYPE
from headrace_spark.offline.errors import OfflineFailed

if TYPE_CHECKING:
    from collections.abc import Callable

MILLIS: Final = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """What the command line says. None: the column of the role's own name, if there is one."""

    key: str | None = None
    value: str | None = None
    timestamp: str | None = None
    headers: str | None = None

    def chosen(self, schema: pa.Schema, where: str) -> dict[str, str]:
        """The column for each role that has one. OfflineFailed if one is missing or of a type that does not fit."""
        found: dict[str, str] = {}
        for role, (fits, expected) in _ROLES.items():
            given: str | None = getattr(self, role)
            name = given or role
            if name not in schema.names:
                if given or role == "value":
                    raise _missing(role, name, schema, where)
            elif not fits(schema.field(name).type):
                raise OfflineFailed(
                    f"{where}: column {name!r} is of type {schema.field(name).type}, and a {role} is {expected}",
                    f"name another one with --{role}-column, or convert it before",
                )
            else:
                found[role] = name
        return found


def as_messages(rows: pa.RecordBatch, chosen: dict[str, str]) -> pa.RecordBatch:
    """The rows with the columns key, value, timestamp and headers, as the encoder takes them."""
    columns = {role: _CONVERSIONS[role](rows.column(name)) for role, name in chosen.items()}
    return pa.record_batch(list(columns.values()), names=list(columns))


def _is_contents(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_it(kind)
        for is_it in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_null,
        )
    )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_int64(kind))


def _is_headers(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return set(fields) == {"key", "value"} and all(map(_is_contents, fields.values()))


_ROLES: Final[dict[str, tuple[Callable[[pa.DataType], bool], str]]] = {
    "key": (_is_contents, "text or binary"),
    "value": (_is_contents, "text or binary"),
    "timestamp": (_is_time, "a timestamp, or an int64 of milliseconds since 1970"),
    "headers": (_is_headers, "a list of structs of key and value, each text or binary"),
}


def _as_contents(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    return column.cast(pa.binary())


def _as_time(column: pa.Array) -> pa.Array:
    if pa.types.is_int64(column.type):
        column = column.cast(MILLIS)
    return column.cast(TIMESTAMP_TYPE, safe=False)  # a log keeps milliseconds; what is finer is cut off


def _as_headers(column: pa.Array) -> pa.Array:
    if column.type == HEADERS_TYPE:
        return column
    pairs = pc.list_flatten(column)
    keys, values = (pc.struct_field(pairs, name) for name in ("key", "value"))
    contents = pa.StructArray.from_arrays(
        [_as_contents(keys).cast(pa.string()), _as_contents(values)], fields=list(HEADERS_TYPE.value_type)
    )
    counts = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(counts.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, contents, type=HEADERS_TYPE, mask=column.is_null())


_CONVERSIONS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "key": _as_contents,
    "value": _as_contents,
    "timestamp": _as_time,
    "headers": _as_headers,
}


def _missing(role: str, name: str, schema: pa.Schema, where: str) -> OfflineFailed:
    return OfflineFailed(
        f"{where} has no column {name!r}; it has {', '.join(schema.names) or 'none'}",
        f"name the one that holds the {role} with --{role}-column",
    )
