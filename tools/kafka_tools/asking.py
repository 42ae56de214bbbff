"""All commands, asked of one cluster."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer

from tools.kafka_tools.commands import write_files
from tools.kafka_tools.comparison import normal_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tools.kafka_tools.commands import Command
    from tools.kafka_tools.machine import Answer, ToolMachine

UNTIL_S_MAX: Final = 60.0
GROUP, TOPIC, PARTITIONS = "readers", "orders", 4
CONFIGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
}
"""What both clusters are told, so that they do the same in the same time."""


@dataclass(frozen=True)
class Asked:
    """A cluster as this sees it."""

    servers: str
    meetings: Sequence[str]
    """Where its nodes meet."""
    data_dirs: Sequence[Path]
    """Of all nodes, in order."""
    segment_of: Callable[[Path], Path]
    """Where in it the first segment of the topic's first partition lies."""


def ask_all(
    machine: ToolMachine, asked: Asked, commands: Sequence[Command], files: Path, tell: Callable[[str], None]
) -> list[list[str]]:
    """Each answer in lines, without what is by chance."""
    files.mkdir()
    write_files(files)
    names = dict.fromkeys(asked.servers.split(","), "NODE") | {str(files): "DIR"}
    names |= dict.fromkeys((address.replace(":", " ") for address in asked.servers.split(",")), "NODE")
    names |= dict.fromkeys(map(str, asked.data_dirs), "DATA") | dict.fromkeys(asked.meetings, "MEETING")
    answers = []
    with _Members(asked.servers) as members:
        for command in commands:
            members.should_be(command.has_member)
            tell(command.run)
            answer = _answer(machine, asked, command, files)
            answers.append(normal_lines(answer, command, names))
    return answers


def _answer(machine: ToolMachine, asked: Asked, command: Command, files: Path) -> Answer:
    places = {"dir": str(files)}
    if "{log}" in command.run:
        places["log"] = str(asked.segment_of(asked.data_dirs[0]))
    arguments = command.arguments(asked.servers, places)
    give_up = time.monotonic() + UNTIL_S_MAX
    while True:
        answer = machine.run(command.tool, arguments, command.typed)
        if not command.until or command.until in answer.text or time.monotonic() > give_up:
            return answer
        time.sleep(0.2)


class _Members:
    """A consumer in the group, while commands ask for one."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._end: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> _Members:
        return self

    def __exit__(self, *_: object) -> None:
        self.should_be(False)

    def should_be(self, wanted: bool) -> None:
        if wanted and self._thread is None:
            self._start()
        elif not wanted and self._thread is not None:
            assert self._end is not None
            self._end.set()
            self._thread.join()
            self._thread = self._end = None

    def _start(self) -> None:
        self._end, has_all = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._read, args=(self._end, has_all), daemon=True)
        self._thread.start()
        if not has_all.wait(UNTIL_S_MAX):
            raise RuntimeError(f"a consumer of {self._servers} was given no partitions")

    def _read(self, end: threading.Event, has_all: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": GROUP,
                "client.id": "reader",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
            }
        )
        consumer.subscribe([TOPIC], on_assign=lambda _, given: has_all.set() if len(given) == PARTITIONS else None)
        while not end.is_set():
            consumer.poll(0.2)
        consumer.close()
