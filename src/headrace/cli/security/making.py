"""An authority, certificates for nodes and a first user, as files; and new certificates in time."""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING, Final

from headrace.access.authentication.credentials import (
    SCRAM_MECHANISMS,
    USUAL_ITERATIONS,
    USUAL_SALT_BYTES,
    ScramUser,
    verifier_for,
)
from headrace.access.authentication.verifier_file import users_text
from headrace.cli.security.authority import Authority, Period, hosts_of
from headrace.cli.security.files import new_directory, replace, write_new
from headrace.cli.security.layout import (
    AUTHORITY,
    AUTHORITY_KEY,
    CLIENT,
    CLIENTS_AUTHORITY,
    CLIENTS_AUTHORITY_KEY,
    NODE,
    SETTINGS,
    USERS,
    certificate_text,
    client_text,
    settings_text,
)
from headrace.cli.terminal.complaints import NOT_FOUND, Complaint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HERE: Final = ("localhost", "127.0.0.1", "::1")
AUTHORITY_DAYS: Final = 3650
"""Longer than a cluster of one version lives: a new authority has to get to every client."""
PASSWORD_BYTES: Final = 24  # of chance: nobody types it


def default_hosts(others: Sequence[str]) -> list[str]:
    """Under which names nodes are found, each once: this machine's, and those that are given."""
    return list(dict.fromkeys((*HERE, socket.gethostname(), *others)))


def make(directory: Path, hosts: Sequence[str], days: int, admin: str, nodes: int) -> None:
    """Everything that a new cluster begins with. With `nodes`, also a directory for each, with its own certificate."""
    authority = Authority.new(f"headrace {secrets.token_hex(4)}", Period.of_days(AUTHORITY_DAYS))
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    shared = {
        AUTHORITY: authority.certificate,
        USERS: _users(admin, password).encode(),
        SETTINGS: settings_text(admin).encode(),
    }
    new_directory(directory)
    own = {
        NODE: _issued(authority, "node", hosts, days),
        AUTHORITY_KEY: authority.key,
        CLIENT: client_text(admin, password, (directory / AUTHORITY).resolve()).encode(),
    }
    write_new(directory, {**shared, **own})
    for name in node_names(nodes):
        new_directory(directory / name)
        write_new(directory / name, {**shared, NODE: _issued(authority, name, hosts, days)})


def renew(directory: Path, others: Sequence[str], days: int) -> list[Path]:
    """New certificates of the same authority in place of those of nodes, for the same hosts and some others. Returns
    which. Complaint if there is no authority."""
    authority = _authority(directory, AUTHORITY, AUTHORITY_KEY)
    found = sorted((*directory.glob(NODE), *directory.glob(f"node-*/{NODE}")))
    for path in found:
        name, hosts = hosts_of(path.read_bytes())
        replace(path, _issued(authority, name, list(dict.fromkeys((*hosts, *others))), days))
    return found


def make_certificate(directory: Path, name: str, days: int) -> list[Path]:
    """A client's certificate, and settings that show it. Complaint if there are some already."""
    shown, settings = directory / f"{name}.pem", directory / f"{name}.properties"
    for path in (shown, settings):
        if path.exists():
            raise Complaint(f"{path} is there already, and nothing is overwritten", "move it away to make a new one")
    _authority(directory, AUTHORITY, AUTHORITY_KEY)  # it is the right directory
    if not (directory / CLIENTS_AUTHORITY).exists():
        made = Authority.new(f"headrace clients {secrets.token_hex(4)}", Period.of_days(AUTHORITY_DAYS))
        write_new(directory, {CLIENTS_AUTHORITY_KEY: made.key, CLIENTS_AUTHORITY: made.certificate})
    authority = _authority(directory, CLIENTS_AUTHORITY, CLIENTS_AUTHORITY_KEY)
    text = certificate_text((directory / AUTHORITY).resolve(), shown.resolve())
    write_new(directory, {shown.name: _issued(authority, name, (), days), settings.name: text.encode()})
    return [shown, settings]


def node_names(count: int) -> list[str]:
    return [f"node-{number}" for number in range(1, count + 1)]


def _authority(directory: Path, name: str, key_name: str) -> Authority:
    try:
        certificate, key = (directory / name).read_bytes(), (directory / key_name).read_bytes()
    except FileNotFoundError as missing:
        raise Complaint(
            f"{missing.filename} is not there, and without it no certificate can be issued",
            "run it where `headrace security init` was run: nodes have no key of the authority",
            NOT_FOUND,
        ) from missing
    try:
        return Authority.read(certificate, key)
    except ValueError as wrong:
        raise Complaint(f"{directory / name} or {directory / key_name} is damaged: {wrong}") from wrong


def _issued(authority: Authority, name: str, hosts: Sequence[str], days: int) -> bytes:
    issued = authority.issue(name, Period.of_days(days), hosts=hosts)
    return issued.certificate + issued.key


def _users(admin: str, password: str) -> str:
    return users_text(
        {
            ScramUser(admin, mechanism): verifier_for(
                password, mechanism, secrets.token_bytes(USUAL_SALT_BYTES), USUAL_ITERATIONS
            )
            for mechanism in SCRAM_MECHANISMS.values()
        }
    )
