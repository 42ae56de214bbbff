"""Two answers to the same command: what of them is by chance, what differs, and whether somebody has said why."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tools.kafka_tools.commands import Command
    from tools.kafka_tools.machine import Answer

DIFFERENCES: Final = Path(__file__).parent / "differences.toml"
KAFKA, HEADRACE = "- ", "+ "
"""How a line begins that only one of them prints."""

_ID = r"[A-Za-z0-9_-]{22}"
_CHANCE: Final = (
    (re.compile(r"[\w.-]*-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "MEMBER"),
    (re.compile(rf"\breader-{_ID}(?!\S)"), "MEMBER"),
    (re.compile(rf'((?:TopicId|Cluster ID|ClusterId):\s+|"directoryId": "){_ID}'), r"\1ID"),
    (re.compile(rf"(?m)^(\d\s+){_ID}(?=\s)"), r"\1ID"),
    (re.compile(rf"DATA/topics/{_ID}-0/"), "DATA/orders-0/"),
    (re.compile(r"\b1[5-9]\d{11}\b"), "TIME"),
    (re.compile(r"NODE:? +\(\d\)"), "NODE (N)"),
    (re.compile(r"console-consumer-\d+"), "console-consumer-N"),
    (re.compile(r"(producerId: )\d+"), r"\1N"),
    (re.compile(r"Call\(callName=.*?attempt\(s\)|Timed out waiting for a node assignment\. Call: [^.]+"), "TIMED OUT"),
)
_TRACE: Final = re.compile(r"\s+at |Caused by: |\s+\.\.\. \d+ more")


def normal_lines(answer: Answer, command: Command, names: Mapping[str, str]) -> list[str]:
    """Its lines without what is by chance. `names` stand for places: addresses and folders."""
    text = answer.text
    for place in sorted(names, key=len, reverse=True):
        text = text.replace(place, names[place])
    for pattern, name in _CHANCE:
        text = pattern.sub(name, text)
    for mask in command.masks:
        text = re.sub(mask, "…", text)
    lines = [" ".join(line.split()) for line in text.splitlines() if not _TRACE.match(line)]
    found = [line for line in lines if line]
    if command.is_sorted:
        found.sort()
    return [*found, f"(exit code {answer.exit_code})"] if answer.exit_code else found


def differing(kafka: Sequence[str], headrace: Sequence[str]) -> list[str]:
    """The lines that only one of them prints, in order."""
    return [line for line in difflib.ndiff(kafka, headrace) if line.startswith((KAFKA, HEADRACE))]


@dataclass(frozen=True)
class Difference:
    """A difference that is meant, and why it is."""

    what: str
    why: str
    lines: tuple[re.Pattern[str], ...]
    """Whole lines, with the sign of who prints them."""
    commands: re.Pattern[str]
    is_of_words: bool = False
    """Both name the same errors, and say it otherwise."""

    def explains(self, command: Command, line: str) -> bool:
        return bool(self.commands.search(command.run)) and any(pattern.fullmatch(line) for pattern in self.lines)


def read_differences(path: Path = DIFFERENCES) -> list[Difference]:
    return [
        Difference(
            given["what"],
            given["why"],
            tuple(map(re.compile, given["lines"])),
            re.compile(given.get("commands", "")),
            is_of_words=given.get("same_errors", False),
        )
        for given in tomllib.loads(path.read_text()).get("difference", [])
    ]


@dataclass(frozen=True)
class Compared:
    command: Command
    lines: tuple[str, ...]
    """Those that differ."""
    by: tuple[int, ...]
    """The differences that explain each of them, by number; -1 if none does."""

    @property
    def unexplained(self) -> list[str]:
        return [line for line, number in zip(self.lines, self.by, strict=True) if number < 0]


def compared(command: Command, lines: Iterable[str], known: Sequence[Difference]) -> Compared:
    found = tuple(lines)
    return Compared(command, found, tuple(_explained_by(command, line, known) for line in found))


def _explained_by(command: Command, line: str, known: Sequence[Difference]) -> int:
    fitting = (number for number, difference in enumerate(known) if difference.explains(command, line))
    return next(fitting, -1)


def complaints(outcomes: Sequence[Compared], known: Sequence[Difference]) -> list[str]:
    """What makes a comparison fail: a difference that nobody explains, and an explanation of nothing."""
    found = [f"{outcome.command.run}\n    {line}" for outcome in outcomes for line in outcome.unexplained]
    found += [
        f"{outcome.command.run}\n    names other errors" for outcome in outcomes if _has_other_errors(outcome, known)
    ]
    used = {number for outcome in outcomes for number in outcome.by}
    idle = [difference.what for number, difference in enumerate(known) if number not in used]
    return [*found, *(f"differences.toml explains what is not there any more: {what}" for what in idle)]


def _has_other_errors(outcome: Compared, known: Sequence[Difference]) -> bool:
    """Where a difference is said to be one of words, the names of errors on both sides, and their number, are equal."""
    lines = [
        line
        for line, number in zip(outcome.lines, outcome.by, strict=True)
        if number >= 0 and known[number].is_of_words
    ]
    return _errors(lines, KAFKA) != _errors(lines, HEADRACE)


def _errors(lines: Sequence[str], side: str) -> list[list[str]]:
    return [re.findall(r"\w+Exception\b", line) for line in lines if line.startswith(side)]
