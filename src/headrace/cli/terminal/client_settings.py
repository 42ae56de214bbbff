"""The client settings that a command was given: in a file, on the command line, by the environment."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.terminal.complaints import USAGE, Complaint, write_line
from headrace.cli.terminal.options import (
    BOOTSTRAP_SERVER_VARIABLE,
    DEFAULT_BOOTSTRAP_SERVER,
    given_bootstrap_server,
    given_command_config,
    given_command_properties,
    named_command_config,
)
from headrace.client.connections.view import parse_addresses
from headrace.client.security.files import BOOTSTRAP_SERVERS, ClientFile, client_settings, is_secret, read_client_file
from headrace.client.security.secret_values import UnusableSettings

if TYPE_CHECKING:
    from headrace.client.security.settings import ClientSecurity

_REFERENCE = re.compile(r"\$\{(env|file):[^}]+\}")


class ClientChoice(NamedTuple):
    """Which cluster, and how to reach it."""

    bootstrap_servers: str
    security: ClientSecurity


def chosen_client() -> ClientChoice:
    """What the command line says, else the environment, else the file that one of them names, else the default."""
    found = _found()
    for warning in found.warnings:
        write_line(sys.stderr, "warning", warning)
    said = given_bootstrap_server() or os.environ.get(BOOTSTRAP_SERVER_VARIABLE)
    source = "--bootstrap-server" if said else f"{given_command_config() or '--command-property'}: {BOOTSTRAP_SERVERS}"
    servers = said or found.bootstrap_servers or DEFAULT_BOOTSTRAP_SERVER
    try:
        parse_addresses(servers)
    except ValueError as wrong:
        raise Complaint(f"{source}: {wrong}", exit_code=USAGE) from wrong
    return ClientChoice(servers, found.security)


def given_client() -> tuple[str | None, str | None, dict[str, str]]:
    """For what has settings of its own: which addresses, file and properties the command line names."""
    return given_bootstrap_server(), named_command_config(), _properties()


def _found() -> ClientFile:
    path, properties = given_command_config(), _properties()
    try:
        return client_settings(properties) if path is None else read_client_file(path, properties)
    except UnusableSettings as wrong:
        raise Complaint(str(wrong), exit_code=USAGE) from wrong


def _properties() -> dict[str, str]:
    properties = given_command_properties()
    for name, value in properties.items():
        if is_secret(name) and not _REFERENCE.fullmatch(value):
            raise Complaint(
                f"--command-property {name}: a secret on a command line can be read by everybody on this machine, and "
                "stays in the shell's history",
                f"put it into a file for --command-config, or write {name}=${{file:/path}} or {name}=${{env:NAME}}, "
                "in single quotes",
                USAGE,
            )
    return properties
