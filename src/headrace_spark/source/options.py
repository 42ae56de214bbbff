"""The options of `format("headrace")` for reading: those of the official Kafka connector, and `columns`.

Everything is checked as soon as it is known: alone when the DataFrame is made, together when the query is planned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.client.reading.offsets import Edge
from headrace_spark.codec.columns import Columns
from headrace_spark.kafka_options import parse_kafka_options
from headrace_spark.option_values import (
    boolean,
    duration_ms,
    names_between_commas,
    one_of,
    positive_number,
    timestamp_ms,
)
from headrace_spark.source.offsets import EARLIEST, parse_offsets, parse_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from pyspark.sql.types import DataType

    from headrace.client.security.settings import ClientSecurity
    from headrace.model.names import TopicPartition
    from headrace_spark.kafka_options import KafkaOptions
    from headrace_spark.source.offsets import Offsets

    T = TypeVar("T")

# The connector's defaults.
MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
OFFSET_RETRY_COUNT: Final = 3
OFFSET_RETRY_INTERVAL_MS: Final = 1000

HEADERS: Final = "headers"
COLUMN_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}

_STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")
_EXAMPLE_OFFSETS: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_EXAMPLE_TIMES: Final = '{"topicA":{"0":1767225600000,"1":1767225600000}}'


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The option `subscribe`: these topics, with all their partitions."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """The option `subscribePattern`: topics whose whole name fits, also those that come later."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """The option `assign`: these partitions."""

    partitions: tuple[TopicPartition, ...]


ConsumerStrategy = Subscribe | SubscribePattern | Assign
"""Which partitions are read."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """At an offset for each partition."""

    offsets: Offsets
    """-2 stands for the earliest, -1 for the latest."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """At the first record that is not older; for each partition alike."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """As AtTime, with a time for each partition."""

    timestamps_ms: Offsets


OffsetSpec = Edge | AtOffsets | AtTime | AtTimes
"""Where reading begins or ends."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the options of a read say."""

    kafka: KafkaOptions
    strategy: ConsumerStrategy
    starting: OffsetSpec | None
    ending: OffsetSpec | None
    late_start_is_latest: bool
    """Where a partition begins that has no record of the starting time: at its end, or nowhere, which is an error."""
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    offset_retry_count: int
    """How often an end is asked for again that lies below what was there before."""
    offset_retry_interval_ms: int
    column_names: tuple[str, ...]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Raises ValueError, which says what is wrong and what was expected. The case of names does not matter."""
        given = {name.lower(): value for name, value in options.items()}
        parsed = cls(
            kafka=parse_kafka_options(given),
            strategy=_strategy(given),
            starting=_offset_spec(given, "starting"),
            ending=_offset_spec(given, "ending"),
            late_start_is_latest=_read(given, "startingOffsetsByTimestampStrategy", _late_start) == "latest",
            fail_on_data_loss=_read(given, "failOnDataLoss", boolean) is not False,
            min_partitions=_read(given, "minPartitions", positive_number),
            max_records_per_partition=_read(given, "maxRecordsPerPartition", positive_number),
            max_offsets_per_trigger=_read(given, "maxOffsetsPerTrigger", positive_number),
            min_offsets_per_trigger=_read(given, "minOffsetsPerTrigger", positive_number),
            max_trigger_delay_ms=_delay_ms(given),
            offset_retry_count=_read(given, "fetchOffset.numRetries", positive_number) or OFFSET_RETRY_COUNT,
            offset_retry_interval_ms=(
                _read(given, "fetchOffset.retryIntervalMs", positive_number) or OFFSET_RETRY_INTERVAL_MS
            ),
            column_names=_column_names(given),
        )
        parsed._check_trigger_limits()
        return parsed

    def secured(self, security: ClientSecurity) -> SourceOptions:
        """The same, over connections that are protected so."""
        settings = replace(self.kafka.settings, security=security)
        return replace(self, kafka=replace(self.kafka, settings=settings))

    @property
    def schema(self) -> StructType:
        """The columns that the DataFrame has."""
        return StructType([StructField(name, COLUMN_TYPES[name]) for name in self.column_names])

    @property
    def columns(self) -> Columns:
        """What has to be decoded for them."""
        names = self.column_names
        return Columns(key="key" in names, value="value" in names, headers=HEADERS in names)

    def for_batch(self, schema: StructType) -> SourceOptions:
        """As they stand for a query that ends; both ends are set."""
        self._check_schema(schema)
        options = replace(self, starting=self.starting or Edge.EARLIEST, ending=self.ending or Edge.LATEST)
        if _has(options.starting, Edge.LATEST):
            raise ValueError("a batch query cannot start at the latest offset: there would be nothing to read")
        if _has(options.ending, Edge.EARLIEST):
            raise ValueError("a batch query cannot end at the earliest offset: there would be nothing to read")
        options._check_ends()
        return options

    def for_stream(self, schema: StructType) -> SourceOptions:
        """As they stand for a query without an end. Raises ValueError if one of them is for batches."""
        self._check_schema(schema)
        if self.ending is not None:
            raise ValueError("ending offsets and timestamps are for batch queries; a streaming query has no end")
        return replace(self, starting=self.starting or Edge.LATEST)

    def _check_schema(self, schema: StructType) -> None:
        if schema.simpleString() != self.schema.simpleString():
            raise ValueError(
                "the schema of this source is fixed and cannot be given; narrow it with the option 'columns', "
                f"and decode values with DataFrame operations. It is {self.schema.simpleString()}"
            )

    def _check_trigger_limits(self) -> None:
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise ValueError(f"option 'minOffsetsPerTrigger' ({least}) is higher than 'maxOffsetsPerTrigger' ({most})")

    def _check_ends(self) -> None:
        """What can be seen to be wrong without asking the cluster."""
        match self.starting, self.ending:
            case AtOffsets(starts), AtOffsets(ends):
                _check_order("offset", starts, ends)
            case AtTimes(starts), AtTimes(ends):
                _check_order("timestamp", starts, ends)
            case AtTime(start), AtTime(end) if start > end:
                raise ValueError(f"option 'startingTimestamp' ({start}) is later than 'endingTimestamp' ({end})")
            case _:
                pass


# Reading them.


def _read(given: Mapping[str, str], name: str, parse: Callable[[str, str], T]) -> T | None:
    text = given.get(name.lower())
    return None if text is None else parse(name, text)


def _strategy(given: Mapping[str, str]) -> ConsumerStrategy:
    chosen = [name for name in _STRATEGIES if name.lower() in given]
    if len(chosen) != 1:
        found = f"found are {' and '.join(repr(name) for name in chosen)}" if chosen else "none is there"
        raise ValueError(f"exactly one of the options 'assign', 'subscribe' and 'subscribePattern' is needed; {found}")
    name = chosen[0]
    text = given[name.lower()]
    if name == "assign":
        return Assign(_json(name, text, parse_partitions, '{"topicA":[0,1],"topicB":[2,4]}'))
    if name == "subscribe":
        topics = names_between_commas(text)
        if not topics:
            raise ValueError(f"option 'subscribe' is {text!r}; expected is a topic, or several with commas between")
        return Subscribe(topics)
    return SubscribePattern(_pattern(text.strip()))


def _pattern(text: str) -> str:
    if not text:
        raise ValueError("option 'subscribePattern' is empty; expected is a regular expression such as orders-.*")
    try:
        re.compile(text)
    except re.error as nonsense:
        raise ValueError(f"option 'subscribePattern' is {text!r}, which is no regular expression: {nonsense}") from None
    return text


def _offset_spec(given: Mapping[str, str], end: str) -> OffsetSpec | None:
    """The connector's order: one time for all, then times, then offsets."""
    if (text := given.get(f"{end}timestamp")) is not None:
        return AtTime(timestamp_ms(f"{end}Timestamp", text))
    if (text := given.get(f"{end}offsetsbytimestamp")) is not None:
        return AtTimes(_json(f"{end}OffsetsByTimestamp", text, parse_offsets, _EXAMPLE_TIMES))
    if (text := given.get(f"{end}offsets")) is None:
        return None
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return Edge[word.upper()]
    return AtOffsets(_json(f"{end}Offsets", text, _checked_offsets, f"earliest, latest or {_EXAMPLE_OFFSETS}"))


