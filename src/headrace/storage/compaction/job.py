"""One pass over one log: what the cleaner is told, and what it tells, in plain numbers that fit through a pipe."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from headrace.storage.compaction.sieve import AbortedSpan, LastEntry
from headrace.storage.files.damage import DamagedLog, UnreadableRecords
from headrace.storage.segments.replacement import CleanedRun, NewSegment


@dataclass(frozen=True, slots=True)
class Source:
    """A sealed and flushed segment."""

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CleaningJob:
    directory: str
    sources: tuple[Source, ...]
    """Every segment from the log's first to the last that may be cleaned."""
    first_dirty_offset: int
    end_offset: int
    """Where the last source ends (exclusive). All before it is committed, and every transaction in it is decided."""
    aborted: tuple[AbortedSpan, ...]
    last_entries: dict[int, LastEntry]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    key_map_bytes: int

    def size_between(self, base_offset: int, end_offset: int) -> int:
        """The bytes of the sources that begin from `base_offset` on and below `end_offset`."""
        return sum(source.size for source in self.sources if base_offset <= source.base_offset < end_offset)

    def encode(self) -> bytes:
        # Not `asdict`: it copies every one of what may be 100,000 producers, and holds up the loop for seconds.
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        named["sources"] = [(source.base_offset, source.size) for source in self.sources]
        return json.dumps(named).encode()

    @classmethod
    def decode(cls, line: bytes) -> CleaningJob:
        named = json.loads(line)
        named["sources"] = tuple(Source(*source) for source in named["sources"])
        named["aborted"] = tuple(AbortedSpan(*span) for span in named["aborted"])
        named["last_entries"] = {int(known): LastEntry(*entry) for known, entry in named["last_entries"].items()}
        return cls(**named)


@dataclass(frozen=True, slots=True)
class Worked:
    """So many bytes were read or written: time to rest, if somebody counts them."""

    size: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Every segment is cleaned that the key map spoke of."""

    clean_end_offset: int
    """Exclusive. Less than the job's end if the keys were too many for the map: then the next pass goes on there."""
    latest_horizon_ms: int
    """When the last of the tombstones and markers that are kept may go; -1 if there are none."""
    keys: int
    dropped_records: int


@dataclass(frozen=True, slots=True)
class Damaged:
    path: str
    position: int
    offset: int
    problem: str
    is_as_sent: bool = False
    """The bytes are those that were written; it is the records in them that make no sense."""

    @classmethod
    def from_error(cls, damage: DamagedLog) -> Damaged:
        is_as_sent = isinstance(damage, UnreadableRecords)
        return cls(damage.path, damage.position, damage.offset, damage.problem, is_as_sent)

    def as_error(self) -> DamagedLog:
        kind = UnreadableRecords if self.is_as_sent else DamagedLog
        return kind(self.path, self.position, self.offset, self.problem)


@dataclass(frozen=True, slots=True)
class Failed:
    """The disk refused something."""

    code: int
    problem: str


Event = Worked | CleanedRun | Finished | Damaged | Failed

_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Worked, CleanedRun, Finished, Damaged, Failed)}


def encode_event(event: Event) -> bytes:
    return json.dumps({"event": type(event).__name__, **asdict(event)}).encode()


def decode_event(line: bytes) -> Event:
    """ValueError if this is none."""
    named = json.loads(line)
    try:
        if "segments" in named:
            named["segments"] = tuple(NewSegment(*segment) for segment in named["segments"])
        event: Event = _EVENTS[named.pop("event")](**named)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{line[:80]!r} is no event of the cleaner") from error
    return event


def is_last_event(line: bytes) -> bool:
    """True if the pass is over with it, well or not. ValueError if this is no event."""
    return isinstance(decode_event(line), Finished | Damaged | Failed)
