"""What is asked: the commands of `commands.toml`, and the files that some of them read."""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

COMMANDS: Final = Path(__file__).parent / "commands.toml"
_OWN_PLACE: Final = {"kafka-dump-log"}  # reads files
_PLACE_FIRST: Final = {"kafka-metadata-quorum", "kafka-features", "kafka-transactions"}


@dataclass(frozen=True, slots=True)
class Command:
    part: str
    run: str
    typed: str = ""
    """What stands on its stdin."""
    is_sorted: bool = False
    """Its lines come in no order that means anything."""
    has_member: bool = False
    """A member of the group "readers" lives meanwhile."""
    until: str = ""
    """It is asked again until its answer says this."""
    masks: tuple[str, ...] = ()
    """What is by chance, or measured."""

    @property
    def tool(self) -> str:
        return self.run.split(maxsplit=1)[0]

    def arguments(self, servers: str, places: dict[str, str]) -> list[str]:
        given = [argument.format(servers=servers, **places) for argument in shlex.split(self.run)[1:]]
        if self.tool in _OWN_PLACE or "{servers}" in self.run:
            return given
        place = ["--bootstrap-server", servers]
        return [*place, *given] if self.tool in _PLACE_FIRST else [*given, *place]


def read_commands(path: Path = COMMANDS) -> list[Command]:
    parts = tomllib.loads(path.read_text())["part"]
    return [_command(part["name"], given) for part in parts for given in part["commands"]]


def _command(part: str, given: str | dict[str, Any]) -> Command:
    if isinstance(given, str):
        return Command(part, given)
    given = dict(given)
    command = Command(
        part,
        given.pop("run"),
        typed=given.pop("typed", ""),
        is_sorted=given.pop("sorted", False),
        has_member=given.pop("member", False),
        until=given.pop("until", ""),
        masks=tuple(given.pop("masks", ())),
    )
    if given:
        raise ValueError(f"{command.run}: {', '.join(given)} says nothing")
    return command


def write_files(directory: Path, path: Path = COMMANDS) -> None:
    for name, content in tomllib.loads(path.read_text())["files"].items():
        (directory / name).write_text(content)