def _checked_offsets(text: str) -> Offsets:
    offsets = parse_offsets(text)
    if min(offsets.values(), default=0) < EARLIEST:
        raise ValueError("an offset is negative")
    return offsets


def _json(name: str, text: str, parse: Callable[[str], T], expected: str) -> T:
    try:
        parsed = parse(text)
    except ValueError:
        parsed = None
    if not parsed:
        raise ValueError(f"option '{name}' is {text!r}; expected is {expected}")
    return parsed


def _late_start(name: str, text: str) -> str:
    return one_of(name, text, ("error", "latest"))


def _delay_ms(given: Mapping[str, str]) -> int:
    delay_ms = _read(given, "maxTriggerDelay", duration_ms)
    return MAX_TRIGGER_DELAY_MS if delay_ms is None else delay_ms


def _column_names(given: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = _read(given, "includeHeaders", boolean) is True
    if "columns" not in given:
        return tuple(name for name in COLUMN_TYPES if name != HEADERS or with_headers)
    names = names_between_commas(given["columns"])
    unknown = [name for name in names if name not in COLUMN_TYPES]
    if unknown or not names:
        raise ValueError(
            f"option 'columns' is {given['columns']!r}; expected are names out of {', '.join(COLUMN_TYPES)}"
        )
    return names


# Checking them together.


def _has(offset_spec: OffsetSpec | None, edge: Edge) -> bool:
    if isinstance(offset_spec, AtOffsets):
        return edge.value in offset_spec.offsets.values()
    return offset_spec is edge


def _check_order(what: str, starts: Offsets, ends: Offsets) -> None:
    if starts.keys() != ends.keys():
        only = ", ".join(str(name) for name in sorted(starts.keys() ^ ends.keys()))
        raise ValueError(f"starting and ending {what}s must name the same partitions; only one of them names {only}")
    for name, start in sorted(starts.items()):
        if 0 <= ends[name] < start:
            raise ValueError(f"the starting {what} of {name} ({start}) is higher than the ending one ({ends[name]})")
