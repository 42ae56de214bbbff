"""Options that many commands share, and the two shapes that a command has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"
BOOTSTRAP_SERVER_VARIABLE = "HEADRACE_BOOTSTRAP_SERVER"
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMMAND_CONFIG_VARIABLE = "HEADRACE_COMMAND_CONFIG"
_SERVER, _CONFIG, _PROPERTIES = "headrace.bootstrap_server", "headrace.command_config", "headrace.command_properties"


def pair(text: str) -> tuple[str, str]:
    """The type of options that take `name=value`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.BadParameter(f"{text!r} is not of the form name=value")
    return name, value


def _remember(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    """These options may stand anywhere; the one nearest to the verb counts."""

    def remember(ctx: click.Context, _: click.Parameter, given: str | None) -> None:
        if given is not None:
            ctx.meta[key] = given

    return remember


def _add_properties(ctx: click.Context, _: click.Parameter, given: tuple[tuple[str, str], ...]) -> None:
    ctx.meta[_PROPERTIES] = {**ctx.meta.get(_PROPERTIES, {}), **dict(given)}


_CLUSTER_OPTIONS = (
    click.option(
        "--bootstrap-server",
        metavar="HOST:PORT[,…]",
        expose_value=False,
        callback=_remember(_SERVER),
        help=f"Where a node listens. Also ${BOOTSTRAP_SERVER_VARIABLE}. Default: {DEFAULT_BOOTSTRAP_SERVER}.",
    ),
    click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        expose_value=False,
        callback=_remember(_CONFIG),
        help=f"A Kafka client's settings: how to log in, whom to trust. Also ${COMMAND_CONFIG_VARIABLE}.",
    ),
    click.option(
        "--command-property",
        metavar="NAME=VALUE",
        type=pair,
        multiple=True,
        expose_value=False,
        callback=_add_properties,
        help="One of these settings; wins over the file. Not for secrets.",
    ),
)


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How to reach a cluster; for whoever then calls `chosen_client`."""
    for option in reversed(_CLUSTER_OPTIONS):
        function = option(function)
    return function


output_format = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="For people, or for programs.",
)

group_option = click.option("--group", "group_id", required=True, help="The group.")


def given_bootstrap_server() -> str | None:
    """What the command line says, if it does."""
    given: str | None = click.get_current_context().meta.get(_SERVER)
    return given


def named_command_config() -> str | None:
    """The file that the command line names, if it does."""
    given: str | None = click.get_current_context().meta.get(_CONFIG)
    return given


def given_command_config() -> str | None:
    """The file that the command line names, else the environment."""
    return named_command_config() or os.environ.get(COMMAND_CONFIG_VARIABLE) or None


def given_command_properties() -> dict[str, str]:
    given: dict[str, str] = click.get_current_context().meta.get(_PROPERTIES, {})
    return given


def noun(explanation: str) -> click.Group:
    """A command that has verbs."""
    return click.Group(help=explanation, params=_own_params(), context_settings=HELP, no_args_is_help=True)


def _own_params() -> list[click.Parameter]:
    """The shared options as parameters, for a group that is made without a function to decorate."""

    @click.command()
    @cluster_options
    def carrier() -> None: ...

    return carrier.params
