"""`[cluster]`: where the topics are, and how to come in. What somebody says besides the file wins over it."""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.connections.view import parse_addresses
from headrace.client.security.files import client_settings, is_secret, read_client_file
from headrace.client.security.jaas import SETTING as JAAS
from headrace.client.security.secret_values import UnusableSettings
from headrace_spark.pipeline.file.spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.client.security.files import ClientFile
    from headrace_spark.pipeline.file.toml_section import Section

BOOTSTRAP_VARIABLE: Final = "HEADRACE_BOOTSTRAP_SERVER"
BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"
CONFIG_VARIABLE: Final = "HEADRACE_COMMAND_CONFIG"

TABLES: Final = ("security", "sasl", "ssl")
_PATHS: Final = (".location", ".file")
_REFERENCE: Final = re.compile(r"\$\{(env|file):[^}]+\}")
_JAAS_REFERENCE: Final = re.compile(r"""password\s*=\s*["']\$\{(env|file):[^}]+\}["']""")


class GivenCluster(NamedTuple):
    """What somebody says besides the file. None, or nothing: what the file says."""

    bootstrap_servers: str | None = None
    command_config: str | None = None
    properties: Mapping[str, str] = MappingProxyType({})


def read_cluster(section: Section, given: GivenCluster) -> ClusterSpec:
    """Raises PipelineError, with no secret in it."""
    config, settings = _config(section), _settings(section)
    if given.command_config is not None:
        config, settings = os.path.abspath(given.command_config), {}
    elif config is None and not settings and os.environ.get(CONFIG_VARIABLE):
        config = os.path.abspath(os.environ[CONFIG_VARIABLE])
    settings |= given.properties
    servers = given.bootstrap_servers or section.text("bootstrap_servers", os.environ.get(BOOTSTRAP_VARIABLE, ""))
    servers = servers or _read(section, config, settings).bootstrap_servers or BOOTSTRAP_DEFAULT
    try:
        parse_addresses(servers)
    except ValueError as error:
        raise section.error("bootstrap_servers", f"bootstrap_servers: {error}") from error
    return ClusterSpec(servers, config, settings)


def _read(section: Section, config: str | None, settings: Mapping[str, str]) -> ClientFile:
    """So that what is wrong is told with the file's name, and before anything runs."""
    try:
        return client_settings(settings) if config is None else read_client_file(config, settings)
    except UnusableSettings as wrong:
        raise section.error(None, f"says how to come in: {wrong}") from wrong


def _config(section: Section) -> str | None:
    path = section.optional_text("command_config")
    return None if path is None else section.file.resolve(path)


def _settings(section: Section) -> dict[str, str]:
    found = {f"{table}.{name}": value for table in TABLES for name, value in section.settings(table).items()}
    for name, value in found.items():
        _refuse_secret(section, name.split("."), name, value)
        if name.endswith(_PATHS) and not value.startswith("${"):
            found[name] = section.file.resolve(value)
    return found


def refuse_secret_options(section: Section, options: Mapping[str, str]) -> None:
    """A source may have options of its own: those would stand in Spark's plans, and in what `explain` shows."""
    for name, value in options.items():
        _refuse_secret(section, ("options", name), name.lower().removeprefix("kafka."), value)


def _refuse_secret(section: Section, way: Sequence[str], name: str, value: str) -> None:
    reference = _JAAS_REFERENCE.search(value) if name == JAAS else _REFERENCE.fullmatch(value)
    if is_secret(name) and not reference:
        raise section.file.error(
            (*section.key_path, *way),
            f"{name} holds a secret",
            "write where it is: ${env:NAME} or ${file:/path}, which each machine looks up for itself",
        )
