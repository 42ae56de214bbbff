"""A data directory with a known past, to be copied and damaged.

Two partitions hold the same kind of batches, many to a segment, all of one idempotent producer. The first part was
written before a clean stop, so it lies below the recovery point; the second part before a SIGKILL.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.wire.batches.header import read_header
from headrace.wire.batches.records import encode_batch
from tests.faults.history import Partition
from tests.faults.load import create_topics
from tests.faults.log_readers import partition_directories
from tests.faults.node_process import NodeProcess
from tests.faults.raw_client import RawClient

if TYPE_CHECKING:
    from pathlib import Path

VICTIM = Partition("solid", 0)
BYSTANDER = Partition("solid", 1)
CONFIGS = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
RECORDS_PER_BATCH = 20
VALUE_BYTES = 1000
BATCHES_BEFORE_STOP = 170
BATCHES_BEFORE_KILL = 130
BATCHES = BATCHES_BEFORE_STOP + BATCHES_BEFORE_KILL
RECOVERY_POINT = BATCHES_BEFORE_STOP * RECORDS_PER_BATCH
END_OFFSET = BATCHES * RECORDS_PER_BATCH
FIRST_MS = 1_600_000_000_000
STEP_MS = 7


def value_at(partition: Partition, offset: int) -> bytes:
    return b"%s %d %d|" % (partition.topic.encode(), partition.partition, offset) + b"x" * (VALUE_BYTES + offset % 37)


def batch(partition: Partition, number: int, producer_id: int, *, sequence: int | None = None) -> bytearray:
    """The `number`th batch of a partition, the same each time."""
    first = number * RECORDS_PER_BATCH
    records = [
        (FIRST_MS + offset * STEP_MS, None, value_at(partition, offset), ())
        for offset in range(first, first + RECORDS_PER_BATCH)
    ]
    base_sequence = first if sequence is None else sequence
    return encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence)


@dataclass(frozen=True)
class PreparedData:
    data_dir: Path
    producer_id: int
    directories: dict[Partition, Path]
    """Relative to the data directory."""

    def copy_to(self, target: Path) -> PreparedData:
        shutil.copytree(self.data_dir, target)
        return PreparedData(target, self.producer_id, self.directories)

    def directory(self, partition: Partition = VICTIM) -> Path:
        return self.data_dir / self.directories[partition]

    def segments(self) -> list[Path]:
        """The victim's `.log` files, oldest first. The last one is the active one."""
        return sorted(self.directory().glob("*.log"))

    def place_of(self, offset: int) -> tuple[Path, int, int]:
        """File, position and size of the victim's batch that holds `offset`."""
        path = [path for path in self.segments() if int(path.stem) <= offset][-1]
        raw = path.read_bytes()
        position = 0
        while (header := read_header(raw, position)).last_offset < offset:
            position += header.size
        return path, position, header.size


def prepare(directory: Path) -> PreparedData:
    data_dir = directory / "data"
    with NodeProcess(data_dir, directory / "node.log") as node:
        create_topics(node.start().bootstrap, {"solid": (2, CONFIGS)})
        with RawClient(node.bootstrap) as client:
            producer_id = client.new_producer_id()
        _write(node, producer_id, range(BATCHES_BEFORE_STOP))
        assert node.stop() == 0
        _write(node.start(), producer_id, range(BATCHES_BEFORE_STOP, BATCHES))
        directories = partition_directories(node.bootstrap, data_dir, [VICTIM, BYSTANDER])
        node.kill()
    relative = {partition: path.relative_to(data_dir) for partition, path in directories.items()}
    return PreparedData(data_dir, producer_id, relative)


def _write(node: NodeProcess, producer_id: int, numbers: range) -> None:
    for partition in (VICTIM, BYSTANDER):
        with RawClient(node.bootstrap) as client:
            answers = client.produce_all([(partition, batch(partition, number, producer_id)) for number in numbers])
        for number, answer in zip(numbers, answers, strict=True):
            assert answer.error == ErrorCode.NONE, answer.message
            assert answer.base_offset == number * RECORDS_PER_BATCH
