"""A topic with some of everything in it, for whoever reads topics through Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.clients.nodes import NodeProcess

PLAIN, MIXED, COMPRESSED, EMPTY = range(4)  # the topic's partitions, and what they hold
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS: Final = 1_700_000_000_000
PER_RECORD_MS: Final = 1_000


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]] | None = None
    is_aborted: bool = False

    @property
    def timestamp_ms(self) -> int:
        """Each partition begins at the same time, and a record comes each second."""
        return FIRST_MS + self.offset * PER_RECORD_MS


@dataclass(frozen=True)
class History:
    """A topic's name and its records."""

    topic: str
    records: list[Record] = field(default_factory=list)

    def rows(self, records: Iterable[Record], *, with_headers: bool = False) -> list[tuple[Any, ...]]:
        """As both formats show them, in order."""
        create_time = 0
        return [
            (
                *(record.key, record.value, self.topic, record.partition, record.offset),
                *(record.timestamp_ms, create_time),
                *([record.headers] if with_headers else []),
            )
            for record in sorted(records, key=lambda record: (record.partition, record.offset))
        ]


def write_history(node: NodeProcess) -> History:
    forever = {"retention.ms": "-1"}  # its records are years old
    made = History(node.create_topic(new_name("history"), partitions=4, configs=forever))
    _write_plain(node, made)
    _write_mixed(node, made)
    _write_compressed(node, made)
    return made


def _write_plain(node: NodeProcess, history: History) -> None:
    keys = [b"key", None, b"", "kéy".encode()]
    values = [b"value", b"", None, bytes(range(256)), b"x" * 3000]
    headers: list[list[tuple[str, str | bytes | None]] | None] = [None, [("trace", b"1"), ("trace", None), ("", b"")]]
    for offset in range(20):
        record = Record(PLAIN, offset, keys[offset % 4], values[offset % 5], headers[offset % 2])
        history.records.append(record)
    _send(node, history, _of(history, PLAIN))


def _write_mixed(node: NodeProcess, history: History) -> None:
    """Transactions of two records each, every second one aborted; each leaves a marker, which takes an offset."""
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "transactional.id": new_name("mixed")})
    producer.init_transactions(PATIENCE_S)
    for number in range(4):
        is_aborted = number % 2 == 1
        both = [Record(MIXED, number * 3 + each, b"k", f"{number}".encode(), None, is_aborted) for each in range(2)]
        producer.begin_transaction()
        for record in both:
            _produce(producer, history.topic, record)
        producer.flush(PATIENCE_S)  # an aborted record is to lie in the log all the same
        producer.abort_transaction(PATIENCE_S) if is_aborted else producer.commit_transaction(PATIENCE_S)
        history.records.extend(both)


def _write_compressed(node: NodeProcess, history: History) -> None:
    for number, codec in enumerate(CODECS):
        records = [Record(COMPRESSED, number * 10 + each, b"c", codec.encode() * 50) for each in range(10)]
        _send(node, history, records, codec)
        history.records.extend(records)


def _of(history: History, partition: int) -> list[Record]:
    return [record for record in history.records if record.partition == partition]


def _send(node: NodeProcess, history: History, records: Iterable[Record], codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "compression.type": codec})
    for record in records:
        _produce(producer, history.topic, record)
    assert producer.flush(PATIENCE_S) == 0


def _produce(producer: Producer, topic: str, record: Record) -> None:
    producer.produce(
        topic,
        partition=record.partition,
        key=record.key,
        value=record.value,
        headers=record.headers or [],
        timestamp=record.timestamp_ms,
    )
