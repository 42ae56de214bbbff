"""Avro values, one record each, written with the schema of a file.

The bytes carry no schema, so all records are read with that one. What follows the last field is passed over: writers
that have added fields at the end can still be read.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace_spark.pipeline.decode.arrow_decoding import (
    NoColumnFor,
    Undecodable,
    decode_in_workers,
    prefix_hint,
    without_registry_prefix,
)
from headrace_spark.pipeline.decode.schemas import check_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace_spark.pipeline.decode.arrow_decoding import DecodeOne, Row
    from headrace_spark.pipeline.file.spec import Pipeline, SourceSpec

_SIMPLE_TYPES: dict[str, DataType] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "fixed": BinaryType(),
    "enum": StringType(),
}
_LOGICAL_TYPES: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
}
"""And decimal. The others are read as the type below them."""


class AvroDecoder:
    """Reads a source's schema file. Raises PipelineError if that cannot be read, or has no columns."""

    def __init__(self, pipeline: Pipeline, source: SourceSpec) -> None:
        assert source.schema_file is not None
        self._schema = _read_schema(pipeline, source, source.schema_file)
        self._has_registry_prefix = source.has_registry_prefix
        try:
            columns = column_type(fastavro.schema.expand_schema(self._schema))
        except NoColumnFor as error:
            raise pipeline.error((*source.key_path, "schema_file"), f"{source.schema_file}: {error}") from error
        if not isinstance(columns, StructType):
            problem = f"{source.schema_file} describes no record"
            raise pipeline.error(
                (*source.key_path, "schema_file"), problem, "the fields of a record become the columns"
            )
        self.columns = columns
        check_names(pipeline, (*source.key_path, "schema_file"), columns.names)

    def decode(self, records: DataFrame) -> DataFrame:
        """Decodes in Python workers, with fastavro."""
        schema_text, has_prefix = json.dumps(self._schema), self._has_registry_prefix

        def make() -> DecodeOne:
            schema = fastavro.parse_schema(json.loads(schema_text))
            return lambda value: decode_value(schema, value, has_prefix=has_prefix)

        return decode_in_workers(records, self.columns, make)


def decode_value(schema: Any, value: bytes, *, has_prefix: bool) -> Row:
    """One record as a row. Raises Undecodable."""
    body = without_registry_prefix(value) if has_prefix else value
    try:
        row = fastavro.schemaless_reader(io.BytesIO(body), schema, None)
    except Exception as error:  # on bytes that are not Avro the library fails in many ways
        hint = "" if has_prefix else prefix_hint(value)
        raise Undecodable(
            f"the value is not Avro of this schema: {str(error) or type(error).__name__}{hint}"
        ) from error
    assert isinstance(row, dict)
    return row


def _read_schema(pipeline: Pipeline, source: SourceSpec, path: str) -> Any:
    key_path = (*source.key_path, "schema_file")
    try:
        schema = json.loads(Path(path).read_text())
    except OSError as error:
        raise pipeline.error(key_path, f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise pipeline.error(key_path, f"{path} is not JSON: {error}", "an Avro schema file is") from error
    try:
        fastavro.parse_schema(schema)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError) as error:
        raise pipeline.error(key_path, f"{path} is not an Avro schema: {error}") from error
    return _without_unread_logical_types(schema)


def _without_unread_logical_types(schema: Any) -> Any:
    """Otherwise the library would make times and UUIDs of them, for which there are no columns."""
    if isinstance(schema, list):
        return [_without_unread_logical_types(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _without_unread_logical_types(part) for name, part in schema.items()}
    if kept.get("logicalType") not in {*_LOGICAL_TYPES, "decimal"}:
        kept.pop("logicalType", None)
    return kept


def column_type(schema: Any) -> DataType:
    """Spark's type for an expanded Avro schema. Raises NoColumnFor."""
    if isinstance(schema, list):
        return _union_type(schema)
    if isinstance(schema, str):
        return _simple_type(schema)
    kind = schema["type"]
    if schema.get("logicalType") == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if schema.get("logicalType") in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[schema["logicalType"]]
    match kind:
        case "record" | "error":
            fields = [StructField(field["name"], column_type(field["type"])) for field in schema["fields"]]
            return StructType(fields)
        case "array":
            return ArrayType(column_type(schema["items"]))
        case "map":
            return MapType(StringType(), column_type(schema["values"]))
        case str():
            return _simple_type(kind)
        case _:
            return column_type(kind)


def _simple_type(name: str) -> DataType:
    try:
        return _SIMPLE_TYPES[name]
    except KeyError:
        raise NoColumnFor(f"the type {name} contains itself, which a column cannot") from None


def _union_type(branches: list[Any]) -> DataType:
    types = [column_type(branch) for branch in branches if branch != "null"]
    if not types:
        return NullType()
    if len(types) == 1:
        return types[0]
    for wide, narrow in ((LongType(), IntegerType()), (DoubleType(), FloatType())):
        if all(branch in (wide, narrow) for branch in types):
            return wide
    names = ", ".join(branch.simpleString() for branch in types)
    raise NoColumnFor(f"a union of {names} cannot be one column; a union with null can")
