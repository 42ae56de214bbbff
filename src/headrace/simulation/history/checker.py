"""Holds what clients were told against what the logs hold at the end: each promise that was broken is a violation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.simulation.history.history import SHOWN_BYTES, Figures, Kind, Outcome, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.model.names import TopicPartition
    from headrace.simulation.history.history import History, Reading, Send


def check(
    history: History, readings: Iterable[Reading], figures: Figures | None = None
) -> tuple[list[Violation], Figures]:
    """Every broken promise, and the figures of the run."""
    checker = _Checker(history, figures or Figures())
    for reading in readings:
        checker.read(reading)
    checker.finish()
    return checker.violations, checker.figures


class _Checker:
    def __init__(self, history: History, figures: Figures) -> None:
        self.history = history
        self.violations: list[Violation] = list(history.conflicts)
        self.figures = figures
        self._starts: dict[TopicPartition, int] = {}
        self._times_found: Counter[bytes] = Counter()
        self._places: set[tuple[TopicPartition, int, bytes]] = set()
        """Where acked values were found, as their ack said."""

    def _report(self, kind: Kind, partition: TopicPartition, offset: int, detail: str) -> None:
        self.violations.append(Violation(kind, partition, offset, detail))

    # One partition

    def read(self, reading: Reading) -> None:
        partition = reading.partition
        assert partition not in self._starts, f"{partition} was read twice"
        self._starts[partition] = reading.start_offset
        self._check_bounds(reading)
        self._check_jumps(reading)
        seen = dict(self.history.seen.get(partition, {}))
        last_numbers: dict[str, int] = {}
        for offset, value in self._in_place(reading):
            self.figures.found += 1
            shown = seen.pop(offset, None)
            if shown is not None and shown != value:
                detail = f"a consumer saw {shown[:SHOWN_BYTES]!r}, now {value[:SHOWN_BYTES]!r}"
                self._report(Kind.TWO_VALUES, partition, offset, detail)
            self._check_value(partition, offset, value, last_numbers)
        for offset, value in seen.items():
            if offset >= reading.start_offset:
                self._report(Kind.GONE, partition, offset, f"{value[:SHOWN_BYTES]!r} was read there")

    def _check_bounds(self, reading: Reading) -> None:
        partition, start_offset = reading.partition, reading.start_offset
        asked = self.history.delete_asked.get(partition, 0)
        done = self.history.delete_done.get(partition, 0)
        told = self.history.watermarks.get(partition, 0)
        if start_offset > asked and partition.topic not in self.history.expiring:
            self._report(Kind.CUT_OFF, partition, start_offset, f"only what is below {asked} was to go")
        if start_offset < done:
            self._report(Kind.UNDELETED, partition, start_offset, f"everything below {done} was to be gone")
        if reading.end_offset < told:
            self._report(Kind.WATERMARK_FELL, partition, reading.end_offset, f"a consumer was told {told}")

    def _check_jumps(self, reading: Reading) -> None:
        for consumer, partition, expected, next_offset, is_committed_only in self.history.jumps:
            if partition == reading.partition:
                unseen = reading.markers | reading.aborted if is_committed_only else reading.markers
                passed = range(max(expected, reading.start_offset), next_offset)
                skipped = [offset for offset in passed if offset not in unseen]
                if skipped:
                    self._report(Kind.SKIPPED, partition, skipped[0], f"{consumer} was handed {next_offset} next")

    def _in_place(self, reading: Reading) -> Iterator[tuple[int, bytes]]:
        """The records, with a report for each offset that is missing or stands where it must not."""
        expected = reading.start_offset
        for offset, value in reading.records:
            while expected in reading.markers:
                expected += 1
            if offset < expected:
                self._report(Kind.OUT_OF_PLACE, reading.partition, offset, f"after offset {expected - 1}")
            elif offset > expected:
                self._report(Kind.GAP, reading.partition, expected, f"the next record is at {offset}")
            expected = offset + 1
            yield offset, value
        while expected in reading.markers:
            expected += 1
        if expected < reading.end_offset:
            self._report(Kind.GAP, reading.partition, expected, f"the log is said to end at {reading.end_offset}")
        elif expected > max(reading.end_offset, reading.start_offset):
            self._report(
                Kind.OUT_OF_PLACE, reading.partition, expected - 1, f"the log is said to end at {reading.end_offset}"
            )

    def _check_value(self, partition: TopicPartition, offset: int, value: bytes, last_numbers: dict[str, int]) -> None:
        send = self.history.sends.get(value)
        if send is None or send.partition != partition:
            self._report(Kind.INVENTED, partition, offset, f"{value[:SHOWN_BYTES]!r}")
            return
        self._times_found[value] += 1
        if send.outcome is Outcome.OK and send.offset == offset:
            self._places.add((partition, offset, send.value))
        is_repeat = self._times_found[value] > 1
        if is_repeat:
            if send.promise.is_idempotent:
                self._report(Kind.REPEATED, partition, offset, f"{send} is there once more")
                return
            self.figures.duplicates_without_idempotence += 1
        if send.outcome is Outcome.FAILED:
            self._report(Kind.REVIVED, partition, offset, str(send))
        if send.is_ordered_at(offset, is_repeat=is_repeat):
            last_number = last_numbers.get(send.producer, 0)
            if send.number < last_number:
                self._report(Kind.REORDERED, partition, offset, f"{send} comes after its send {last_number}")
            last_numbers[send.producer] = max(last_number, send.number)

    # Everything

    def finish(self) -> None:
        self.figures.seen_by_consumers = sum(map(len, self.history.seen.values()))
        holders: dict[tuple[TopicPartition, int], Send] = {}
        unread: set[TopicPartition] = set()
        for send in self.history.sends.values():
            self._count(send)
            if send.outcome is not Outcome.OK:
                continue
            if send.partition not in self._starts:
                if send.partition not in unread and send.promise.is_durable:
                    unread.add(send.partition)
                    self._report(Kind.UNREAD, send.partition, send.offset, str(send))
            elif send.promise.is_durable:
                self._check_ack(send, holders)

    def _check_ack(self, send: Send, holders: dict[tuple[TopicPartition, int], Send]) -> None:
        place = (send.partition, send.offset)
        start_offset = self._starts[send.partition]
        if send.offset < 0:  # it is somewhere, unless it was deleted meanwhile
            if start_offset == 0 and not self._times_found[send.value]:
                self._report(Kind.LOST, *place, f"{send}: it was acked as a duplicate and is nowhere in the log")
            return
        other = holders.setdefault(place, send)
        if other is not send:
            self._report(Kind.TWO_VALUES, *place, f"it was acked to {other} and to {send}")
        if send.offset >= start_offset and (*place, send.value) not in self._places:
            times = self._times_found[send.value]
            where = "it is nowhere in the log" if times == 0 else "it is in the log, at another offset"
            self._report(Kind.LOST, *place, f"{send}: {where}")

    def _count(self, send: Send) -> None:
        figures = self.figures
        is_found = self._times_found[send.value] > 0
        figures.sends += 1
        match send.outcome:
            case Outcome.OK if send.promise.is_durable:
                figures.acked_all += 1
            case Outcome.OK:
                figures.acked_leader += 1
                is_deleted = send.offset < self._starts.get(send.partition, 0)
                figures.acked_leader_missing += not is_found and not is_deleted
            case Outcome.FAILED:
                figures.failed += 1
            case Outcome.UNKNOWN:
                figures.unknown += 1
                figures.unknown_but_written += is_found
