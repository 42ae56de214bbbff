"""Who may commit and fetch offsets of a KIP-848 group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import Refusal
from tests.unit.coordinators.modern_world import TopicsInMemory, World, beat, join

if TYPE_CHECKING:
    from collections.abc import Callable


def group_at_epoch_1() -> World:
    world = World(TopicsInMemory(t=1))
    world.send(join("a", "t"))
    return world


def left() -> World:
    world = group_at_epoch_1()
    world.send(beat("a", -1))
    return world


def outcome(check: Callable[[], None]) -> str:
    try:
        check()
    except Refusal as refusal:
        return refusal.code.name
    return "ok"


def commit(world: World, member_id: str, epoch: int, version: int, is_transactional: bool) -> str:
    return outcome(
        lambda: world.group.check_commit(
            member_id, None, epoch, version, is_transactional=is_transactional, now=world.now
        )
    )


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "is_transactional", "expected"),
    [
        ("a", 1, 9, False, "ok"),
        ("a", 1, 8, False, "UNSUPPORTED_VERSION"),
        ("a", 1, 3, True, "ok"),
        ("a", 0, 9, False, "STALE_MEMBER_EPOCH"),
        ("a", 2, 9, False, "STALE_MEMBER_EPOCH"),
        ("a", 2, 3, True, "STALE_MEMBER_EPOCH"),
        ("a", -1, 9, False, "STALE_MEMBER_EPOCH"),
        ("b", 1, 9, False, "UNKNOWN_MEMBER_ID"),
        ("", -1, 9, False, "UNKNOWN_MEMBER_ID"),
        ("", -1, 3, True, "ok"),
        ("b", -1, 3, True, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_commits(member_id: str, epoch: int, version: int, is_transactional: bool, expected: str) -> None:
    assert commit(group_at_epoch_1(), member_id, epoch, version, is_transactional) == expected


def test_a_group_without_members_takes_commits_of_nobody() -> None:
    assert commit(left(), "", -1, 5, is_transactional=False) == "ok"
    assert commit(left(), "a", 1, 9, is_transactional=False) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    ("member_id", "epoch", "expected"),
    [
        (None, -1, "ok"),
        ("", -1, "ok"),
        ("a", 1, "ok"),
        ("a", 2, "STALE_MEMBER_EPOCH"),
        ("a", -1, "STALE_MEMBER_EPOCH"),
        ("b", 1, "UNKNOWN_MEMBER_ID"),
        (None, 1, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_fetches(member_id: str | None, epoch: int, expected: str) -> None:
    assert outcome(lambda: group_at_epoch_1().group.check_fetch(member_id, epoch)) == expected
