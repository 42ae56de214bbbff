"""`headrace users`: users who log in with a password, by SCRAM or PLAIN."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from headrace.cli.terminal.options import HELP, cluster_options, noun, output_format

if TYPE_CHECKING:
    from headrace.access.authentication.credentials import ScramMechanism
    from headrace.client.admin.users import KnownUser
    from headrace.client.connections.cluster import Cluster

command = noun("List, create and delete users who log in with a password.")

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS: Final = 8192  # some milliseconds for each login, and for each guess of whoever steals verifiers

user_name = click.option("--name", required=True, help="The user.")


@command.command(context_settings=HELP)
@user_name
@click.option(
    "--password-file",
    metavar="FILE",
    help="One line, the password; - for stdin. Without it, somebody at a terminal is asked for it.",
)
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="For which the password is. Repeatable. Default: both.",
)
@click.option(
    "--iterations",
    type=click.IntRange(4096, 16_384),
    default=ITERATIONS,
    show_default=True,
    help="How slow it is to try a password: more protect it better, and make logins slower.",
)
@click.option("--replace", is_flag=True, help="Give a user who has a password already this one instead.")
@cluster_options
def create(name: str, password_file: str | None, mechanisms: tuple[str, ...], iterations: int, replace: bool) -> None:
    """Create a user with a password.

    The cluster gets and keeps a salted form of it. One who has a password already is left alone without --replace: a
    name that was typed wrong must not lock out somebody else.
    """
    from headrace.cli.terminal.complaints import Complaint
    from headrace.cli.terminal.output import talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.cli.users.passwords import read_password
    from headrace.client.admin.users import UserAdmin

    password = read_password(password_file)
    wanted = _chosen(mechanisms)

    async def work(cluster: Cluster) -> bool:
        admin = UserAdmin(cluster)
        has = [it for user in await admin.list_users([name]) for it in wanted if it in user.mechanisms]
        if has and not replace:
            raise Complaint(
                f"user {name!r} has a password for {_names(has)} already",
                "--replace gives this user the new one instead",
            )
        await admin.set_password(name, password, wanted, iterations)
        return bool(has)

    is_replaced = with_cluster(work)
    talk(f"{'replaced the password of' if is_replaced else 'created'} user {name} for {_names(wanted)}")


@command.command("list", context_settings=HELP)
@click.option("--name", help="Only this one.")
@output_format
@cluster_options
def list_users(name: str | None, form: str) -> None:
    """List the users who have a password, and for what."""
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.users import UserAdmin

    async def work(cluster: Cluster) -> list[KnownUser]:
        return await UserAdmin(cluster).list_users(None if name is None else [name])

    users = with_cluster(work)
    if name is not None and not users:
        raise Complaint(_unknown(name), exit_code=NOT_FOUND)
    rows = [(user.name, it.sasl_name, iterations) for user in users for it, iterations in user.mechanisms.items()]
    if form == "json":
        found: dict[str, list[dict[str, object]]] = {}
        for user, mechanism, iterations in rows:
            found.setdefault(user, []).append({"mechanism": mechanism, "iterations": iterations})
        answer_json([{"name": user, "mechanisms": mechanisms} for user, mechanisms in found.items()])
    elif rows:
        answer(table(("NAME", "MECHANISM", "ITERATIONS"), rows))


@command.command(context_settings=HELP)
@user_name
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="Only the password for this one. Repeatable.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options
def delete(name: str, mechanisms: tuple[str, ...], yes: bool) -> None:
    """Delete a user's passwords. On a terminal it asks first. Access rules and quotas of the user stay.

    Who is logged in stays so until the connection ends.
    """
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
    from headrace.cli.terminal.output import talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.users import UserAdmin

    async def work(cluster: Cluster) -> list[ScramMechanism]:
        admin = UserAdmin(cluster)
        wanted = _chosen(mechanisms)
        has = [it for user in await admin.list_users([name]) for it in user.mechanisms if it in wanted]
        if not has:
            raise Complaint(_unknown(name), "`headrace users list` shows who has one", NOT_FOUND)
        question = f"Delete the password of user {name!r} for {_names(has)}?"
        if not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
            raise Complaint(f"user {name!r} was not deleted")
        await admin.delete_passwords(name, has)
        return has

    talk(f"deleted user {name} for {_names(with_cluster(work))}")


def _chosen(names: tuple[str, ...]) -> list[ScramMechanism]:
    """All of them if none is named."""
    from headrace.access.authentication.credentials import SCRAM_MECHANISMS

    return [mechanism for name, mechanism in SCRAM_MECHANISMS.items() if not names or name in names]


def _names(mechanisms: list[ScramMechanism]) -> str:
    return " and ".join(mechanism.sasl_name for mechanism in mechanisms)


def _unknown(name: str) -> str:
    return f"user {name!r} has no such password"
