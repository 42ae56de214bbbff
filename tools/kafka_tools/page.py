"""docs/kafka-tools.md: what was asked, what is the same, and every difference with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.kafka_tools.comparison import HEADRACE, KAFKA
from tools.kafka_tools.jars import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tools.kafka_tools.comparison import Compared, Difference

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "kafka-tools.md"
SHOWN_MAX: Final = 2  # lines of each side, for one difference
LINE_MAX: Final = 160

HEAD: Final = """# Kafka's command-line tools

<!-- Written by `python -m tools.kafka_tools --write` from what both answered; do not edit. -->

Kafka's own tools work with Headrace. The same {count} commands were given to three nodes of Apache Kafka {version}
and to three nodes of Headrace, and the answers compared line by line: **{same} are the same to the letter**, {other}
differ as the table below says. What is by chance was taken out first: ids, times, ports, folders, the width of
columns, stack traces of the tools.

```
python -m tools.kafka_tools           # asks both; fails if a difference is not explained, or an explanation not needed
python -m tools.kafka_tools --write   # and writes this page
```

It takes two minutes, a Java, and Kafka's jars, which it fetches. Commands and explanations are in `tools/kafka_tools`.
"""


def page(outcomes: Sequence[Compared], known: Sequence[Difference]) -> str:
    same = sum(not outcome.lines for outcome in outcomes)
    head = HEAD.format(count=len(outcomes), same=same, other=len(outcomes) - same, version=KAFKA_VERSION)
    rows = [_row(number, difference, outcomes) for number, difference in enumerate(known)]
    table = ["| | Differs | Why | Commands | Apache Kafka says | Headrace says |", "|---|---|---|---|---|---|", *rows]
    parts = list(dict.fromkeys(outcome.command.part for outcome in outcomes))
    lists = [_part(part, [outcome for outcome in outcomes if outcome.command.part == part]) for part in parts]
    return "\n".join([head, "## Differences\n", *table, "", *lists])


def _row(number: int, difference: Difference, outcomes: Sequence[Compared]) -> str:
    lines = [line for outcome in outcomes for line, by in zip(outcome.lines, outcome.by, strict=True) if by == number]
    commands = sum(number in outcome.by for outcome in outcomes)
    says = [_shown(lines, side) for side in (KAFKA, HEADRACE)]
    return f"| {number + 1} | {difference.what} | {difference.why} | {commands} | {says[0]} | {says[1]} |"


def _shown(lines: Iterable[str], side: str) -> str:
    found = list(dict.fromkeys(line.removeprefix(side) for line in lines if line.startswith(side)))
    shown = "<br>".join(f"`{_short(line)}`" for line in found[:SHOWN_MAX])
    return f"{shown}<br>and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else shown


def _short(line: str) -> str:
    cut = line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}…"
    return cut.replace("|", "\\|").replace("`", "'")


def _part(name: str, outcomes: Sequence[Compared]) -> str:
    rows = [f"| `{_short(outcome.command.run)}` | {_verdict(outcome)} |" for outcome in outcomes]
    return "\n".join([f"## {name}\n", "| Command | Answers |", "|---|---|", *rows, ""])


def _verdict(outcome: Compared) -> str:
    if not outcome.lines:
        return "the same"
    numbers = sorted({number + 1 for number in outcome.by if number >= 0})
    return f"differ: {', '.join(map(str, numbers))}"
