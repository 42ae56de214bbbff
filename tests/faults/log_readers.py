"""Two ways to read everything a node holds: as a client, and from its files while it is down."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.model.names import LogId, TopicId
from headrace.storage.files.layout import directory_of
from headrace.wire.batches.header import HEADER_SIZE, crc_matches, read_header
from headrace.wire.batches.records import decode_records
from tests.faults.asking_again import until_told
from tests.faults.history import Partition, Reading
from tests.faults.node_process import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from confluent_kafka import Uuid

    Records = Iterator[tuple[int, bytes]]

INFLATE_MAX = 1 << 28
POLL_S = 1.0
MESSAGES_MAX = 10_000


def consumer_of(bootstrap: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **settings,
        }
    )


def read_as_client(bootstrap: str, partitions: Iterable[Partition]) -> Iterator[Reading]:
    """Each partition from its start to its high watermark."""
    consumer = consumer_of(bootstrap, **{"check.crcs": True})
    try:
        for partition in partitions:
            place = TopicPartition(*partition)
            start, end = until_told(partial(consumer.get_watermark_offsets, place, timeout=PATIENCE_S))
            yield Reading(partition, start, end, _consume(consumer, partition, start, end))
    finally:
        consumer.close()


def _consume(consumer: Consumer, partition: Partition, start: int, end: int) -> Records:
    if start == end:
        return
    consumer.assign([TopicPartition(*partition, start)])
    position, silence_s = start, 0.0
    while position < end:
        messages = consumer.consume(min(end - position, MESSAGES_MAX), timeout=POLL_S)
        silence_s = 0.0 if messages else silence_s + POLL_S
        if silence_s > PATIENCE_S:
            return  # the checker will name the gap
        for message in messages:
            error = message.error()
            if error is not None:
                assert error.code() in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}, error
                continue
            position = message.offset() + 1
            if position <= end:  # writes that were acked by the leader alone may become readable meanwhile
                yield message.offset(), message.value()
    consumer.unassign()


def partition_directories(bootstrap: str, data_dir: Path, partitions: Iterable[Partition]) -> dict[Partition, Path]:
    """Where the files of partitions lie; the node must be up to say so."""
    wanted = list(partitions)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.describe_topics(TopicCollection(sorted({partition.topic for partition in wanted})))
    ids = {topic: _id_bytes(description.result(PATIENCE_S).topic_id) for topic, description in asked.items()}
    return {
        partition: data_dir / directory_of(LogId(ids[partition.topic], partition.partition)) for partition in wanted
    }


def _id_bytes(topic_id: Uuid) -> TopicId:
    high, low = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    return TopicId(struct.pack(">qq", high, low))


def read_files(directories: Mapping[Partition, Path], starts: Mapping[Partition, int]) -> Iterator[Reading]:
    """Each partition as its `.log` files have it, from the given log start on, or later if the files begin later."""
    for partition, directory in directories.items():
        records = list(_walk(directory))
        first, end = (records[0][0], records[-1][0] + 1) if records else (0, starts[partition])
        start = max(starts[partition], first)
        yield Reading(partition, start, end, (record for record in records if record[0] >= start))


def _walk(directory: Path) -> Records:
    """Every record of a partition. Batches must be whole, and each producer's sequence numbers follow on each other."""
    assert directory.is_dir(), f"{directory} is missing"
    last_sequences: dict[tuple[int, int], int] = {}
    for path in sorted(directory.glob("*.log")):
        raw = memoryview(path.read_bytes())
        position = 0
        while position < len(raw):
            assert len(raw) - position >= HEADER_SIZE, f"{path} ends inside a header at byte {position}"
            header = read_header(raw, position)
            batch = raw[position : position + header.size]
            assert len(batch) == header.size, f"{path} ends inside the batch at byte {position}"
            assert crc_matches(batch, header), f"{path} has a damaged batch at byte {position}"
            if header.base_sequence >= 0:
                producer = (header.producer_id, header.producer_epoch)
                expected = last_sequences.get(producer, header.base_sequence - 1) + 1
                assert header.base_sequence == expected, (
                    f"{path}: producer {producer} sent {header}, expected {expected}"
                )
                last_sequences[producer] = header.last_sequence
            for record in decode_records(batch, inflate_max=INFLATE_MAX):
                assert record.value is not None
                yield record.offset, record.value
            position += header.size
