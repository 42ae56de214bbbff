"""Topics for the source to read, and readers driven as Spark drives them, but in this process: no JVM, many cases."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from confluent_kafka import Producer

from headrace.client.admin.admin import Admin
from headrace_spark.blocking import BlockingCluster
from headrace_spark.data_source import HeadraceDataSource
from headrace_spark.source.offsets import from_document, to_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql.datasource import InputPartition

    from headrace.model.names import TopicPartition
    from headrace.testing import Broker
    from headrace_spark.source.offsets import Document
    from headrace_spark.source.readers import StreamReader

Row = dict[str, Any]


def new_topic(broker: Broker, partitions: int = 1, prefix: str = "topic", **configs: str) -> str:
    name = f"{prefix}-{uuid4().hex[:12]}"
    broker.create_topic(name, partitions=partitions, configs={key.replace("_", "."): configs[key] for key in configs})
    return name


def produce(broker: Broker, topic: str, values: Iterable[str], partition: int = 0, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def numbered(count: int, first: int = 0) -> list[str]:
    return [f"v{number}" for number in range(first, first + count)]


def add_partitions(broker: Broker, topic: str, total: int) -> None:
    with BlockingCluster(broker.bootstrap_servers) as blocking:
        blocking.run(Admin(blocking.cluster).add_partitions(topic, total))


def delete_records(broker: Broker, before: Mapping[TopicPartition, int]) -> None:
    with BlockingCluster(broker.bootstrap_servers) as blocking:
        blocking.run(Admin(blocking.cluster).delete_records(before))


def source(broker: Broker, **options: str) -> HeadraceDataSource:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return HeadraceDataSource({"kafka.bootstrap.servers": broker.bootstrap_servers, **named})


def tasks_of(data_source: HeadraceDataSource) -> list[list[Row]]:
    """What each task of a batch query reads."""
    reader = data_source.reader(data_source.schema())
    return [_rows(reader.read(partition)) for partition in reader.partitions()]


def rows_of(data_source: HeadraceDataSource) -> list[Row]:
    rows = [row for task in tasks_of(data_source) for row in task]
    return sorted(rows, key=lambda row: (row.get("topic", ""), row.get("partition", 0), row.get("offset", 0)))


def values_of(data_source: HeadraceDataSource) -> list[str]:
    return [row["value"].decode() for row in rows_of(data_source)]


@dataclass
class StreamWalk:
    """A streaming query without Spark: what it keeps in its checkpoint, and the calls that it makes."""

    data_source: HeadraceDataSource
    is_available_now: bool = False
    planned: list[Document] = field(default_factory=list)
    """The ends of the batches, as in a checkpoint's offset log."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, data_source: HeadraceDataSource | None = None) -> None:
        self.data_source = data_source or self.data_source
        self.reader: StreamReader = self.data_source.streamReader(self.data_source.schema())  # type: ignore[assignment]
        if self.is_available_now:
            self.reader.prepareForTriggerAvailableNow()

    @property
    def ends(self) -> list[Document]:
        """Of the batches, without the ids of their topics."""
        return [without_ids(end) for end in self.planned]

    def next_batch(self) -> list[str] | None:
        """The values of the next batch; None if there is nothing new."""
        start = self.planned[-1] if self.planned else _stored(self.reader.initialOffset())
        end = _stored(self.reader.latestOffset(start, self.reader.getDefaultReadLimit()))
        if end == start:
            return None
        self.planned.append(end)
        return self.replay()

    def replay(self) -> list[str]:
        """Read the last planned batch again, as a query does that crashed in it."""
        start = self.planned[-2] if len(self.planned) > 1 else _stored(self.reader.initialOffset())
        return sorted(
            row["value"].decode()
            for partition in self.reader.partitions(start, self.planned[-1])
            for row in self.read(partition)
        )

    def read(self, partition: InputPartition) -> list[Row]:
        return _rows(self.data_source.streamReader(self.data_source.schema()).read(partition))

    def stop(self) -> None:
        self.reader.stop()


def _rows(batches: Any) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def without_ids(offsets: Document) -> Document:
    return to_document(from_document(offsets))


def _stored(offsets: Document) -> Document:
    return json.loads(json.dumps(offsets))  # type: ignore[no-any-return]
