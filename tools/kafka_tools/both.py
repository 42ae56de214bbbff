"""The two clusters that are asked; and what Apache Kafka answered, kept so that it need not be asked each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.clients.clusters import ClusterProcesses
from tests.ports import free_row
from tools.kafka_tools.apache import ApacheKafka
from tools.kafka_tools.asking import CONFIGS, TOPIC, Asked, ask_all
from tools.kafka_tools.machine import ToolMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.kafka_tools.commands import Command

KEPT: Final = Path(__file__).parent / "kafka_answers.json"
ALL: Final = (1, 2, 3)


def ask_kafka(commands: Sequence[Command], home: Path, tell: Callable[[str], None]) -> list[list[str]]:
    place = home / "kafka"
    with ApacheKafka(place, [free_row(2) for _ in ALL], CONFIGS) as kafka, ToolMachine(place) as machine:
        tell("Apache Kafka is there")
        asked = Asked(kafka.bootstrap_servers, kafka.meetings, [kafka.data_dir(n) for n in ALL], _kafka_segment)
        return ask_all(machine, asked, commands, place / "files", tell)


def ask_headrace(commands: Sequence[Command], home: Path, tell: Callable[[str], None]) -> list[list[str]]:
    place = home / "headrace"
    place.mkdir()
    with ClusterProcesses(place, len(ALL), CONFIGS) as headrace, ToolMachine(place) as machine:
        tell("Headrace is there")
        asked = Asked(
            headrace.bootstrap_servers, _meetings(headrace), [headrace.data_dir(n) for n in ALL], _headrace_segment
        )
        return ask_all(machine, asked, commands, place / "files", tell)


def keep(commands: Sequence[Command], answers: Sequence[list[str]]) -> None:
    """In the order of the commands, which come more than once."""
    kept = [{"run": command.run, "lines": lines} for command, lines in zip(commands, answers, strict=True)]
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def read_kept(commands: Sequence[Command]) -> list[list[str]]:
    kept = json.loads(KEPT.read_text())
    if [answer["run"] for answer in kept] != [command.run for command in commands]:
        raise ValueError("the commands have changed since Apache Kafka answered: ask it again, without --kept")
    return [answer["lines"] for answer in kept]


def _meetings(headrace: ClusterProcesses) -> list[str]:
    (_, voters) = headrace.way_in(ALL[0])
    return [voter.partition("@")[2] for voter in voters.split(",")]


def _kafka_segment(data_dir: Path) -> Path:
    return min((data_dir / f"{TOPIC}-0").glob("*.log"))


def _headrace_segment(data_dir: Path) -> Path:
    (place,) = (
        path.parent
        for path in data_dir.glob("topics/*/partition.name")
        if path.read_text() == f"topic: {TOPIC}\npartition: 0\n"
    )
    return min(place.glob("*.log"))
