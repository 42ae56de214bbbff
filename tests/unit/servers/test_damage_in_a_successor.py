"""Damage that is found in a new copy, while the old one is being replaced by it, is cared for as well."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from headrace.broker.replicas.damage import DamagedReplicas
from headrace.broker.replicas.reconciler import Reconciler
from headrace.storage.files.damage import DamagedRange
from tests.unit.servers.living_server import living_server

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from headrace.broker.partitions.partition import Partition

DAMAGE = DamagedRange("some.log", 0, 0, 1, "a bit has flipped")


async def test_damage_in_the_copy_that_has_just_come_is_not_forgotten_with_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    successors: list[Partition] = []

    async def fetch_again(reconciler: Reconciler, partition: Partition) -> None:
        served = reconciler._topics.named(partition.name.topic)
        assert served is not None
        served.partitions[partition.index] = successor = copy(partition)
        successors.append(successor)
        server.node.damage.found(successor, [DAMAGE])  # before whoever waits for the new copy hears of it

    monkeypatch.setattr(Reconciler, "fetch_again", fetch_again)
    monkeypatch.setattr(DamagedReplicas, "_is_given_up", lambda *_: True)
    async with living_server(tmp_path) as server:
        await server.create_topic("orders")
        reports, partition = server.node.damage, server.node.topics.partition("orders", 0)
        reports.damaged[partition.log_id] = partition  # as `found` does, without the wake-up call
        reports.last_epochs[partition.log_id] = partition.replica.leader_epoch
        await server.node.damaged_replicas._look_after(partition)
        assert list(reports.damaged.values()) == successors
        assert partition.log_id in reports.last_epochs
