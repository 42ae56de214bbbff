"""The reader that one would write first: a Python data source for Spark that yields a tuple per record.

It is what `format("headrace")` is measured against. It uses librdkafka, the fastest client that Python has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

MESSAGES_AT_ONCE = 10_000
WAIT_S_MAX = 30.0


class TupleSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
        )

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark gives it
        return _Reader(dict(self.options))


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, Any]) -> None:
        self._settings = {
            "bootstrap.servers": options["kafka.bootstrap.servers"],
            "group.id": "tuples",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1_048_576,
            "log_level": 3,
        }
        self._topic = options["subscribe"]

    def partitions(self) -> list[InputPartition]:
        from confluent_kafka import Consumer  # noqa: PLC0415 - this object travels; the import must not

        consumer = Consumer(self._settings)
        try:
            found = consumer.list_topics(self._topic, WAIT_S_MAX).topics[self._topic].partitions
        finally:
            consumer.close()
        return [InputPartition(partition) for partition in found]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        from datetime import UTC, datetime  # noqa: PLC0415

        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

        consumer = Consumer(self._settings)
        try:
            place = TopicPartition(self._topic, partition.value, 0)
            _, end = consumer.get_watermark_offsets(place, WAIT_S_MAX)
            consumer.assign([place])
            left = end
            while left > 0:
                messages = consumer.consume(min(MESSAGES_AT_ONCE, left), WAIT_S_MAX)
                left -= len(messages)
                for message in messages:
                    kind, timestamp_ms = message.timestamp()
                    yield (
                        message.key(),
                        message.value(),
                        message.topic(),
                        message.partition(),
                        message.offset(),
                        datetime.fromtimestamp(timestamp_ms / 1000, UTC),
                        kind - 1,  # librdkafka counts the kinds from one
                    )
        finally:
            consumer.close()
