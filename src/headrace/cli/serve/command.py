"""`headrace serve`: its options. The node itself is put together in `serve.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.terminal.numbers import node_number
from headrace.cli.terminal.options import HELP, pair
from headrace.model.names import NODE_ID_MAX

if TYPE_CHECKING:
    from headrace.broker.listeners.plans import ListenerPlans, ToldPlaces
    from headrace.cli.serve.server_properties import ServerProperties
    from headrace.model.names import NodeId
    from headrace.runtime.network import Address

OFF = "off"


@click.command("serve", context_settings=HELP)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="headrace-data",
    envvar="HEADRACE_DATA_DIR",
    show_default=True,
    show_envvar=True,
    help="Where the node keeps what it stores.",
)
@click.option(
    "--listen",
    envvar="HEADRACE_LISTEN",
    metavar="[NAME://]HOST:PORT,…",
    show_envvar=True,
    help="For Kafka clients: where the first listener of the settings is, or all of them with their names. Default: as "
    "`listeners` says, else 127.0.0.1:9092.",
)
@click.option(
    "--http",
    default="127.0.0.1:8080",
    envvar="HEADRACE_HTTP",
    metavar="HOST:PORT",
    show_default=True,
    show_envvar=True,
    help=f"For health checks and metrics; `{OFF}` for none.",
)
@click.option(
    "--advertise",
    envvar="HEADRACE_ADVERTISE",
    metavar="[NAME://]HOST:PORT,…",
    show_envvar=True,
    help="The address that clients are told to use. Default: the one they dialled.",
)
@click.option(
    "--node-id",
    type=node_number,
    envvar="HEADRACE_NODE_ID",
    show_envvar=True,
    help="This node's id, which stays with its data. Default: the id in the data directory, else 1.",
)
@click.option(
    "--cluster-listen",
    envvar="HEADRACE_CLUSTER_LISTEN",
    metavar="HOST:PORT",
    show_envvar=True,
    help="For the other nodes of a cluster. Default: this node's place in --voters, else nobody can join.",
)
@click.option(
    "--voters",
    envvar="HEADRACE_VOTERS",
    metavar="ID@HOST:PORT,…",
    show_envvar=True,
    help="The nodes that found a cluster, this one among them, and where each listens for the others. "
    "After the first start, only where to look for nodes that have moved.",
)
@click.option(
    "--join",
    envvar="HEADRACE_JOIN",
    metavar="HOST:PORT,…",
    show_envvar=True,
    help="Become part of a cluster that runs: where any of its nodes listen for the others. Needs --cluster-listen, "
    "and at the first start an empty data directory; later it tells the others where this node is now.",
)
@click.option(
    "--rack",
    envvar="HEADRACE_RACK",
    show_envvar=True,
    help="Where this node stands: replicas are kept on different racks.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    envvar="HEADRACE_CONFIG",
    show_envvar=True,
    help="A TOML file of settings, or Kafka's server.properties (*.properties). Options and -X win over it.",
)
@click.option(
    "-X",
    "settings",
    type=pair,
    metavar="NAME=VALUE",
    multiple=True,
    help="One setting, under Kafka's name. Repeatable.",
)
@click.option(
    "--insecure",
    is_flag=True,
    envvar="HEADRACE_INSECURE",
    show_envvar=True,
    help="Listen also where others reach this node without saying who they are. Without it, such a listener has to be "
    "on loopback.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    envvar="HEADRACE_LOG_LEVEL",
    show_default=True,
    show_envvar=True,
    help="The least severe log lines that are printed on stderr.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="HEADRACE_LOG_FORMAT",
    show_default=True,
    show_envvar=True,
    help="Lines for people, or for programs.",
)
def command(
    data_dir: Path,
    listen: str | None,
    http: str,
    advertise: str | None,
    node_id: int | None,
    cluster_listen: str | None,
    voters: str | None,
    join: str | None,
    rack: str | None,
    config: Path | None,
    settings: tuple[tuple[str, str], ...],
    insecure: bool,
    log_level: str,
    log_format: str,
) -> int:
    """Run a node until Ctrl-C or SIGTERM. It needs no options.

    When it is ready it prints one line with its addresses. Port 0 takes any that is free.
    """
    from headrace.broker.listeners.plans import ToldPlaces
    from headrace.broker.listeners.reach import everybody_may_read
    from headrace.cli.serve.addresses import CannotStart, ServeOptions
    from headrace.cli.serve.logs import configure_logging
    from headrace.cli.serve.node_process import log, serve
    from headrace.cli.serve.super_users import doubts_about_super_users
    from headrace.cli.terminal.complaints import Complaint

    if voters and join:
        raise click.UsageError("--voters founds a cluster, --join enters one that exists: give one of them")
    _expect_no_secret(settings)
    said = _said_by(config)
    configs = said.configs | dict(settings) | ({"headrace.insecure": "true"} if insecure else {})
    told = ToldPlaces(listen or "", advertise or "", cluster_listen or "")
    options = ServeOptions(
        data_dir=(_is_left_open("data_dir") and said.data_dir) or data_dir,
        listeners=_listeners(configs, told, config, said),
        http=None if http == OFF else _address(http, "--http"),
        node_id=said.node_id if node_id is None else node_id,
        voters=_voters(voters) if voters else {} if join else said.voters,
        join=_addresses(join, "--join") if join else () if voters else said.join,
        rack=said.rack if rack is None else rack,
        configs=configs,
    )
    if options.join and options.listeners.nodes_at is None:
        raise click.UsageError("a node that enters a cluster is found by the others there: add --cluster-listen")
    configure_logging(log_level, log_format)
    if config is not None and (named := _secrets_in(said.configs)) and everybody_may_read(str(config)):
        log.warning("%s holds %s, and everybody on this machine can read it: chmod 600", config, ", ".join(named))
    for doubt in doubts_about_super_users(configs):
        log.warning("%s", doubt)
    for note in said.notes:
        log.info("%s: %s", config, note)
    try:
        return serve(options)
    except CannotStart as reason:
        raise Complaint(f"the node cannot start: {reason}") from reason


def _expect_no_secret(settings: tuple[tuple[str, str], ...]) -> None:
    for name in _secrets_in(dict(settings)):
        raise click.UsageError(
            f"{name} is a secret, and everybody on this machine can read command lines: put it into the "
            f"configuration file, or say where it stands, as -X {name}=${{file:/path}} or ${{env:NAME}}"
        )


def _secrets_in(configs: dict[str, str]) -> list[str]:
    """Names of the settings that are secrets, rather than say where one stands."""
    from headrace.metadata.configs.listener_configs import LISTENER_CONFIGS, own_config_key

    keys = {name: LISTENER_CONFIGS.get(name) or own_config_key(name) for name in configs}
    return [name for name, key in keys.items() if key and key.is_secret and not configs[name].startswith("${")]


def _listeners(configs: dict[str, str], told: ToldPlaces, path: Path | None, said: ServerProperties) -> ListenerPlans:
    from headrace.broker.listeners.plans import UnusableListeners, planned
    from headrace.cli.terminal.complaints import USAGE, Complaint

    try:
        return planned(configs, told)
    except UnusableListeners as wrong:
        if wrong.setting.startswith("--"):
            raise click.BadParameter(wrong.why, param_hint=wrong.setting) from wrong
        line = said.lines.get(wrong.setting) if configs.get(wrong.setting) == said.configs.get(wrong.setting) else None
        place = "" if line is None else f"{path}, line {line}: "
        raise Complaint(f"{place}{wrong}", exit_code=USAGE) from wrong


def _is_left_open(option: str) -> bool:
    """Neither the command line nor the environment says anything about it."""
    return click.get_current_context().get_parameter_source(option) is click.core.ParameterSource.DEFAULT


def _addresses(text: str, option: str) -> tuple[Address, ...]:
    return tuple(_address(part.strip(), option) for part in text.split(","))


def _address(text: str, option: str) -> Address:
    from headrace.client.connections.view import parse_address

    try:
        return parse_address(text, port_min=0)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint=option) from wrong


def _voters(text: str) -> dict[NodeId, Address]:
    from headrace.model.names import NodeId

    voters: dict[NodeId, Address] = {}
    for part in text.split(","):
        number, sign, address = part.strip().partition("@")
        if not sign or not number.isdigit() or int(number) > NODE_ID_MAX:
            raise click.BadParameter(
                f"{part.strip()!r} is no voter; expected id@host:port, such as 1@10.0.0.1:9093", param_hint="--voters"
            )
        node_id, at = NodeId(int(number)), _address(address, "--voters")
        if node_id in voters or at in voters.values():
            raise click.BadParameter(
                f"{part.strip()!r} names a node or an address for the second time; each voter has its own of both",
                param_hint="--voters",
            )
        voters[node_id] = at
    return voters


def _said_by(path: Path | None) -> ServerProperties:
    """What the configuration file says. One of ours says nothing but settings."""
    from headrace.cli.serve.server_properties import (
        NotProperties,
        ServerProperties,
        UnusableProperties,
        parse_server_properties,
    )
    from headrace.cli.terminal.complaints import USAGE, Complaint

    if path is None:
        return ServerProperties()
    if path.suffix != ".properties":
        return ServerProperties(configs=_settings_from(path))
    try:
        return parse_server_properties(path.read_bytes())
    except (NotProperties, UnusableProperties) as wrong:
        raise Complaint(f"{path}, {wrong}", exit_code=USAGE) from wrong


def _settings_from(path: Path) -> dict[str, str]:
    import tomllib

    from headrace.cli.serve.paths import beside
    from headrace.cli.terminal.complaints import USAGE, Complaint

    try:
        with path.open("rb") as file:
            return beside(dict(flattened(tomllib.load(file))), path.resolve().parent)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise Complaint(f"{path} is not TOML: {wrong}", exit_code=USAGE) from wrong


def flattened(content: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Settings as names and texts. Tables and dotted names mean the same: `[log] dirs` is `log.dirs`."""
    pairs: list[tuple[str, str]] = []
    for name, value in content.items():
        match value:
            case dict():
                pairs += flattened(value, f"{prefix}{name}.")
            case bool():
                pairs.append((prefix + name, "true" if value else "false"))
            case list():
                pairs.append((prefix + name, ",".join(str(element) for element in value)))
            case _:
                pairs.append((prefix + name, str(value)))
    return pairs
