"""Whoever follows a topic while nodes are away is told so, and can be stopped."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cli.messages import absent_nodes as absences
from headrace.cli.messages.absent_nodes import told_of_absences
from headrace.cli.messages.consume import Membership
from headrace.cli.messages.copying import Copying, Undone
from headrace.cli.messages.formatter import text_format
from headrace.cli.messages.group_reading import read_in_group
from headrace.cli.messages.partition_reading import Printing, Reading, Tally
from headrace.cli.terminal.delivery import Delivery
from headrace.client.connections.cluster import ClusterSettings
from headrace.client.errors import ClientError, ClusterUnreachable, ConnectionLost, TransactionAborted
from headrace.client.groups.group_consumer import GroupConsumer
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.client.producing.transactions import Outcome
from headrace.client.reading.offsets import Edge, IsolationLevel
from headrace.wire.api import ApiKey
from headrace.wire.batches.records import encode_batch
from tests.unit.client.scripted_node import HANG_UP, TOPIC, ScriptedNode, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATIENCE_S = 120.0  # against hangs only
FOLLOWING = ClusterSettings(retry_for_s=0.05, away_for_s=math.inf, backoff_first_s=0.001, backoff_max_s=0.01)


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode().start()
    yield running
    await running.stop()


class Absences:
    """What a cluster has to tell, look by look: for how long something has been away, and what it is."""

    def __init__(self, *told: tuple[float, Exception | None]) -> None:
        self._told = list(told)
        self.has_told_all = asyncio.Event()

    def absence(self, for_s: float) -> Exception | None:
        if not self._told:
            self.has_told_all.set()
            return None
        lasted_s, what = self._told.pop(0)
        return what if lasted_s >= for_s else None


async def test_an_absence_is_told_once_and_its_end_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(absences, "LOOK_S", 0.0)
    all_away, one_away = ClusterUnreachable("nobody"), ConnectionLost("no answer")
    cluster: Any = Absences(
        (1.0, all_away),  # a hiccup
        (0.0, None),
        (6.0, all_away),
        (7.0, one_away),
        (0.1, one_away),  # somebody else waits as soon as the first does not
        (0.0, None),
        (6.0, one_away),
    )
    async with told_of_absences(cluster):
        await asyncio.wait_for(cluster.has_told_all.wait(), PATIENCE_S)
    assert capsys.readouterr().err.splitlines() == [
        "no node of the cluster answers; waiting until one does",
        "the cluster answers again",
        "a node that is needed does not answer (no answer); waiting until it does, or another takes its place",
        "the cluster answers again",
    ]


async def test_a_stop_does_not_wait_for_ever_to_store_positions(
    node: ScriptedNode, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """It tells that they were not stored: what was printed comes again."""
    node.script[ApiKey.FETCH] = [records(bytes(encode_batch([(0, None, b"v", ())])))]
    node.script[ApiKey.OFFSET_COMMIT] = [HANG_UP] * 100_000
    reading = Reading(TOPIC, (), Edge.EARLIEST, True, 10, False, None, IsolationLevel.READ_UNCOMMITTED)
    membership = Membership("g", Delivery.AT_LEAST_ONCE, None, None, None)
    printing = Printing(text_format(["value"], b"\t"), Tally(None, None))
    async with node.cluster(FOLLOWING) as cluster:
        following = asyncio.ensure_future(read_in_group(cluster, reading, membership, printing))
        async with asyncio.timeout(PATIENCE_S):
            while cluster.absence(2 * FOLLOWING.retry_for_s) is None:
                await asyncio.sleep(0.001)
            assert not following.done()
            following.cancel()
            with pytest.raises(ClientError):
                await following
    assert capfdbinary.readouterr().out == b"v\n"


@pytest.mark.parametrize(("away_for_s", "outcome"), [(math.inf, Undone), (None, TransactionAborted)])
async def test_a_transaction_that_is_lost_to_an_absence_is_begun_anew_by_whoever_follows(
    node: ScriptedNode, away_for_s: float | None, outcome: type[Exception]
) -> None:
    node.features = {"transaction.version": 2}
    node.script[ApiKey.FETCH] = [records(bytes(encode_batch([(0, None, b"v", ())])))]
    node.script[ApiKey.PRODUCE] = [HANG_UP] * 100_000
    settings = ProducerSettings(transactional_id="tx", delivery_timeout_s=0.05)
    async with (
        node.cluster(replace(FOLLOWING, retry_for_s=PATIENCE_S, away_for_s=away_for_s)) as cluster,
        BatchingProducer(cluster, settings) as producer,
        GroupConsumer(cluster, "g", [TOPIC]) as consumer,
    ):
        copying = Copying(cluster, producer, consumer, TOPIC, Tally(None, None))
        with pytest.raises(outcome):
            await asyncio.wait_for(copying.copy_next(10, PATIENCE_S), PATIENCE_S)
        assert producer.transaction_outcome is Outcome.NOT_COMMITTED
