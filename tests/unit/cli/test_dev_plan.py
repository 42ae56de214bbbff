from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from headrace.cli.dev.local_cluster import DevPlan
from headrace.cli.terminal.complaints import Complaint
from tests.clients.dev_clusters import free_base
from tests.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def test_each_node_has_its_ports_a_hundred_apart(tmp_path: Path) -> None:
    plan = DevPlan(3, 9092, 8080, tmp_path)
    assert plan.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9192,127.0.0.1:9292"
    third = plan.arguments(3)
    assert option(third, "--listen") == "127.0.0.1:9292"
    assert option(third, "--voters") == "1@127.0.0.1:9093,2@127.0.0.1:9193,3@127.0.0.1:9293"
    assert option(third, "--http") == "127.0.0.1:8082"
    assert option(third, "--data-dir") == str(tmp_path / "node-3")


@pytest.mark.parametrize(("nodes", "replicas"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_copies_are_made_as_far_as_they_help(tmp_path: Path, nodes: int, replicas: int) -> None:
    assert f"-Xdefault.replication.factor={replicas}" in DevPlan(nodes, 9092, None, tmp_path).arguments(1)


def test_what_is_set_by_hand_wins(tmp_path: Path) -> None:
    plan = DevPlan(3, 9092, None, tmp_path, (("default.replication.factor", "2"), ("num.partitions", "6")))
    settings = [argument for argument in plan.arguments(1) if argument.startswith("-X")]
    assert settings == ["-Xdefault.replication.factor=2", "-Xnum.partitions=6"]
    assert option(plan.arguments(1), "--http") == "off"


def test_a_directory_stays_with_its_number_of_nodes(tmp_path: Path) -> None:
    plan = DevPlan(3, 9092, None, tmp_path)
    plan.check_directory()
    for node_id in plan.node_ids:
        plan.directory(node_id).mkdir()
    plan.check_directory()
    with pytest.raises(Complaint, match="holds a cluster of 3 nodes, not of 5"):
        DevPlan(5, 9092, None, tmp_path).check_directory()


@pytest.mark.parametrize(("place", "advice"), [(0, "--port-base"), (101, "--port-base"), (-1, "--http-base")])
def test_a_taken_port_is_told_of_with_the_option_that_changes_it(tmp_path: Path, place: int, advice: str) -> None:
    base = free_base(2)
    (http,) = free_ports(1)
    plan = DevPlan(2, base, None, tmp_path) if place >= 0 else DevPlan(1, base, http, tmp_path)
    plan.check_ports()
    with socket.create_server(("127.0.0.1", base + place if place >= 0 else http)), pytest.raises(Complaint) as told:
        plan.check_ports()
    assert "address already in use" in str(told.value)
    assert advice in told.value.hint
