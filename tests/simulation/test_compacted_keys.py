"""Nodes that compact on their own, with faults: the newest value of each key outlives them on every replica."""

from __future__ import annotations

import pytest

from headrace.simulation.history.history import Kind
from headrace.simulation.scenario import Report, run_scenario
from headrace.simulation.workloads.compacted_keys import COMPACTED_KEYS, Attempts, Found
from headrace.storage.compaction.key_map import KeyMap

NODES = 3
TROUBLE_S = 20.0
COPIED = 119  # a follower copies batches that its leader has compacted, and no gap between them tells


def report_of(seed: int, node_count: int = NODES) -> Report:
    return run_scenario(seed, workloads=[COMPACTED_KEYS], node_count=node_count, trouble_s=TROUBLE_S)


@pytest.mark.parametrize(("seed", "node_count"), [(0, NODES), (1, NODES), (2, 1), (COPIED, NODES)])
def test_every_replica_has_the_newest_value_of_each_key(seed: int, node_count: int) -> None:
    report = report_of(seed, node_count)
    assert report.is_good, "\n".join([*map(str, report.violations), *report.last_events[-30:]])
    assert report.figures.keys_acked > 2
    assert report.figures.compacted_replicas > 0


def test_without_faults_every_replica_is_compacted() -> None:
    report = run_scenario(0, kinds=[], workloads=[COMPACTED_KEYS], node_count=NODES, trouble_s=TROUBLE_S)
    assert report.is_good, "\n".join(map(str, report.violations))
    assert report.figures.compacted_replicas == NODES


@pytest.mark.parametrize("seed", [1, 3])
def test_a_cleaner_that_drops_the_newest_is_found_out(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Also where every key was once deleted, as with seed 3: a deletion that was acked excuses no later loss."""
    honest = KeyMap.latest
    monkeypatch.setattr(KeyMap, "latest", lambda self, key: honest(self, key) + 1)
    assert Kind.WRONG_VALUE in {violation.kind for violation in report_of(seed).violations}


V, W = b"acked", b"unknown"


@pytest.mark.parametrize(
    ("acked", "unknown", "right", "wrong"),
    [
        (Found(5, V), [], [Found(5, V)], [None, Found(3, b"older"), Found(9, b"older"), Found(9, None)]),
        (Found(5, V), [W], [Found(5, V), Found(9, W)], [None, Found(4, W)]),
        (Found(5, V), [None], [Found(5, V), Found(9, None), None], [Found(4, None)]),
        (Found(5, None), [], [Found(5, None), None], [Found(3, b"back again"), Found(9, b"back again")]),
        (Found(5, None), [W], [Found(5, None), None, Found(9, W)], [Found(3, W)]),
        (None, [W], [None, Found(0, W)], [Found(0, V)]),
    ],
)
def test_what_a_reader_may_see(
    acked: Found | None, unknown: list[bytes | None], right: list[Found | None], wrong: list[Found | None]
) -> None:
    attempts = Attempts(acked, unknown)
    assert [attempts.why_wrong(found) for found in right] == [None] * len(right)
    assert all(attempts.why_wrong(found) for found in wrong)
