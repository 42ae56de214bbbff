"""What is planted: for each room a file in `catalogue/`, with a few words, a text and its wrong form for each bug."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = (
    "raft",
    "replication",
    "broker",
    "storage",
    "coordinators",
    "metadata",
    "wire",
    "servers",
    "client",
    "spark source",
    "spark sink",
    "spark pipeline",
    "spark session",
)
LIMIT_S: Final = 240.0  # for the tests of one bug, on a machine that does other work besides


class StaleBug(Exception):
    """The source has moved on, and a bug of the catalogue cannot be planted in it any more."""


@dataclass(frozen=True)
class Bug:
    id: str
    room: str
    says: str
    """What is wrong, in one sentence."""
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """As pytest takes them: files, or single tests of files that take long."""
    limit_s: float = LIMIT_S

    def planted_in(self, source: str) -> str:
        """The source with the bug. Its text has to be there exactly once: any other place would be another bug."""
        count = source.count(self.old)
        if count != 1:
            raise StaleBug(f"{self.id}: its text is {count} times in {self.file}, not once")
        return source.replace(self.old, self.new)


def read_catalogue() -> list[Bug]:
    found = [bug for room in ROOMS for bug in _read_room(room)]
    ids = [bug.id for bug in found]
    if twice := sorted({bug_id for bug_id in ids if ids.count(bug_id) > 1}):
        raise StaleBug(f"more than one bug is called {', '.join(twice)}")
    return found


def _read_room(room: str) -> list[Bug]:
    path = Path(__file__).parent / "catalogue" / f"{room.replace(' ', '_')}.toml"
    entries = tomllib.loads(path.read_text())["bug"]
    return [Bug(**{**entry, "room": room, "tests": tuple(entry["tests"])}) for entry in entries]


def complaints(bugs: list[Bug], root: Path = ROOT) -> list[str]:
    """Why the catalogue does not fit the source; empty if it does."""
    found = []
    for bug in bugs:
        try:
            compile(bug.planted_in((root / bug.file).read_text()), bug.file, "exec")
        except (StaleBug, OSError, SyntaxError) as trouble:
            found.append(f"{bug.id}: {trouble}" if not isinstance(trouble, StaleBug) else str(trouble))
        found += [f"{bug.id}: there is no {test}" for test in bug.tests if not (root / test.split("::")[0]).exists()]
    return found
