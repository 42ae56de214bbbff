"""Settings and commands of the page about security, as they stand."""

from __future__ import annotations

import shlex
import subprocess
import tomllib
from typing import TYPE_CHECKING

from headrace.access.listeners import ClientAuth, SecurityProtocol
from headrace.broker.listeners.exposure import exposed
from headrace.broker.listeners.plans import ListenerPlans, planned
from headrace.cli.serve.command import flattened
from headrace.metadata.configs.node_configs import node_config_key
from headrace.runtime.network import Address
from tests.clients.nodes import PATIENCE_S
from tests.clients.test_stock_server_properties import running
from tests.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.told_blocks import ToldBlocks

pytest_plugins = ["tests.docs.told_blocks"]


def plans_of(text: str) -> ListenerPlans:
    configs = dict(flattened(tomllib.loads(text)))
    for name, value in configs.items():
        node_config_key(name).parse(value)
    return planned(configs)


def test_listeners_for_those_inside_and_outside(told_blocks: ToldBlocks) -> None:
    plans = plans_of(told_blocks.take("listeners = ").text)
    inside, outside = plans.clients
    assert exposed(plans, plans.nodes_at, Address("10.0.0.1", 8080)) == []
    assert (inside.name, inside.protection.security.client_auth) == ("INSIDE", ClientAuth.REQUIRED)
    assert inside.protection.name_rules.name_of("CN=billing,OU=services") == "billing"
    assert (outside.name, outside.told) == ("OUTSIDE", Address("kafka.example.com", 9094))
    assert outside.protection.security.mechanisms == ("SCRAM-SHA-512",)
    assert outside.protection.session_max_s == 3600
    assert plans.nodes.name_rules.name_of("CN=billing,OU=services") is None
    assert plans.nodes.name_rules.name_of("CN=node-1,OU=nodes") == "node-1"


def test_nodes_that_know_each_other_by_certificates(told_blocks: ToldBlocks) -> None:
    text = told_blocks.take("listener.security.protocol.map = ").text
    nodes = plans_of(text).nodes
    assert (nodes.security.protocol, nodes.security.client_auth) == (SecurityProtocol.SSL, ClientAuth.REQUIRED)


def test_nodes_that_know_each_other_by_a_secret(tmp_path: Path, told_blocks: ToldBlocks) -> None:
    *making, serving = told_blocks.take("openssl rand").text.splitlines()
    for line in making:
        subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True, timeout=PATIENCE_S)
    clients, nodes = free_ports(2)
    line = serving.replace(":9093", f":{nodes}").replace("=cluster.secret", f"={tmp_path}/cluster.secret")
    place = ["--listen", f"127.0.0.1:{clients}", "--data-dir", str(tmp_path / "data")]
    with running(*shlex.split(line)[2:], *place, log=tmp_path / "node.log") as ready:
        assert f"kafka://127.0.0.1:{clients}" in ready
