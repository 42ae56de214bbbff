"""Numbered records to copy, and the judgement of a copy: each number once, unchanged, in order per key."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from headrace_spark.data_source import HeadraceDataSource
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from confluent_kafka import Message

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

KEYS = 997
DIGITS = 9
VALUE_BYTES = 90  # with the key about a hundred
JUNK_EACH = 20  # records: as many more, by this part, lie between them in transactions that were aborted
AT_ONCE = 10_000


def key_of(number: int) -> bytes:
    return b"key-%03d" % (number % KEYS)


def value_of(number: int) -> bytes:
    return (b"%09d" % number).ljust(VALUE_BYTES, b".")


def fill(bootstrap_servers: str, topic: str, count: int) -> None:
    """Numbers 0 to count - 1, each key in one partition and in order, and among them records that were never there."""
    settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": new_name("filler"), "linger.ms": 20}
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_S)
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        producer.begin_transaction()
        _produce(producer, topic, ((key_of(number), b"aborted") for number in numbers[::JUNK_EACH]))
        producer.flush(PATIENCE_S)
        producer.abort_transaction(PATIENCE_S)
        producer.begin_transaction()
        _produce(producer, topic, ((key_of(number), value_of(number)) for number in numbers))
        producer.commit_transaction(PATIENCE_S)


def _produce(producer: Producer, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    for key, value in records:
        producer.produce(topic, key=key, value=value)


class Reading:
    """What a reader found, partition by partition, in its order."""

    def __init__(self) -> None:
        self._found: defaultdict[int, list[pa.Table]] = defaultdict(list)

    def add(self, partition: int, keys: list[bytes | None] | pa.Array, values: list[bytes | None] | pa.Array) -> None:
        columns = [pa.array(column, pa.binary()) if isinstance(column, list) else column for column in (keys, values)]
        self._found[partition].append(pa.table(columns, names=["key", "value"]))

    def __len__(self) -> int:
        return sum(len(table) for tables in self._found.values() for table in tables)

    def verdict(self, count: int, mark: str) -> str:
        """Empty if each number up to the count is there once, marked, and in order within its key."""
        good, disordered, foreign = [], 0, []
        places: Counter[int] = Counter()
        for tables in self._found.values():
            numbers, wrong = _recognised(pa.concat_tables(tables), mark)
            good.append(numbers)
            foreign += wrong
            disordered += _disorder(numbers)
            places.update(np.unique(numbers % KEYS).tolist())
        found, times = np.unique(np.concatenate([*good, np.empty(0, np.int64)]), return_counts=True)
        complaints = {
            "missing": np.setdiff1d(np.arange(count), found).tolist(),
            "repeated": found[times > 1].tolist(),
            "beyond the last": found[found >= count].tolist(),
            "foreign": foreign,
            "keys in two partitions": [key for key, partitions in places.items() if partitions > 1],
            "out of order": [f"{disordered} times"] * (disordered > 0),
        }
        return "; ".join(f"{len(what)} {name}: {what[:20]}" for name, what in complaints.items() if what)


def _recognised(table: pa.Table, mark: str) -> tuple[Numbers, list[bytes]]:
    """The numbers of those records that are exactly as they should be, and the values of the others."""
    values = table["value"].cast(pa.string())
    digits = pc.utf8_slice_codeunits(values, len(mark), len(mark) + DIGITS)
    numbers = pc.if_else(pc.match_substring_regex(digits, f"^[0-9]{{{DIGITS}}}$"), digits, "0").cast(pa.int64())
    padded = pc.utf8_rpad(pc.utf8_lpad(numbers.cast(pa.string()), DIGITS, "0"), VALUE_BYTES, ".")
    key_numbers = pa.chunked_array([pa.array(numbers.to_numpy() % KEYS)]).cast(pa.string())
    expected_keys = pc.binary_join_element_wise("key-", pc.utf8_lpad(key_numbers, 3, "0"), "")
    is_right = pc.and_(
        pc.equal(values, pc.binary_join_element_wise(mark, padded, "")),
        pc.equal(table["key"].cast(pa.string()), expected_keys),
    )
    is_right = pc.fill_null(is_right, False)
    wrong = table["value"].filter(pc.invert(is_right)).to_pylist()
    return numbers.filter(is_right).to_numpy(), wrong


def _disorder(numbers: Numbers) -> int:
    """How often a number of a key does not come after the one before it."""
    by_key = np.argsort(numbers % KEYS, kind="stable")
    ordered = numbers[by_key]
    is_same_key = np.diff(ordered % KEYS) == 0
    return int(np.count_nonzero(is_same_key & (np.diff(ordered) <= 0)))


def as_confluent_reads(bootstrap_servers: str, topic: str) -> Reading:
    reading = Reading()
    for partition, messages in _committed(bootstrap_servers, topic):
        reading.add(partition, [message.key() for message in messages], [message.value() for message in messages])
    return reading


def as_our_source_reads(bootstrap_servers: str, topic: str, isolation: str = "read_committed") -> Reading:
    """Its batch reader, driven as Spark drives it, but without a JVM."""
    reading = Reading()
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.isolation.level": isolation,
        "subscribe": topic,
    }
    source = HeadraceDataSource(options)
    reader = source.reader(source.schema())
    for part in reader.partitions():
        for batch in reader.read(part):
            assert isinstance(batch, pa.RecordBatch)
            (partition,) = set(batch.column("partition").to_pylist())
            reading.add(partition, batch.column("key"), batch.column("value"))
    return reading


def _committed(bootstrap_servers: str, topic: str) -> Iterator[tuple[int, list[Message]]]:
    """Some messages of a partition at a time, in order."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": new_name("judge"),
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,  # how it says that a partition has no more
    }
    consumer = Consumer(settings)
    try:
        for partition in consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            is_at_end = False
            while not is_at_end:
                answers = consumer.consume(AT_ONCE, 1.0)
                errors = [error for message in answers if (error := message.error()) is not None]
                assert all(error.code() == KafkaError._PARTITION_EOF for error in errors), errors
                is_at_end = bool(errors)
                yield partition, [message for message in answers if message.error() is None]
    finally:
        consumer.close()
