"""A busy node, its clients, and the final check: what every fault campaign has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults.history import ACKS_ALL, ACKS_LEADER, Figures, History, Partition, check
from tests.faults.load import (
    HeadraceLoad,
    LibrdkafkaLoad,
    RecordDeleter,
    SendingClient,
    TopicChurn,
    Watcher,
    create_topics,
    wait_for_acks,
)
from tests.faults.log_readers import partition_directories, read_as_client, read_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.faults.history import Reading, Violation
    from tests.faults.load import Client
    from tests.faults.node_process import NodeProcess

SMALL_SEGMENTS = {"segment.bytes": str(1 << 20)}  # the smallest there are, so that logs roll often
TOPICS = {
    "steady": (4, SMALL_SEGMENTS),
    "trimmed": (2, SMALL_SEGMENTS),
    "expiring": (2, {**SMALL_SEGMENTS, "retention.bytes": str(2 << 20)}),
}
NODE_CONFIGS = {"log.retention.check.interval.ms": "500"}
IMPATIENT_MS = 700  # shorter than most outages: what was under way ends as unknown


class Campaign:
    """Four producers, a consumer and two administrators on one node."""

    def __init__(self, node: NodeProcess, seed: int) -> None:
        self.node = node
        self.history = History(expiring={"expiring"})
        self.partitions = create_topics(node.bootstrap, TOPICS)
        deletable = [partition for partition in self.partitions if partition.topic == "trimmed"]
        where = (node.bootstrap, self.history, self.partitions)
        self.churn = TopicChurn("churn", node.bootstrap, self.history, seed)
        self.patient: list[SendingClient] = [
            LibrdkafkaLoad("librdkafka", *where, codec="lz4", seed=seed),
            HeadraceLoad("headrace", *where, seed=seed),
            LibrdkafkaLoad("leader-acks", *where, promise=ACKS_LEADER, seed=seed),
        ]
        impatient = LibrdkafkaLoad("impatient", *where, promise=ACKS_ALL, message_timeout_ms=IMPATIENT_MS, seed=seed)
        self.clients: list[Client] = [
            *self.patient,
            impatient,
            Watcher("watcher", node.bootstrap, self.history, self.partitions),
            RecordDeleter("deleter", node.bootstrap, self.history, deletable, seed),
            self.churn,
        ]

    def start(self) -> None:
        for client in self.clients:
            client.start()
        wait_for_acks(self.clients, 20)

    def progress(self) -> None:
        """Wait until every producer that retries for long got through again."""
        wait_for_acks(self.patient, 5)

    def finish(self) -> Figures:
        """Let everybody end, then read everything in two ways and hold it against the history."""
        for client in self.clients:
            client.end()
        self.churn.check()
        as_client: dict[Partition, Reading] = {}
        violations, figures = check(
            self.history, noted(read_as_client(self.node.bootstrap, self.partitions), as_client)
        )
        assert not violations, listed(violations)
        directories = partition_directories(self.node.bootstrap, self.node.data_dir, self.partitions)
        assert self.node.stop() == 0
        starts = {partition: reading.start_offset for partition, reading in as_client.items()}
        on_disk: dict[Partition, Reading] = {}
        violations, _ = check(self.history, noted(read_files(directories, starts), on_disk))
        assert not violations, listed(violations)
        for partition, reading in as_client.items():
            assert on_disk[partition].end_offset == reading.end_offset, f"{partition}: files and clients differ"
        errors = [error for client in self.patient for error in client.errors]
        assert not errors, f"producers that had time gave up: {errors[:3]}"
        return figures


def noted(readings: Iterable[Reading], notes: dict[Partition, Reading]) -> Iterator[Reading]:
    for reading in readings:
        notes[reading.partition] = reading
        yield reading


def listed(violations: list[Violation]) -> str:
    return f"{len(violations)} violations:\n" + "\n".join(map(str, violations[:20]))
