"""kio, another implementation of Kafka's messages, made comparable with ours.

kio has one class per version and uses richer types (timedelta, UUID, enums); the tables below lead from its fields to
ours. Everything starts from kio's classes, so a field that our schema forgot cannot go unnoticed.
"""

from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.api import APIS, request_class, response_class
from headrace.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OWN_APIS_FROM = 20_000  # what only our nodes say to each other
RECORDS = {
    "consumer_protocol_subscription": ConsumerProtocolSubscription,
    "consumer_protocol_assignment": ConsumerProtocolAssignment,
}


@dataclasses.dataclass(frozen=True)
class Pair:
    """One of our message classes, and kio's class of the same message for each version."""

    name: str
    kio_name: str
    entity: EntityType

    @property
    def ours(self) -> type[Any]:
        if self.entity is EntityType.data:
            return RECORDS[self.kio_name]
        key = next(key for key, name in api_key_map.items() if name == self.kio_name)
        return request_class(key) if self.entity is EntityType.request else response_class(key)

    @property
    def versions(self) -> range:
        first, last = self.ours.VERSIONS
        return range(first, last + 1)

    def theirs(self, version: int) -> type[Any]:
        return load_entity_schema(self.kio_name, version, self.entity)


def all_pairs() -> list[Pair]:
    pairs = [
        Pair(api.name + suffix, api_key_map[key], entity)
        for key, api in APIS.items()
        if key < OWN_APIS_FROM
        for suffix, entity in (("Request", EntityType.request), ("Response", EntityType.response))
    ]
    return pairs + [Pair(ours.__name__, name, EntityType.data) for name, ours in RECORDS.items()]


# Encoding and decoding


def kio_encode(message: Any) -> bytes:
    with io.BytesIO() as buffer:
        entity_writer(type(message))(buffer, message)
        return buffer.getvalue()


def kio_decode(theirs: type[Any], encoded: bytes) -> Any:
    message, size = entity_reader(theirs)(encoded, 0)
    assert size == len(encoded)
    return message


# Values


_INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **_INTEGERS,
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    "bytes": st.binary(max_size=6),
    "records": st.binary(max_size=6),
    "uuid": st.binary(min_size=16, max_size=16).map(lambda raw: UUID(bytes=raw) if any(raw) else None),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(0, 2**40).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**40).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
}


@cache
def messages(theirs: type[Any]) -> st.SearchStrategy[Any]:
    """Messages of one of kio's classes."""
    return st.builds(theirs, **{part.name: _strategy(part) for part in dataclasses.fields(theirs)})


def _strategy(part: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    element, is_array, is_nullable = shape(part)
    values = messages(element) if dataclasses.is_dataclass(element) else _VALUES[part.metadata["kafka_type"]]
    if is_array:
        values = st.lists(values, max_size=2).map(tuple)
    # kio spells the zero uuid None; there is no null for it on the wire.
    return st.none() | values if is_nullable and part.metadata.get("kafka_type") != "uuid" else values


def shape(part: dataclasses.Field[Any]) -> tuple[Any, bool, bool]:
    """Of a field of kio's: element type, is it an array, may it be null."""
    hint: Any = part.type
    options = [option for option in get_args(hint) if option is not NoneType]
    is_nullable = NoneType in get_args(hint)
    if is_nullable:
        (hint,) = options
    if get_origin(hint) is tuple:
        return get_args(hint)[0], True, is_nullable
    return hint, False, is_nullable


# From kio's messages to ours


def to_ours(theirs: Any, ours: type[Any]) -> Any:
    """The same message as an instance of our class."""
    fields = {part.name: part for part in dataclasses.fields(ours)}
    values = {}
    for part in dataclasses.fields(theirs):
        name = next(name for name in _our_names(part.name) if name in fields)
        values[name] = _our_value(getattr(theirs, part.name), part, ours, fields[name])
    return ours(**values)


def _our_names(kio_name: str) -> tuple[str, ...]:
    return kio_name, f"{kio_name}_ms"


def _our_value(value: Any, part: dataclasses.Field[Any], ours: type[Any], our_field: dataclasses.Field[Any]) -> Any:
    if isinstance(value, tuple):
        return [_our_value(element, part, ours, our_field) for element in value]
    if dataclasses.is_dataclass(value):
        return to_ours(value, _struct_class(ours, our_field))
    if isinstance(value, UUID):
        return TopicId(value.bytes)
    if value is None:
        return {"uuid": NO_TOPIC_ID, "datetime_i64": -1}.get(part.metadata.get("kafka_type", ""))
    if isinstance(value, ErrorCode):
        return value.value
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, datetime):
        return round((value - EPOCH) / timedelta(milliseconds=1))
    return value


def _struct_class(ours: type[Any], our_field: dataclasses.Field[Any]) -> type[Any]:
    """The class that a field's annotation names; generated modules keep annotations as text."""
    text = str(our_field.type).removesuffix(" | None").removeprefix("list[").removesuffix("]")
    module = __import__(ours.__module__, fromlist=[text])
    found: type[Any] = getattr(module, text)
    return found


# One message with everything in it

_EXAMPLES: dict[str, Any] = {
    **dict.fromkeys(_INTEGERS, 7),
    "bool": True,
    "float64": 0.5,
    "string": "näme",
    "bytes": b"bytes",
    "records": b"records",
    "uuid": UUID(int=7),
    "error_code": ErrorCode(3),
    "timedelta_i32": timedelta(seconds=1),
    "timedelta_i64": timedelta(seconds=1),
    "datetime_i64": EPOCH,
}


@cache
def full_message(theirs: type[Any]) -> Any:
    """A message of kio's in which nothing is null, and every array has two elements."""
    values = {}
    for part in dataclasses.fields(theirs):
        element, is_array, _ = shape(part)
        value = full_message(element) if dataclasses.is_dataclass(element) else _EXAMPLES[part.metadata["kafka_type"]]
        values[part.name] = (value, value) if is_array else value
    return theirs(**values)


def defaults_and_nulls(pair: Pair) -> tuple[dict[tuple[str, str], Any], dict[tuple[str, str], bool]]:
    """Explicit defaults of kio's fields, and whether a field may be null in some version; by our struct and field."""
    defaults: dict[tuple[str, str], Any] = {}
    nulls: dict[tuple[str, str], bool] = {}

    def visit(theirs: type[Any], ours: type[Any]) -> None:
        fields = {part.name: part for part in dataclasses.fields(ours)}
        for part in dataclasses.fields(theirs):
            element, _, is_nullable = shape(part)
            name = next(name for name in _our_names(part.name) if name in fields)
            place = ours.__name__, name
            if part.metadata.get("kafka_type") not in {"uuid", "datetime_i64"}:
                nulls[place] = nulls.get(place, False) or is_nullable
            if part.default is not dataclasses.MISSING:
                defaults[place] = _our_value(part.default, part, ours, fields[name])
            if dataclasses.is_dataclass(element):
                visit(element, _struct_class(ours, fields[name]))

    for version in pair.versions:
        visit(pair.theirs(version), pair.ours)
    return defaults, nulls
