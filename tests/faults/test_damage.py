"""Files are damaged while the node is down. A torn tail is cut, what can be rebuilt is, and anything else is named."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, TopicPartition

from headrace.model.errors import ErrorCode
from tests.faults.history import Partition
from tests.faults.load import create_topics
from tests.faults.log_readers import consumer_of, read_as_client
from tests.faults.node_process import PATIENCE_S, NodeProcess, wait_until
from tests.faults.prepared_data import (
    BATCHES,
    BYSTANDER,
    END_OFFSET,
    FIRST_MS,
    RECORDS_PER_BATCH,
    RECOVERY_POINT,
    STEP_MS,
    VICTIM,
    PreparedData,
    batch,
    prepare,
    value_at,
)
from tests.faults.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECTOR = 512
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def data(prepared: PreparedData, tmp_path: Path) -> PreparedData:
    return prepared.copy_to(tmp_path / "data")


@pytest.fixture
def node(data: PreparedData, tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(data.data_dir, tmp_path / "node.log") as process:
        yield process


# Ways to damage a file


def delete(path: Path) -> None:
    path.unlink()


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path, position: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2 if position is None else position] ^= 0xFF
    path.write_bytes(content)


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


# What must hold


def records_of(node: NodeProcess, partition: Partition) -> list[tuple[int, bytes]]:
    return [record for reading in read_as_client(node.bootstrap, [partition]) for record in reading.records]


def expect_records(node: NodeProcess, partition: Partition, end_offset: int) -> None:
    """Every record up to `end_offset` is there, and can be found by its time."""
    assert records_of(node, partition) == [(offset, value_at(partition, offset)) for offset in range(end_offset)]
    consumer = consumer_of(node.bootstrap)
    try:
        for offset in (0, 1, RECOVERY_POINT + 5, end_offset - 1):
            asked = TopicPartition(*partition, FIRST_MS + offset * STEP_MS)
            (found,) = consumer.offsets_for_times([asked], timeout=PATIENCE_S)
            assert found.offset == offset
    finally:
        consumer.close()


def expect_producer_known(node: NodeProcess, data: PreparedData, partition: Partition, next_batch: int) -> None:
    """Retries are recognised, a gap is refused, the next batch is taken."""
    with RawClient(node.bootstrap) as client:
        for number in range(next_batch - 5, next_batch):
            again = client.produce(partition, batch(partition, number, data.producer_id))
            assert (again.error, again.base_offset) == (ErrorCode.NONE, number * RECORDS_PER_BATCH)
        gap = client.produce(partition, batch(partition, next_batch + 1, data.producer_id))
        assert gap.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        taken = client.produce(partition, batch(partition, next_batch, data.producer_id))
        assert (taken.error, taken.base_offset) == (ErrorCode.NONE, next_batch * RECORDS_PER_BATCH)


def expect_everything(node: NodeProcess, data: PreparedData) -> None:
    expect_records(node, VICTIM, END_OFFSET)
    expect_producer_known(node, data, VICTIM, BATCHES)
    assert node.readiness() == (200, {"status": "ready", "offline_partitions": {}})


def expect_offline(node: NodeProcess, data: PreparedData) -> None:
    """The damaged partition is refused with a reason; the other one works as if nothing had happened."""
    with RawClient(node.bootstrap) as client:
        answer = client.produce(VICTIM, batch(VICTIM, BATCHES, data.producer_id))
        assert answer.error == ErrorCode.KAFKA_STORAGE_ERROR
        (victim_error, victim_leader), (bystander_error, _) = client.partition_errors("solid")
    assert victim_error != ErrorCode.NONE
    assert victim_leader == -1
    assert bystander_error == ErrorCode.NONE
    _, readiness = node.readiness()
    assert list(readiness["offline_partitions"]) == ["solid-0"]
    (line,) = [line for line in node.log.splitlines() if "solid-0 is offline" in line]
    assert ".log is damaged at byte" in line
    assert "Nothing was cut" in line
    expect_records(node, BYSTANDER, END_OFFSET)
    expect_producer_known(node, data, BYSTANDER, BATCHES)


# Nothing is missing


@pytest.mark.parametrize("ending", ["*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("harm", [delete, empty, zero, flip])
def test_what_can_be_rebuilt_is_rebuilt(
    node: NodeProcess, data: PreparedData, ending: str, harm: Callable[[Path], None]
) -> None:
    harmed = list(data.directory().glob(ending))
    assert harmed
    for path in harmed:
        harm(path)
    expect_everything(node.start(), data)


@pytest.mark.parametrize("ending", ["*.index", "*.timeindex", "*.snapshot"])
def test_an_older_version_of_a_hint_does_no_harm(node: NodeProcess, data: PreparedData, ending: str) -> None:
    """As after a restored backup, or a disk that kept a write to itself."""
    older = sorted(data.directory().glob(ending))
    for path, predecessor in zip(older[1:], older, strict=False):
        path.write_bytes(predecessor.read_bytes())
    expect_everything(node.start(), data)


@pytest.mark.parametrize("harm", [delete, empty, zero, flip])
def test_without_a_recovery_point_everything_is_verified(
    node: NodeProcess, data: PreparedData, harm: Callable[[Path], None]
) -> None:
    harm(data.data_dir / RECOVERY_POINTS)
    expect_everything(node.start(), data)


def test_garbage_at_the_end_is_cut(node: NodeProcess, data: PreparedData) -> None:
    active = data.segments()[-1]
    size = active.stat().st_size
    with active.open("ab") as file:
        file.write(os.urandom(3000))
    node.start()
    assert f"{active.name} was cut at byte {size}" in node.log
    expect_everything(node, data)


def test_zeros_at_the_end_are_cut(node: NodeProcess, data: PreparedData) -> None:
    active = data.segments()[-1]
    with active.open("ab") as file:
        file.write(bytes(8192))
    expect_everything(node.start(), data)


# A torn tail


def cut_the_last_batch_short(path: Path, position: int, size: int) -> None:
    os.truncate(path, position + size // 2)


def cut_the_last_header_short(path: Path, position: int, size: int) -> None:
    os.truncate(path, position + 30)


def zero_a_sector_of_the_last_batch(path: Path, position: int, size: int) -> None:
    overwrite(path, (position // SECTOR + 3) * SECTOR, bytes(SECTOR))


def lose_the_end_of_the_last_batch(path: Path, position: int, size: int) -> None:
    overwrite(path, position + size - SECTOR, bytes(SECTOR))


def flip_a_bit_of_the_last_batch(path: Path, position: int, size: int) -> None:
    flip(path, position + size // 2)


@pytest.mark.parametrize(
    "tear",
    [
        cut_the_last_batch_short,
        cut_the_last_header_short,
        zero_a_sector_of_the_last_batch,
        lose_the_end_of_the_last_batch,
        flip_a_bit_of_the_last_batch,
    ],
)
def test_only_the_torn_batch_at_the_end_is_cut(
    node: NodeProcess, data: PreparedData, tear: Callable[[Path, int, int], None]
) -> None:
    path, position, size = data.place_of(END_OFFSET - 1)
    tear(path, position, size)
    node.start()
    assert f"{path.name} was cut at byte {position}" in node.log
    expect_records(node, VICTIM, END_OFFSET - RECORDS_PER_BATCH)
    expect_producer_known(node, data, VICTIM, BATCHES - 1)
    expect_records(node, BYSTANDER, END_OFFSET)


# Damage that no crash explains


def flip_in_a_closed_segment(data: PreparedData) -> None:
    path, position, size = data.place_of(RECOVERY_POINT + 200)
    assert path != data.segments()[-1]
    flip(path, position + size // 2)


def flip_a_length_in_a_closed_segment(data: PreparedData) -> None:
    path, position, _ = data.place_of(RECOVERY_POINT + 200)
    flip(path, position + 10)


def flip_in_the_active_segment(data: PreparedData) -> None:
    path, position, size = data.place_of(END_OFFSET - 5 * RECORDS_PER_BATCH)
    assert path == data.segments()[-1]
    flip(path, position + size // 2)


def flip_below_a_lost_recovery_point(data: PreparedData) -> None:
    path, position, size = data.place_of(100)
    flip(path, position + size // 2)
    delete(data.data_dir / RECOVERY_POINTS)


def overwrite_a_batch_with_another(data: PreparedData) -> None:
    path, position, _ = data.place_of(RECOVERY_POINT + 200)
    raw = path.read_bytes()
    _, next_position, size = data.place_of(RECOVERY_POINT + 200 + RECORDS_PER_BATCH)
    overwrite(path, position, raw[next_position : next_position + size])


def cut_the_log_below_the_recovery_point(data: PreparedData) -> None:
    path, position, size = data.place_of(RECOVERY_POINT - 1)
    for segment in data.segments():
        if segment > path:
            segment.unlink()
    os.truncate(path, position + size // 2)


def cut_the_log_between_batches_below_the_recovery_point(data: PreparedData) -> None:
    path, position, _ = data.place_of(RECOVERY_POINT - 1)
    for segment in data.segments():
        if segment > path:
            segment.unlink()
    os.truncate(path, position)


def lose_a_closed_segment(data: PreparedData) -> None:
    delete(data.segments()[1])


def lose_the_first_segment(data: PreparedData) -> None:
    delete(data.segments()[0])


def lose_every_segment(data: PreparedData) -> None:
    for path in data.segments():
        delete(path)


@pytest.mark.parametrize(
    "harm",
    [
        flip_in_a_closed_segment,
        flip_a_length_in_a_closed_segment,
        flip_in_the_active_segment,
        flip_below_a_lost_recovery_point,
        overwrite_a_batch_with_another,
        cut_the_log_below_the_recovery_point,
        cut_the_log_between_batches_below_the_recovery_point,
        lose_a_closed_segment,
        lose_the_first_segment,
        lose_every_segment,
    ],
)
def test_damage_takes_one_partition_offline_and_cuts_nothing(
    node: NodeProcess, data: PreparedData, harm: Callable[[PreparedData], None]
) -> None:
    harm(data)
    before = {path.name: path.read_bytes() for path in data.segments()}
    expect_offline(node.start(), data)
    assert {path.name: path.read_bytes() for path in data.segments()} == before
    assert node.stop() == 0
    node.start()
    assert list(node.readiness()[1]["offline_partitions"]) == ["solid-0"]
    assert {path.name: path.read_bytes() for path in data.segments()} == before


def test_damage_that_a_start_does_not_look_for_is_never_taken_for_records(
    node: NodeProcess, data: PreparedData
) -> None:
    """Below the recovery point a start verifies nothing; whoever opens the batch finds out by its CRC.

    Unless the scrub was there first: then the node refuses to send it, and the client waits for it in vain.
    """
    node.configs["headrace.scrub.max.bytes.per.second"] = "0"
    path, position, size = data.place_of(100)
    flip(path, position + size // 2)
    before = path.read_bytes()
    node.start()
    with pytest.raises((KafkaException, AssertionError), match=r"_BAD_MSG|CRC"):
        records_of(node, VICTIM)
    expect_records(node, BYSTANDER, END_OFFSET)
    assert path.read_bytes() == before


def test_a_damaged_header_that_a_reader_meets_is_an_error_and_is_told_once(
    node: NodeProcess, data: PreparedData
) -> None:
    path, position, _ = data.place_of(100)
    flip(path, position + 8)
    node.start()
    with RawClient(node.bootstrap) as client:
        # The index is gone with the last life. While it is made anew, there is nothing to be had yet.
        wait_until(lambda: client.fetch(VICTIM, 100) != (ErrorCode.NONE, b""), "the damage is met")
        for _ in range(3):
            assert client.fetch(VICTIM, 100) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        error, records = client.fetch(VICTIM, RECOVERY_POINT)
        assert error == ErrorCode.NONE
        assert value_at(VICTIM, RECOVERY_POINT) in records
    (line,) = [line for line in node.log.splitlines() if "solid-0 cannot be read" in line]
    assert f"{path.name} is damaged at byte {position}" in line
    expect_records(node, BYSTANDER, END_OFFSET)


# Who and where


@pytest.mark.parametrize("harm", [delete, empty, zero, flip])
def test_a_damaged_identity_is_refused_with_a_reason(
    node: NodeProcess, data: PreparedData, harm: Callable[[Path], None]
) -> None:
    harm(data.data_dir / "meta.properties")
    node.launch()
    assert node.wait_exit() == 1
    assert "meta.properties" in node.log
    assert "Traceback" not in node.log


def test_a_damaged_metadata_log_is_refused_with_a_reason(node: NodeProcess, data: PreparedData) -> None:
    delete(data.data_dir / RECOVERY_POINTS)
    (log,) = data.data_dir.glob("topics/AAAAAAAAAAAAAAAAAAAAAQ-0/*.log")
    flip(log, 80)
    node.launch()
    assert node.wait_exit() == 1
    assert "is damaged at byte" in node.log
    assert "Traceback" not in node.log


def test_a_second_node_on_the_same_data_is_refused(node: NodeProcess, data: PreparedData, tmp_path: Path) -> None:
    node.start()
    with NodeProcess(data.data_dir, tmp_path / "second.log") as second:
        second.launch()
        assert second.wait_exit() == 1
        assert "in use by another node" in second.log
        assert "Traceback" not in second.log
    expect_everything(node, data)


# Few file descriptors

PARTITIONS = 500
DESCRIPTORS = 256


def allow_few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def expect_all(node: NodeProcess, partitions: list[Partition], end_offset: int) -> None:
    """Read many partitions at once."""
    found: dict[Partition, list[tuple[int, bytes]]] = {partition: [] for partition in partitions}
    missing = len(partitions) * end_offset
    consumer = consumer_of(node.bootstrap)
    consumer.assign([TopicPartition(*partition, 0) for partition in partitions])
    while missing and (messages := consumer.consume(min(missing, 1000), timeout=PATIENCE_S)):
        for message in messages:
            assert message.error() is None, message.error()
            found[Partition(message.topic(), message.partition())].append((message.offset(), message.value()))
        missing -= len(messages)
    consumer.close()
    for partition, records in found.items():
        assert records == [(offset, value_at(partition, offset)) for offset in range(end_offset)]


def test_many_partitions_with_few_file_descriptors(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", tmp_path / "node.log", before_exec=allow_few_descriptors) as node:
        partitions = create_topics(node.start().bootstrap, {"wide": (PARTITIONS, {})})
        for first in (0, 1):
            with RawClient(node.bootstrap) as client:
                producer_id = client.new_producer_id()
                batches = [(partition, batch(partition, first, producer_id, sequence=0)) for partition in partitions]
                for answer in client.produce_all(batches):
                    assert answer.error == ErrorCode.NONE, answer.message
            expect_all(node, partitions, (first + 1) * RECORDS_PER_BATCH)
            node.kill()
            node.start()
        assert node.stop() == 0
