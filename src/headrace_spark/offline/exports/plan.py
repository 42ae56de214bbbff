"""What an export will write, decided before it begins: which offsets of which partitions go into which file.

The plan is stored first and never changes. Whoever goes on after a crash follows it, so a topic that grows meanwhile
gives the same files all the same.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from headrace_spark.offline.errors import OfflineFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLAN_NAME: Final = "_plan.json"
PLAN_FORMAT: Final = "headrace-export-plan"
VERSION: Final = 1
OFFSET_DIGITS: Final = 20  # those of the largest offset, as Kafka names its segments: names sort as offsets do


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What was asked for, in the words of the command line. A second run must ask for the same."""

    topics: tuple[str, ...]
    topics_pattern: str | None
    from_: str
    to: str
    isolation: str
    compression: str
    file_bytes: int

    def differences(self, other: ExportRequest) -> list[str]:
        """`from is 'earliest', was '5'`, for each that differs."""
        return [
            f"{field.name.rstrip('_').replace('_', '-')} is {_shown(getattr(self, field.name))}, "
            f"was {_shown(getattr(other, field.name))}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(other, field.name)
        ]


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What is exported of one partition."""

    topic: str
    topic_id: str
    """A topic that was deleted and made anew has another one. Empty if the cluster is too old to have any."""
    partition: int
    start: int
    end: int
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One file: offsets `[start, end)` of a partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def path(self) -> str:
        """In the hive layout, which every reader of Parquet knows: the directories are columns."""
        offsets = f"{self.start:0{OFFSET_DIGITS}d}-{self.end - 1:0{OFFSET_DIGITS}d}"
        return f"topic={self.topic}/partition={self.partition}/{offsets}.parquet"


@dataclass(frozen=True, slots=True)
class Plan:
    """What an export will write: the ranges of offsets, and the files that they are cut into."""

    request: ExportRequest
    ranges: tuple[PartitionRange, ...]
    pieces: tuple[Piece, ...]

    def to_json(self) -> bytes:
        """The content of `_plan.json`."""
        content = {
            "format": PLAN_FORMAT,
            "version": VERSION,
            "request": asdict(self.request),
            "ranges": [asdict(part) for part in self.ranges],
            "files": [asdict(piece) for piece in self.pieces],
        }
        return json.dumps(content, indent=1).encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> Plan:
        """The reverse.

        `where` names the file in errors. Raises OfflineFailed if it is damaged, or from another version.
        """
        content = read_json(text, PLAN_FORMAT, VERSION, where)
        try:
            return cls(
                request_from(content["request"]),
                tuple(PartitionRange(**part) for part in content["ranges"]),
                tuple(Piece(**piece) for piece in content["files"]),
            )
        except (KeyError, TypeError) as wrong:
            raise OfflineFailed(f"{where} is damaged: {wrong!r}", "delete it to begin the export again") from wrong


def request_from(content: Mapping[str, Any]) -> ExportRequest:
    """The request as it stands in a plan or a manifest. Raises KeyError or TypeError if it is not one."""
    return ExportRequest(**{**content, "topics": tuple(content["topics"])})


def read_json(text: bytes, form: str, version: int, where: str) -> dict[str, Any]:
    """A file of ours, or one clear sentence."""
    try:
        content = json.loads(text)
    except ValueError as wrong:
        raise OfflineFailed(f"{where} is no JSON: {wrong}", "it is not of headrace, or damaged") from wrong
    if not isinstance(content, dict) or content.get("format") != form:
        raise OfflineFailed(f"{where} is not of headrace: its format is not {form!r}")
    if content.get("version") != version:
        raise OfflineFailed(
            f"{where} has version {content.get('version')}; this headrace reads version {version}",
            "another headrace wrote it: use that one",
        )
    return content


def cut(ranges: Sequence[PartitionRange], row_bytes: Mapping[str, float], file_bytes: int) -> tuple[Piece, ...]:
    """Ranges into files of about this size, by the mean size of a topic's records. Ranges without offsets give none.

    Pieces of a partition are equal: a last file of three records is of no use to anybody.
    """
    pieces = []
    for part in ranges:
        count = part.end - part.start
        if count <= 0:
            continue
        file_count = min(count, max(1, round(count * row_bytes[part.topic] / file_bytes)))
        edges = [part.start + count * index // file_count for index in range(file_count + 1)]
        pieces += [Piece(part.topic, part.partition, start, end) for start, end in pairwise(edges)]
    return tuple(pieces)


def _shown(value: object) -> str:
    return ", ".join(value) or "none" if isinstance(value, tuple) else repr(value)
