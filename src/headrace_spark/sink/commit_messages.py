"""What a task attempt hands to the driver: its rows as finished batches, or where it left them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

if TYPE_CHECKING:
    from headrace.model.names import TopicPartition


class InlineBatch(NamedTuple):
    """A small batch that travels in the message itself."""

    target: TopicPartition
    records: bytes
    record_count: int


class StagedBatch(NamedTuple):
    """One batch in the staging topic."""

    offset: int
    """Of its first record. No two batches of a staging partition share it, so it is the batch's name there."""
    record_count: int
    size_bytes: int
    max_timestamp_ms: int
    """As the attempt wrote it; the staging topic puts the time of arrival in its place."""
    target: int
    """Position in the output's list of targets."""


@dataclass(frozen=True, slots=True)
class TaskOutput(WriterCommitMessage):
    """The result of one attempt. Only those of the attempts that won reach the driver's commit."""

    transactional_id: str
    """Of the query. A task knows it, the driver's side of a writer does not."""
    inline: tuple[InlineBatch, ...] = ()
    staging: TopicPartition | None = None
    targets: tuple[TopicPartition, ...] = ()
    staged: tuple[StagedBatch, ...] = ()

    @property
    def record_count(self) -> int:
        """Records of all its batches."""
        return sum(batch.record_count for batch in self.inline) + sum(batch.record_count for batch in self.staged)

    @property
    def size_bytes(self) -> int:
        """The size of all its batches."""
        return sum(len(batch.records) for batch in self.inline) + sum(batch.size_bytes for batch in self.staged)


@dataclass(frozen=True, slots=True)
class WrittenDirectly(WriterCommitMessage):
    """An attempt wrote to the targets themselves; there is nothing left to do."""

    record_count: int
