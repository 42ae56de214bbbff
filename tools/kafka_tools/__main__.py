"""Gives the same commands of Kafka's tools to Apache Kafka and to Headrace, three nodes each, and compares the answers.

python -m tools.kafka_tools             exit 1 if a difference is not explained, or an explanation not needed
python -m tools.kafka_tools --write     and write docs/kafka-tools.md, if all is explained
python -m tools.kafka_tools --kept      take what Apache Kafka answered at the last --write; it need not run
python -m tools.kafka_tools --show      print every line that differs, and how long each command took
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tools.kafka_tools.both import ask_headrace, ask_kafka, keep, read_kept
from tools.kafka_tools.commands import read_commands
from tools.kafka_tools.comparison import compared, complaints, differing, read_differences
from tools.kafka_tools.jars import NotToBeHad
from tools.kafka_tools.page import PAGE, page

if TYPE_CHECKING:
    from tools.kafka_tools.comparison import Compared, Difference


def main() -> int:
    options = _options()
    known = read_differences()
    try:
        outcomes = _outcomes(options, known)
    except NotToBeHad as missing:
        print(f"missing: {missing}", file=sys.stderr)
        return 1
    if options.show:
        _show(outcomes)
    same = sum(not outcome.lines for outcome in outcomes)
    print(f"{len(outcomes)} commands: {same} answers are the same, {len(outcomes) - same} differ")
    if wrong := complaints(outcomes, known):
        print("not explained:", *wrong, sep="\n", file=sys.stderr)
        return 1
    if options.write:
        PAGE.write_text(page(outcomes, known))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.kafka_tools")
    parser.add_argument("--write", action="store_true", help="write docs/kafka-tools.md, if all is explained")
    parser.add_argument("--kept", action="store_true", help="do not ask Apache Kafka again")
    parser.add_argument("--show", action="store_true", help="print every line that differs")
    return parser.parse_args()


def _outcomes(options: argparse.Namespace, known: list[Difference]) -> list[Compared]:
    commands, tell = read_commands(), _Timed(quiet=not options.show)
    with tempfile.TemporaryDirectory(prefix="headrace-kafka-tools-") as home:
        kafka = read_kept(commands) if options.kept else ask_kafka(commands, Path(home), tell)
        if options.write:
            keep(commands, kafka)
        headrace = ask_headrace(commands, Path(home), tell)
    return [
        compared(command, differing(there, here), known)
        for command, there, here in zip(commands, kafka, headrace, strict=True)
    ]


def _show(outcomes: list[Compared]) -> None:
    for outcome in outcomes:
        if outcome.lines:
            print(outcome.command.run, *outcome.lines, sep="\n    ")


class _Timed:
    """What is being done, and when."""

    def __init__(self, *, quiet: bool) -> None:
        self._is_quiet = quiet
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        if not self._is_quiet:
            print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
