"""Protobuf values, one message each, of a type that a compiled set of descriptors describes.

    protoc --include_imports --descriptor_set_out=orders.desc orders.proto

Fields that the descriptors do not know are passed over, as Protobuf means it.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
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
from headrace_spark.pipeline.file.errors import choices_hint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from headrace_spark.pipeline.decode.arrow_decoding import DecodeOne, Row
    from headrace_spark.pipeline.file.spec import Pipeline, SourceSpec

_SCALAR_TYPES: dict[int, DataType] = {
    FieldDescriptor.CPPTYPE_INT32: IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: LongType(),
    FieldDescriptor.CPPTYPE_UINT32: LongType(),
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(20, 0),  # BIGINT ends at half of its range
    FieldDescriptor.CPPTYPE_DOUBLE: DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: FloatType(),
    FieldDescriptor.CPPTYPE_BOOL: BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: StringType(),
    FieldDescriptor.CPPTYPE_STRING: StringType(),
}
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
"""Messages of one field that stand for a scalar which may be absent: a column that may be null."""


class ProtobufDecoder:
    """Reads a source's set of descriptors. Raises PipelineError if that is wrong, or lacks the message."""

    def __init__(self, pipeline: Pipeline, source: SourceSpec) -> None:
        assert source.schema_file is not None
        assert source.message is not None
        self._descriptors = _read_descriptors(pipeline, source, source.schema_file)
        self._message = source.message
        self._has_registry_prefix = source.has_registry_prefix
        try:
            self.columns = struct_type(message_class(self._descriptors, self._message).DESCRIPTOR)
        except KeyError as error:
            names = message_names(self._descriptors)
            problem = f"{source.schema_file} has no message '{self._message}'"
            raise pipeline.error((*source.key_path, "message"), problem, choices_hint(self._message, names)) from error
        except NoColumnFor as error:
            raise pipeline.error((*source.key_path, "message"), f"{self._message}: {error}") from error
        check_names(pipeline, (*source.key_path, "message"), self.columns.names)

    def decode(self, records: DataFrame) -> DataFrame:
        """Decodes in Python workers, with Google's library."""
        descriptors, name, has_prefix = self._descriptors, self._message, self._has_registry_prefix

        def make() -> DecodeOne:
            kind = message_class(descriptors, name)
            return lambda value: decode_value(kind, value, has_prefix=has_prefix)

        return decode_in_workers(records, self.columns, make)


def _read_descriptors(pipeline: Pipeline, source: SourceSpec, path: str) -> bytes:
    key_path = (*source.key_path, "schema_file")
    hint = "protoc --include_imports --descriptor_set_out=FILE writes it"
    try:
        descriptors = Path(path).read_bytes()
    except OSError as error:
        problem = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
        raise pipeline.error(key_path, problem, hint) from error
    try:
        _pool(descriptors)
    except (DecodeError, TypeError) as error:
        raise pipeline.error(
            key_path, f"{path} is not a complete set of Protobuf descriptors: {error}", hint
        ) from error
    return descriptors


def _pool(descriptors: bytes) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.FindFileByName(file.name)  # fails where an import is missing
    return pool


def message_class(descriptors: bytes, name: str) -> Any:
    """KeyError if there is no such message."""
    return message_factory.GetMessageClass(_pool(descriptors).FindMessageTypeByName(name))


def message_names(descriptors: bytes) -> list[str]:
    """The full names of the messages in a set of descriptors, those inside others left out."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    return [".".join(filter(None, (file.package, message.name))) for file in files for message in file.message_type]


# ---- types


def struct_type(descriptor: Any, around: tuple[str, ...] = ()) -> StructType:
    """Raises NoColumnFor."""
    if descriptor.full_name in around:
        raise NoColumnFor(f"the message {descriptor.full_name} contains itself, which a column cannot")
    inside = (*around, descriptor.full_name)
    return StructType([StructField(field.name, _field_type(field, inside)) for field in descriptor.fields])


def _field_type(field: Any, around: tuple[str, ...]) -> DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_single_type(entry["key"], around), _single_type(entry["value"], around))
    single = _single_type(field, around)
    return ArrayType(single) if field.is_repeated else single


def _single_type(field: Any, around: tuple[str, ...]) -> DataType:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return BinaryType()
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return _SCALAR_TYPES[field.cpp_type]
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return TimestampType()
    if name in _WRAPPERS:
        return _single_type(field.message_type.fields_by_name["value"], around)
    return struct_type(field.message_type, around)


def _is_map(field: Any) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


# ---- values


def decode_value(kind: Any, value: bytes, *, has_prefix: bool) -> Row:
    """One message as a row. Raises Undecodable."""
    body = _without_message_indexes(without_registry_prefix(value)) if has_prefix else value
    try:
        return _row(kind.FromString(body))
    except (DecodeError, ValueError) as error:
        hint = "" if has_prefix else prefix_hint(value)
        raise Undecodable(f"the value is not a {kind.DESCRIPTOR.full_name}: {error}{hint}") from error


def _without_message_indexes(body: bytes) -> bytes:
    """After the schema's id a registry writes which message of the file it is: a count, and as many numbers."""
    numbers = _zigzag_varints(body)
    try:
        count, end = next(numbers)
        for _ in range(count):
            _, end = next(numbers)
    except StopIteration:
        raise Undecodable("the value ends within a registry's prefix") from None
    return body[end:]


def _zigzag_varints(body: bytes) -> Iterator[tuple[int, int]]:
    """Each number, and where it ends."""
    number = shift = 0
    for end, byte in enumerate(body, start=1):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield (number >> 1) ^ -(number & 1), end
            number = shift = 0


def _row(message: Any) -> Row:
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        entry = field.message_type.fields_by_name["value"]
        return [(key, _single_value(item, entry)) for key, item in value.items()]
    if field.is_repeated:
        return [_single_value(item, field) for item in value]
    return _single_value(value, field)


def _single_value(value: Any, field: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)  # a newer writer may know more names
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return value
    if field.message_type.full_name == _TIMESTAMP:
        return value.ToDatetime(tzinfo=UTC)
    if field.message_type.full_name in _WRAPPERS:
        return value.value
    return _row(value)
