"""A full disk: producers are told, readers go on, and writing resumes by itself once there is room again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.history import ACKS_ALL, History, Outcome, Partition, check
from tests.faults.load import HeadraceLoad, LibrdkafkaLoad, create_topics, wait_for_acks
from tests.faults.log_readers import read_as_client
from tests.faults.mounted_disks import MIB, LoopDisk, MemoryDisk, MountedDisk, needs_mounts
from tests.faults.node_process import PATIENCE_S, NodeProcess, wait_until

if TYPE_CHECKING:
    from pathlib import Path

DISK_BYTES = 64 * MIB
ROOM_BYTES = 4 * MIB  # what producers may fill before nothing is left
TOPIC = {"full": (2, {"segment.bytes": str(MIB)})}
UNREACHABLE = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}


def send_once(bootstrap: str, history: History, partition: Partition) -> KafkaError | None:
    """One attempt with acks=all and no retry: what the node itself says."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "retries": 0, "log_level": 0})
    number = history.next_number("once")
    send = history.begin("once", partition, number, b"once %d|" % number + bytes(8192), ACKS_ALL)
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is None:
            send.ok(message.offset())
        else:
            errors.append(error)

    producer.produce(partition.topic, send.value, partition=partition.partition, on_delivery=delivered)
    producer.flush(PATIENCE_S)
    if errors and errors[0].code() == KafkaError.KAFKA_STORAGE_ERROR:
        send.failed()
    assert errors or send.outcome is Outcome.OK, "the send was never settled"
    return errors[0] if errors else None


def readable(bootstrap: str, partitions: list[Partition]) -> int:
    return sum(len(list(reading.records)) for reading in read_as_client(bootstrap, partitions))


@pytest.fixture(params=[LoopDisk, MemoryDisk], ids=["ext4", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> MountedDisk:
    with request.param(tmp_path, DISK_BYTES) as mounted:
        yield mounted


def fill_by_writing(node: NodeProcess, disk: MountedDisk, history: History, partition: Partition) -> KafkaError:
    """Write until the node refuses, then take away what is left."""
    refusals: list[KafkaError] = []

    def is_refused() -> bool:
        error = send_once(node.bootstrap, history, partition)
        refusals.extend([] if error is None else [error])
        return error is not None

    wait_until(is_refused, "the disk is full")
    disk.fill()
    return refusals[0]


@needs_mounts
def test_a_full_disk_stops_writers_but_not_readers_and_heals_by_itself(disk: MountedDisk, tmp_path: Path) -> None:
    history = History()
    with NodeProcess(disk.root / "data", tmp_path / "node.log") as node:
        partitions = create_topics(node.start().bootstrap, TOPIC)
        disk.fill(leave_bytes=ROOM_BYTES)
        loads = [
            LibrdkafkaLoad("librdkafka", node.bootstrap, history, partitions),
            HeadraceLoad("headrace", node.bootstrap, history, partitions),
        ]
        for load in loads:
            load.start()
        wait_for_acks(loads, 50)
        refusal = fill_by_writing(node, disk, history, partitions[0])
        assert refusal.code() == KafkaError.KAFKA_STORAGE_ERROR

        assert send_once(node.bootstrap, history, partitions[1]) is not None
        count = readable(node.bootstrap, partitions)
        assert count >= 100
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        with pytest.raises(KafkaException):
            admin.create_topics([NewTopic("more", 4, 1)])["more"].result(PATIENCE_S)
        assert node.readiness()[0] == 200

        node.kill()
        node.start()
        assert readable(node.bootstrap, partitions) >= count
        assert send_once(node.bootstrap, history, partitions[0]) is not None
        assert node.stop() == 0
        node.start()
        assert readable(node.bootstrap, partitions) >= count

        disk.free_up()
        wait_for_acks(loads, 50)
        assert send_once(node.bootstrap, history, partitions[0]) is None
        create_topics(node.bootstrap, {"more": (4, {})})
        for load in loads:
            load.end()
            assert load.errors == []
        violations, figures = check(history, read_as_client(node.bootstrap, partitions))
        assert violations == []
        assert figures.failed >= 2
        assert figures.unknown == 0
        assert node.stop() == 0
