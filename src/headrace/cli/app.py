"""The `headrace` command: which commands there are, and how each of them ends.

A command's module is imported when the command is called, and imports the rest of the house when it runs: a command
that only asks a question must answer before anybody notices that it is written in Python.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from headrace import __version__
from headrace.cli.terminal.complaints import INTERRUPTED, complain
from headrace.cli.terminal.options import HELP, cluster_options
from headrace.cli.terminal.output import ReaderLeft

COMMANDS = {
    "serve": "headrace.cli.serve.command",
    "dev": "headrace.cli.dev.command",
    "demo": "headrace.cli.demo.command",
    "topics": "headrace.cli.topics.command",
    "configs": "headrace.cli.configs.command",
    "produce": "headrace.cli.messages.produce",
    "consume": "headrace.cli.messages.consume",
    "get": "headrace.cli.messages.get",
    "groups": "headrace.cli.groups.command",
    "lag": "headrace.cli.groups.lag",
    "transactions": "headrace.cli.transactions.command",
    "security": "headrace.cli.security.command",
    "users": "headrace.cli.users.command",
    "acls": "headrace.cli.acls.command",
    "quotas": "headrace.cli.quotas.command",
    "audit": "headrace.cli.audit.command",
    "pipeline": "headrace.cli.pipeline.command",
    "export": "headrace.cli.offline.export_command",
    "import": "headrace.cli.offline.import_command",
    "cluster": "headrace.cli.cluster.command",
    "rescue": "headrace.cli.rescue.command",
}
"""Each command's module; its `command` is one command, or a noun with verbs. The order is that of the help."""


class _Commands(click.Group):
    """Loads a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name]).command
        return command


@click.group(cls=_Commands, context_settings=HELP, no_args_is_help=True)
@click.version_option(__version__, prog_name="headrace", message="%(prog)s %(version)s")
@cluster_options
def headrace() -> None:
    """A distributed streaming log that speaks Kafka's wire protocol.

    Start a node with `headrace serve`. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found or unhealthy.
    """


def run(arguments: list[str]) -> int:
    """Run one command; return its exit code. Whatever goes wrong is said in words, never as a traceback."""
    try:
        outcome = headrace.main(arguments, prog_name=_program_name(), standalone_mode=False)
    except click.ClickException as wrong_usage:
        wrong_usage.show()
        return wrong_usage.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ReaderLeft:
        return _end_without_reader()
    except Exception as error:  # noqa: BLE001 - the last stop: nobody above would do better
        return complain(error)
    return outcome if isinstance(outcome, int) else 0


def _program_name() -> str:
    """People who were told to call it `streaming-system` are answered under that name."""
    name = os.path.basename(sys.argv[0])
    return name if name in {"headrace", "streaming-system"} else "headrace"


def _end_without_reader() -> int:
    """Whoever read our output has enough (`| head`). That is no failure; Python must not complain at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
