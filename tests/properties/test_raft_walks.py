"""Whatever happens to the nodes, their disks and the network: Raft's promises hold, and after it they make progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.raft.raft_walk import Walk

if TYPE_CHECKING:
    from random import Random

SEEDS_PER_TEST = 10


@pytest.mark.parametrize("first_seed", range(0, 100, SEEDS_PER_TEST))
def test_bad_days(first_seed: int) -> None:
    """A walk has its judge with it, who raises at the first step that breaks a rule."""
    for seed in range(first_seed, first_seed + SEEDS_PER_TEST):
        Walk(seed).go(30)


@pytest.mark.long
@pytest.mark.parametrize("first_seed", range(1000, 3000, 100))
def test_many_bad_days(first_seed: int) -> None:
    """The walk's judge raises on the first broken promise."""
    for seed in range(first_seed, first_seed + 100):
        Walk(seed).go(60)


@given(dice=st.randoms(use_true_random=False), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_bad_day_that_shrinks(dice: Random, seed: int) -> None:
    """The same, found by Hypothesis: slower, but what fails is told in few steps."""
    Walk(seed, dice=dice).go(8)


def test_the_same_seed_tells_the_same_story() -> None:
    stories = []
    for _ in range(2):
        world = Walk(7).go(30)
        stories.append((world.now_ms, world.figures, [host.state for host in world.hosts.values()]))
    assert stories[0] == stories[1]
