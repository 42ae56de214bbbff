"""A cluster that is founded with users has them from its first moment, and nobody else's file matters to it later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.access.authentication.credentials import ScramMechanism, ScramUser, verifier_for
from headrace.access.authentication.known_users import SECRET_HOLDER
from headrace.access.authentication.verifier_file import users_text
from headrace.broker.access.first_users import UnusableUsers, read_first_users
from headrace.broker.build import NodePlan, build
from headrace.broker.membership.membership import MembershipPlan
from headrace.metadata.commands.node_commands import name_cluster
from headrace.metadata.commands.user_commands import first_users
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.access.authentication.credentials import ScramVerifier

ADMIN = ScramUser("admin", ScramMechanism.SCRAM_SHA_256)
OTHER = ScramUser("other", ScramMechanism.SCRAM_SHA_256)
VERIFIER = verifier_for("hunter2", ADMIN.mechanism, b"salt salt", 4096)
SETTING = "headrace.initial.users.file"


async def founded(directory: Path, users: dict[ScramUser, ScramVerifier]) -> dict[ScramUser, ScramVerifier]:
    """Who can log in once a node has started there."""
    disk, threads = SystemDisk(directory), SystemThreads()
    try:
        world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), threads)
        node = await build(world, NodePlan(MembershipPlan(first_users=users)))
        await node.start()
        found = dict(node.image.access.verifiers)
        await node.stop()
    finally:
        threads.close()
        disk.close()
    return found


async def test_a_cluster_begins_with_the_users_of_its_founder_and_keeps_them(tmp_path: Path) -> None:
    found = await founded(tmp_path, {ADMIN: VERIFIER})
    secret = found.pop(SECRET_HOLDER)
    assert found == {ADMIN: VERIFIER}
    again = await founded(tmp_path, {OTHER: VERIFIER})
    assert again == {ADMIN: VERIFIER, SECRET_HOLDER: secret}


async def test_without_users_there_are_none(tmp_path: Path) -> None:
    assert await founded(tmp_path, {}) == {}


def test_name_and_users_are_one_decision() -> None:
    """Otherwise a crash between the two would leave a cluster that nobody can log in to."""
    decision = name_cluster(EMPTY_IMAGE, "abc", first_users({ADMIN: VERIFIER}, b"s" * 64))
    named = EMPTY_IMAGE.apply_all(decision.records)
    assert (named.cluster_id, named.access.verifiers[ADMIN]) == ("abc", VERIFIER)
    assert name_cluster(named, "xyz", first_users({OTHER: VERIFIER}, b"s" * 64)).records == ()


def test_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(users_text({ADMIN: VERIFIER}))
    assert read_first_users({SETTING: str(path)}, is_new=True) == {ADMIN: VERIFIER}
    assert read_first_users({}, is_new=True) == {}


@pytest.mark.parametrize(("content", "words"), [(None, "cannot read"), ("{}", "holds no users"), ("", "is empty")])
def test_a_new_node_needs_the_file_that_it_is_told_of(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "users.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UnusableUsers, match=words):
        read_first_users({SETTING: str(path)}, is_new=True)
    assert read_first_users({SETTING: str(path)}, is_new=False) == {}
