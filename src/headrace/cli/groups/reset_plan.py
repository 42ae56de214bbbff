"""Where a group shall go on reading: from what was asked for to one new position per partition. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.client.reading.consumer import AtTime
from headrace.client.reading.offsets import Edge

if TYPE_CHECKING:
    from headrace.model.names import TopicPartition


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """This many messages on, or, if negative, back."""

    count: int


Goal = int | Edge | AtTime | ShiftBy


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """What becomes of one partition's position."""

    partition: TopicPartition
    old: int | None
    """None if the group has no position there."""
    new: int | None
    """None if there is none to go to."""
    note: str = ""

    @property
    def is_change(self) -> bool:
        return self.new is not None and self.new != self.old


def plan_reset(
    partition: TopicPartition, goal: Goal, *, old: int | None, first: int, end: int, found: int | None = None
) -> PlannedReset:
    """The reset to `goal`, kept within the log. `found` is the first offset of the time that an `AtTime` asks for."""
    match goal:
        case Edge.EARLIEST:
            return PlannedReset(partition, old, first)
        case Edge.LATEST:
            return PlannedReset(partition, old, end)
        case AtTime():
            if found is None:
                return PlannedReset(partition, old, end, "no message is that late: the end")
            return PlannedReset(partition, old, found)
        case ShiftBy(count):
            if old is None:
                return PlannedReset(partition, None, None, "no position to shift")
            return _within_the_log(partition, old, old + count, first, end)
        case int():
            return _within_the_log(partition, old, goal, first, end)


def _within_the_log(partition: TopicPartition, old: int | None, wanted: int, first: int, end: int) -> PlannedReset:
    if wanted < first:
        return PlannedReset(partition, old, first, f"{wanted} lies before the log: its first offset")
    if wanted > end:
        return PlannedReset(partition, old, end, f"{wanted} lies past the log: its end")
    return PlannedReset(partition, old, wanted)


@dataclass(frozen=True, slots=True)
class TopicScope:
    """A topic, or some of its partitions."""

    topic: str
    partitions: tuple[int, ...]
    """Empty: all."""

    def holds(self, name: TopicPartition) -> bool:
        return name.topic == self.topic and (not self.partitions or name.partition in self.partitions)


def parse_scope(text: str) -> TopicScope:
    """`events`, or `events:0,2`. Raises ValueError with what was expected."""
    topic, colon, rest = text.partition(":")
    numbers = rest.split(",")
    if not topic or (colon and not all(number.isascii() and number.isdigit() for number in numbers)):
        raise ValueError(f"{text!r}; expected a topic, or a topic and partitions as in events:0,2")
    return TopicScope(topic, tuple(sorted({int(number) for number in numbers})) if colon else ())
