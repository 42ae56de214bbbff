"""Every command has its section in docs/command-line.md, and every option is named there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from headrace.cli.app import headrace

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
STARTS_NODES = {"headrace serve", "headrace dev", "headrace demo"}
WITHOUT_NODES = {
    *("headrace rescue inspect", "headrace rescue dump", "headrace rescue new-cluster"),
    *("headrace security init", "headrace security renew", "headrace security certificate"),
}
EVERYWHERE = {"--bootstrap-server", "--command-config", "--command-property", "--help", "-h", "--version"}


def commands(group: click.Group, path: str = "headrace") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def sections() -> dict[str, str]:
    """Heading to text, up to the next heading."""
    parts = re.split(r"^#+ (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


COMMANDS = dict(commands(headrace))
SECTIONS = sections()


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_has_its_section_with_every_option(path: str) -> None:
    assert path in SECTIONS
    options = {name for option in COMMANDS[path].params for name in option.opts} - EVERYWHERE
    missing = [name for name in sorted(options) if f"`{name}`" not in SECTIONS[path]]
    assert not missing


@pytest.mark.parametrize("path", COMMANDS)
def test_no_option_is_documented_that_does_not_exist(path: str) -> None:
    options = {name for option in COMMANDS[path].params for name in option.opts}
    named = set(re.findall(r"^\| `(-[-\w]+)` \|", SECTIONS[path], flags=re.MULTILINE))
    assert named <= options


def test_no_command_is_documented_that_does_not_exist() -> None:
    assert {heading for heading in SECTIONS if heading.startswith("headrace ")} == set(COMMANDS)


@pytest.mark.parametrize("option", sorted(EVERYWHERE))
def test_what_holds_for_every_command_is_said_once(option: str) -> None:
    assert f"`{option}" in SECTIONS["The command line"]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_explains_itself(path: str) -> None:
    command = COMMANDS[path]
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, command in COMMANDS.items()
        if not isinstance(command, click.Group) and path not in STARTS_NODES | WITHOUT_NODES
    ],
)
def test_every_command_takes_the_way_to_the_cluster(path: str) -> None:
    assert {"--bootstrap-server", "--command-config", "--command-property"} <= {
        name for option in COMMANDS[path].params for name in option.opts
    }
