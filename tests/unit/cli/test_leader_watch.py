from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli.messages import leaderless as leaders
from headrace.cli.messages.leaderless import LeaderWatch
from headrace.client.errors import ClusterUnreachable
from headrace.model.names import TopicPartition

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("orders", 1)


class KnownCluster:
    """What a client knows of who leads."""

    def __init__(self) -> None:
        self.view = SimpleNamespace(topics={"orders": object()})
        self.leaders: dict[TopicPartition, int | None] = {ORDERS: None, BILLS: 1}

    def leader_of(self, name: TopicPartition) -> int | None:
        return self.leaders[name]

    async def refresh(self) -> None: ...


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "LOOK_S", 0.0)
    monkeypatch.setattr(leaders, "ELECTION_S", 0.0)


def test_what_has_no_leader_is_told_once_although_it_is_another_members_for_a_while(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster: Any = KnownCluster()
    watch = LeaderWatch(cluster)

    async def look() -> None:
        for share in ([ORDERS, BILLS], [], [BILLS], [ORDERS, BILLS]):
            await watch.look(share)
        cluster.leaders[ORDERS] = 2
        await watch.look([ORDERS, BILLS])

    asyncio.run(look())
    assert capsys.readouterr().err.splitlines() == [
        "no node that is alive leads orders-0; what the others have is read meanwhile",
        "somebody leads orders-0 again",
    ]


def test_who_comes_back_to_another_member_is_none_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    cluster: Any = KnownCluster()
    watch = LeaderWatch(cluster)

    async def look() -> None:
        await watch.look([ORDERS])
        cluster.leaders[ORDERS] = 2
        await watch.look([BILLS])
        cluster.leaders[ORDERS] = None
        await watch.look([ORDERS])

    asyncio.run(look())
    assert capsys.readouterr().err.count("no node that is alive leads orders-0") == 2


def test_who_comes_back_while_a_group_is_shared_out_anew_is_told_of_once_it_is_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster: Any = KnownCluster()
    watch = LeaderWatch(cluster)

    async def look() -> None:
        await watch.look([ORDERS])
        cluster.leaders[ORDERS] = 2
        await watch.look([])
        await watch.look([ORDERS])

    asyncio.run(look())
    assert capsys.readouterr().err.count("somebody leads orders-0 again") == 1


def test_nobody_is_missed_while_nobody_can_say_who_leads(capsys: pytest.CaptureFixture[str]) -> None:
    cluster: Any = KnownCluster()
    watch = LeaderWatch(cluster)

    async def nobody_answers() -> None:
        raise ClusterUnreachable("nobody")

    async def look() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leaders, "ELECTION_S", 60.0)
            await watch.look([ORDERS])  # it has just lost its leader
        cluster.refresh = nobody_answers
        await watch.look([ORDERS])

    asyncio.run(look())
    assert not capsys.readouterr().err
