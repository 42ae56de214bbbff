"""Bits flip on devices: whoever holds them gives them up and fetches anew, and nothing that was acked is lost."""

from __future__ import annotations

import os
from typing import Any

import pytest

from headrace.broker.replicas.damage import DamagedReplicas
from headrace.broker.replicas.opening import LogOpening
from headrace.simulation.history.history import Kind
from headrace.simulation.scenario import run_scenario

NODES = 3
ROT = ("bit rot",)
ROT_IN_TROUBLE = ("bit rot", "slow disk", "cut connections")
WRITERS = ("batches", "pipelines")
SEEDS = 2
SEEDS_PLANTED = 4  # a bit that is found on its leader may end the run before anybody lacks anything
SEEDS_LONG = int(os.environ.get("HEADRACE_ROT_SEEDS", "100"))
TROUBLE_S = 8.0


def check_seed(seed: int, faults: tuple[str, ...]) -> int:
    report = run_scenario(seed, faults, WRITERS, node_count=NODES, trouble_s=TROUBLE_S)
    assert report.is_good, "\n".join(map(str, report.violations))
    return report.faults.get("bit rot", 0)


def test_rot_is_mended_from_other_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    mended: list[bool] = []
    honest = LogOpening.empty

    async def counted(opening: LogOpening, *arguments: Any, is_kept: bool) -> Any:
        mended.append(is_kept)
        return await honest(opening, *arguments, is_kept=is_kept)

    monkeypatch.setattr(LogOpening, "empty", counted)
    rotten = sum(check_seed(seed, ROT) for seed in range(SEEDS))
    assert SEEDS <= len(mended) <= rotten  # some of what is rotten is deleted before it is found


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("faults", [ROT, ROT_IN_TROUBLE], ids=" and ".join)
def test_rot_is_mended_in_many_seeds(faults: tuple[str, ...]) -> None:
    assert sum(check_seed(seed, faults) for seed in range(SEEDS_LONG)) > SEEDS_LONG


def test_a_copy_that_is_thrown_away_while_it_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DamagedReplicas, "_is_given_up", lambda *_: True)
    monkeypatch.setattr(LogOpening, "others_have", lambda opening, state: state.leader != opening._view.node_id)
    assert any(is_a_lack_seen(seed) for seed in range(SEEDS_PLANTED)), f"{SEEDS_PLANTED} seeds did not find it"


def is_a_lack_seen(seed: int) -> bool:
    report = run_scenario(seed, ROT, WRITERS, node_count=NODES, trouble_s=TROUBLE_S)
    return Kind.BEHIND in {violation.kind for violation in report.violations}
