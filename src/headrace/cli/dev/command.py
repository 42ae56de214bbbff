"""`headrace dev`: its options. The nodes are started and watched in `dev_cluster.py`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.terminal.options import HELP, pair

OFF = "off"
NODES_MAX = 9  # ports are a hundred apart and the last node's must still be one; nobody's machine wants more


@click.command("dev", context_settings=HELP)
@click.option(
    "--nodes", "node_count", type=click.IntRange(1, NODES_MAX), default=3, show_default=True, help="How many."
)
@click.option(
    "--port-base",
    type=click.IntRange(1, 64_000),
    default=9092,
    show_default=True,
    help="Node 1 listens here for clients and on the next port for other nodes; each further node 100 ports higher.",
)
@click.option(
    "--http-base",
    default="8080",
    metavar="PORT",
    show_default=True,
    help=f"Health checks and metrics of node 1; each further node one port higher. `{OFF}` for none.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="headrace-dev",
    show_default=True,
    help="Where the nodes keep their data, each in a directory of its own.",
)
@click.option(
    "-X", "settings", type=pair, metavar="NAME=VALUE", multiple=True, help="One setting of every node. Repeatable."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least severe log lines that are printed on stderr.",
)
def command(
    node_count: int,
    port_base: int,
    http_base: str,
    data_dir: Path,
    settings: tuple[tuple[str, str], ...],
    log_level: str,
) -> int:
    """Run a whole cluster on this machine until Ctrl-C.

    Each node is a process of its own, and its log lines carry its name. When all are ready, one line says where. A node
    that ends is not started again: the command that does so is printed, so that losing one can be tried out.
    """
    import asyncio

    from headrace.cli.dev.local_cluster import DevPlan, run

    if http_base != OFF and not http_base.isdigit():
        raise click.BadParameter(f"{http_base!r} is no port; expected a number, or `{OFF}`", param_hint="--http-base")
    http = None if http_base == OFF else int(http_base)
    return asyncio.run(run(DevPlan(node_count, port_base, http, data_dir, settings, log_level)))
