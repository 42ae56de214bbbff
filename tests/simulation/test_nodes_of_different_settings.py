"""Nodes that do not agree on min.insync.replicas: then controllers and leaders measure in-sync sets differently.

So it is while an operator changes the setting, one node after the other. Nothing may be lost over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.replication.replica import Replica
from headrace.simulation.cluster import NodeProcess
from headrace.simulation.history.history import Kind
from headrace.simulation.scenario import run_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.simulation.scenario import Report

MIN_INSYNC = {1: "1", 2: "2", 3: "3"}  # by node
FAULTS = ("crash", "power cut of several", "pause")
SEEDS = 2
SEEDS_LONG = 60
WRITERS = ("batches", "pipelines")


@pytest.fixture(autouse=True)
def _settings_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = NodeProcess.__init__

    def init(process: NodeProcess, universe: Any, node_id: Any, configs: Mapping[str, str], *more: Any) -> None:
        honest(process, universe, node_id, {**configs, "min.insync.replicas": MIN_INSYNC[node_id]}, *more)

    monkeypatch.setattr(NodeProcess, "__init__", init)


def run(seed: int, trouble_s: float = 10.0) -> Report:
    return run_scenario(seed, FAULTS, WRITERS, node_count=len(MIN_INSYNC), trouble_s=trouble_s)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost(seed: int) -> None:
    report = run(seed)
    assert report.is_good, "\n".join(map(str, report.violations))


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_nothing_is_lost_in_many_seeds() -> None:
    for seed in range(SEEDS, SEEDS_LONG):
        report = run(seed, trouble_s=30.0)
        assert report.is_good, "\n".join([f"seed {seed}", *map(str, report.violations)])


def test_a_leader_that_goes_by_its_own_settings_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "eligible", property(lambda _: (), lambda *_: None))
    assert Kind.UNCOUNTED in {violation.kind for seed in range(SEEDS) for violation in run(seed).violations}
