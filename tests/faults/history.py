"""The simulator's judge, for real processes: the same history, the same promises."""

from __future__ import annotations

from headrace.model.names import TopicPartition as Partition
from headrace.simulation.history.checker import check
from headrace.simulation.history.history import (
    ACKS_ALL,
    ACKS_ALL_IDEMPOTENT,
    ACKS_LEADER,
    Figures,
    History,
    Kind,
    Outcome,
    Promise,
    Reading,
    Send,
    Violation,
)

__all__ = [
    "ACKS_ALL",
    "ACKS_ALL_IDEMPOTENT",
    "ACKS_LEADER",
    "Figures",
    "History",
    "Kind",
    "Outcome",
    "Partition",
    "Promise",
    "Reading",
    "Send",
    "Violation",
    "check",
]
