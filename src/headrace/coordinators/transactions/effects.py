"""What a transaction coordinator wants done: besides records and answers, markers in the partitions it wrote to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.coordinators.effects import Effects

if TYPE_CHECKING:
    from headrace.model.names import ProducerId, TopicPartition


class MarkerOrder(NamedTuple):
    """Write how a transaction ended to each of its partitions, then say so with `markers_written`.

    Only after the records of the same effects are committed: until then, the transaction may yet end the other way.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    transaction_version: int


@dataclass(slots=True)
class TransactionEffects(Effects):
    markers: list[MarkerOrder] = field(default_factory=list)

    @property
    def has_orders(self) -> bool:
        return bool(self.markers)

    def add(self, other: Effects) -> None:
        Effects.add(self, other)
        if isinstance(other, TransactionEffects):
            self.markers += other.markers
