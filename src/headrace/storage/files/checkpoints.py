"""Small text files in Kafka's form: a version, the number of entries, and one entry per line.

They are read strictly. A file that is not exactly right counts as missing, which costs time (everything is verified)
but never a wrong answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.names import Epoch, LogId, Offset, topic_id_from_text, topic_id_text
from headrace.runtime.disk import ReadFault
from headrace.storage.files.leader_epochs import EpochStart
from headrace.storage.files.scrub_marks import ScrubMark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.runtime.disk import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_SHUTDOWN = "clean-shutdown"
SCRUBS = "scrub-checkpoint"
VERSION = "0"


def encode_epochs(epochs: Iterable[EpochStart]) -> bytes:
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def decode_epochs(raw: bytes) -> list[EpochStart] | None:
    """None if the file is damaged: the epochs can be read from the batches."""
    lines = _decode(raw, 2)
    if lines is None:
        return None
    entries: list[EpochStart] = []
    for epoch_text, start_text in lines:
        epoch, start_offset = _number(epoch_text), _number(start_text)
        if epoch is None or start_offset is None:
            return None
        if entries and (epoch <= entries[-1].epoch or start_offset < entries[-1].start_offset):
            return None
        entries.append(EpochStart(Epoch(epoch), Offset(start_offset)))
    return entries


def encode_offsets(offsets: Mapping[LogId, int]) -> bytes:
    """Topics are named by id: a name can be used again for another log."""
    texts = {topic_id: topic_id_text(topic_id) for topic_id, _ in offsets}  # once for all partitions of a topic
    return _encode(
        f"{texts[log_id.topic_id]} {log_id.partition} {offset}" for log_id, offset in sorted(offsets.items())
    )


def decode_offsets(raw: bytes) -> dict[LogId, int] | None:
    lines = _decode(raw, 3)
    if lines is None:
        return None
    offsets: dict[LogId, int] = {}
    for topic_text, partition_text, offset_text in lines:
        partition, offset = _number(partition_text), _number(offset_text)
        if partition is None or offset is None:
            return None
        try:
            offsets[LogId(topic_id_from_text(topic_text), partition)] = offset
        except ValueError:
            return None
    return offsets


def encode_scrubs(marks: Mapping[LogId, ScrubMark]) -> bytes:
    return _encode(
        f"{topic_id_text(log_id.topic_id)} {log_id.partition} {mark.since_ms} {mark.checked_to}"
        for log_id, mark in sorted(marks.items())
    )


def read_scrubs(disk: Disk) -> dict[LogId, ScrubMark]:
    """A missing or damaged file is an empty one: then everything is checked again."""
    try:
        lines = _decode(disk.read_file(SCRUBS), 4) or []
        return {
            LogId(topic_id_from_text(topic), int(partition)): ScrubMark(int(since_ms), int(checked_to))
            for topic, partition, since_ms, checked_to in lines
        }
    except (FileNotFoundError, ReadFault, ValueError):
        return {}


def is_whole(disk: Disk, path: str) -> bool:
    """Whether a file of offsets is there and can be read."""
    try:
        return decode_offsets(disk.read_file(path)) is not None
    except (FileNotFoundError, ReadFault):
        return False


def read_offsets(disk: Disk, path: str) -> dict[LogId, int]:
    """A missing or damaged file is an empty one."""
    try:
        return decode_offsets(disk.read_file(path)) or {}
    except (FileNotFoundError, ReadFault):
        return {}


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([VERSION, str(len(entries)), *entries, ""]).encode("ascii")


def _decode(raw: bytes, field_count: int) -> list[list[str]] | None:
    try:
        version, count, *lines, rest = raw.decode("ascii").split("\n")
    except ValueError:
        return None
    entries = [line.split(" ") for line in lines]
    if version != VERSION or rest or count != str(len(entries)):
        return None
    return entries if all(len(fields) == field_count for fields in entries) else None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
