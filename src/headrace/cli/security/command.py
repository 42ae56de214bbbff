"""`headrace security`: what a secured cluster begins with, and new certificates before the old ones end."""

from __future__ import annotations

import re
from pathlib import Path

import click

from headrace.cli.terminal.options import HELP, noun

command = noun("Make certificates, settings and a first administrator for a secured cluster. No node is needed.")

NODES_MAX = 1000
DAYS_MAX = 3650

directory_option = click.option(
    "--dir",
    "directory",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files are.",
)
hosts_option = click.option(
    "--host",
    "hosts",
    multiple=True,
    help="A name or an address under which a node is reached, besides localhost and this machine's. Repeatable.",
)
days_option = click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    default=730,
    show_default=True,
    help="How long the certificates are valid.",
)


@command.command(context_settings=HELP)
@directory_option
@hosts_option
@click.option("--nodes", type=click.IntRange(0, NODES_MAX), default=0, help="Also a directory for each of so many.")
@click.option("--admin", default="admin", show_default=True, help="The user who may do everything.")
@days_option
def init(directory: Path, hosts: tuple[str, ...], nodes: int, admin: str, days: int) -> None:
    """Make everything that a secured cluster begins with: an authority, a certificate for nodes, their settings, and a
    user who may do everything, with a random password.

    \b
    $ headrace security init --dir secure --host kafka-1.example.com --host kafka-2.example.com
    $ headrace serve --config secure/node.toml
    $ headrace topics list --command-config secure/admin.properties
    """
    from headrace.access.authentication.credentials import user_name_problem
    from headrace.cli.security.layout import AUTHORITY_KEY, CLIENT, NODE_FILES, SETTINGS
    from headrace.cli.security.making import default_hosts, make
    from headrace.cli.terminal.output import talk

    problem = user_name_problem(admin)
    if problem is not None or not admin.isascii() or set(admin) & set('/;"\\'):
        raise click.BadParameter(problem or "expected letters, digits and the like", param_hint="--admin")
    all_hosts = default_hosts(hosts)
    make(directory, _usable(all_hosts), days, admin, nodes)
    talk(f"made an authority, a certificate for {', '.join(all_hosts)}, and the user {admin}, in {directory}")
    talk(f"start every node with:  headrace serve --config {directory / SETTINGS}")
    talk(f"ask the cluster with:   headrace topics list --command-config {directory / CLIENT}")
    if nodes:
        talk(f"node-1 to node-{nodes} in it are for a machine each, where only their owner can read them")
    else:
        talk(f"other machines need {', '.join(NODE_FILES)}, in one directory that its owner alone can read")
    talk(f"{AUTHORITY_KEY} and {CLIENT} are for no node: keep them to yourself")


@command.command(context_settings=HELP)
@directory_option
@hosts_option
@days_option
def renew(directory: Path, hosts: tuple[str, ...], days: int) -> None:
    """Make new certificates for nodes, by the same authority and for the same hosts, in place of the old ones.

    Nodes read them by themselves, where these are the files that they use; elsewhere, copy them there.
    """
    from headrace.cli.security.making import renew as renew_certificates
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
    from headrace.cli.terminal.output import talk

    renewed = renew_certificates(directory, _usable(list(hosts)), days)
    if not renewed:
        raise Complaint(f"{directory} has no certificate of a node", exit_code=NOT_FOUND)
    for path in renewed:
        talk(f"renewed {path}, valid for {days} days")


@command.command(context_settings=HELP)
@directory_option
@click.option("--name", required=True, help="Whom it is for.")
@days_option
def certificate(directory: Path, name: str, days: int) -> None:
    """Make a certificate that a client shows in place of a password, and settings of that client.

    It is issued by an authority of its own, apart from that of nodes. Nodes ask for such certificates at listeners with
    the protocol SSL: the command says which settings that takes.
    """
    from headrace.access.authentication.credentials import user_name_problem
    from headrace.cli.security.layout import CLIENTS_AUTHORITY, listener_text
    from headrace.cli.security.making import make_certificate
    from headrace.cli.terminal.output import talk

    if user_name_problem(name) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise click.BadParameter("expected letters, digits, '.', '_' and '-', at most 64", param_hint="--name")
    for path in make_certificate(directory, name, days):
        talk(f"made {path}")
    talk(f"nodes know {name} by it with these settings, and {CLIENTS_AUTHORITY} beside their node.toml:\n")
    talk(listener_text())


def _usable(hosts: list[str]) -> list[str]:
    """Raises BadParameter for what no certificate can name."""
    for host in hosts:
        if not host or not host.isascii() or any(sign.isspace() or sign in "/,@" for sign in host):
            raise click.BadParameter(f"{host!r} is no name of a host, and no address", param_hint="--host")
    return hosts
