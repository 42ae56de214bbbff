"""Options that many commands share, and the two shapes that a command has."""

from __future__ import annotations

import os

import click

DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"
BOOTSTRAP_SERVER_VARIABLE = "HEADRACE_BOOTSTRAP_SERVER"
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_KEY = "headrace.bootstrap_server"


def _remember(ctx: click.Context, _: click.Parameter, address: str | None) -> None:
    """The option may stand anywhere; the one nearest to the verb counts."""
    if address is not None:
        ctx.meta[_KEY] = address


bootstrap_server = click.option(
    "--bootstrap-server",
    metavar="HOST:PORT[,…]",
    expose_value=False,
    callback=_remember,
    help=f"Where a node listens. Also ${BOOTSTRAP_SERVER_VARIABLE}. Default: {DEFAULT_BOOTSTRAP_SERVER}.",
)

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
    given: str | None = click.get_current_context().meta.get(_KEY)
    return given


def chosen_bootstrap_server() -> str:
    """What the command line says, else the environment, else the default."""
    return given_bootstrap_server() or os.environ.get(BOOTSTRAP_SERVER_VARIABLE) or DEFAULT_BOOTSTRAP_SERVER


def noun(explanation: str) -> click.Group:
    """A command that has verbs."""
    return click.Group(help=explanation, params=_own_params(), context_settings=HELP, no_args_is_help=True)


def _own_params() -> list[click.Parameter]:
    """The shared option as a parameter, for a group that is made without a function to decorate."""

    @click.command()
    @bootstrap_server
    def carrier() -> None: ...

    return carrier.params


def pair(text: str) -> tuple[str, str]:
    """The type of options that take `name=value`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.BadParameter(f"{text!r} is not of the form name=value")
    return name, value
