"""Produce requests that wait for a look at their records beside the loop: who waits with them, and what may change
meanwhile."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from headrace.broker.membership.registration import Registration
from headrace.broker.partitions.examiner import Examiner
from headrace.model.errors import ErrorCode
from headrace.model.names import Epoch, NodeId
from headrace.servers.kafka import server as server_module
from headrace.servers.kafka.handlers.records.produce import AT_ONCE
from headrace.servers.kafka.handlers.records.produced_batches import TURN_BYTES
from headrace.wire.batches.examination import LOOP_STEPS
from headrace.wire.batches.header import HEADER_SIZE, Codec, seal
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.unit.servers.living_server import SOON_S, fetch, living_server, produce, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from headrace.broker.partitions.partition import Partition
    from headrace.runtime.clock import Clock
    from headrace.runtime.threads import Threads
    from headrace.wire.batches.examination import Examined, Rejected, Unopened
    from tests.unit.servers.living_server import LivingServer

VERSION = 8
NOW_MS = 1_700_000_000_000


class HeldUpExaminer(Examiner):
    """Looks at batches as a node's own does, but not before it is told to."""

    def __init__(self, threads: Threads, clock: Clock) -> None:
        super().__init__(threads, clock)
        self.asked: list[int] = []
        """How many batches each request brought."""
        self.may_go_on = asyncio.Event()

    async def examine(self, batches: Sequence[Unopened], address: str) -> list[Examined | Rejected]:
        self.asked.append(len(batches))
        await self.may_go_on.wait()
        return await super().examine(batches, address)


@asynccontextmanager
async def held_up(directory: Path, **configs: str) -> AsyncIterator[tuple[LivingServer, HeldUpExaminer]]:
    async with living_server(directory, **configs) as living:
        parts = living.server.parts
        examiner = HeldUpExaminer(parts.world.threads, parts.world.clock)
        living.server.parts = parts._replace(produce=parts.produce._replace(examiner=examiner))
        await living.create_topic("t", 4)
        yield living, examiner
        examiner.may_go_on.set()


def packed(size: int = 20_000, *, key: bytes | None = None) -> bytes:
    """More than the loop unpacks."""
    noise = random.Random(1).randbytes(size)
    return bytes(encode_batch([(NOW_MS, key, noise, ())], codec=Codec.LZ4))


def request(*batches: bytes, acks: int = 1) -> ProduceRequest:
    parts = [PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
    return ProduceRequest(None, acks, 10_000, [TopicProduceData("t", partition_data=parts)])


def outcomes(answer: ProduceResponse) -> list[tuple[int, int]]:
    return [(part.error_code, part.base_offset) for part in answer.responses[0].partition_responses]


def partition(living: LivingServer) -> Partition:
    return living.node.topics.partition("t", 0)


async def lose_all(living: LivingServer) -> None:
    """A node does not notice by itself that a client is gone whose request waits: it does not read then. But it may
    have to cut the connection, for instance to make room for another."""
    for connection in living.server.connections.seats():
        connection.refuse("this is a test")
    await until(lambda: len(living.server.connections) == 0)


async def test_whoever_waits_for_a_look_is_not_idle(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        answer = asyncio.create_task(client.ask(request(packed()), VERSION))
        await until(lambda: bool(examiner.asked))
        (connection,) = living.server.connections.seats()
        connection.close_if_idle()
        examiner.may_go_on.set()
        assert outcomes(await answer) == [(0, 0)]


async def test_its_connection_waits_and_others_do_not(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        waiting, other = await living.connect(), await living.connect()
        first = asyncio.create_task(waiting.ask(request(packed()), VERSION))
        await until(lambda: bool(examiner.asked))
        assert outcomes(await other.ask(produce("t"), VERSION)) == [(0, 0)]
        waiting.begin(produce("t"), VERSION)
        assert outcomes(await other.ask(produce("t"), VERSION)) == [(0, 1)]
        assert not first.done()
        examiner.may_go_on.set()
        assert outcomes(await first) == [(0, 2)]
        assert await waiting.frame() is not None
        assert partition(living).log.next_offset == 4


async def test_the_records_that_come_back_are_those_that_were_sent(tmp_path: Path) -> None:
    """They lie in the receive buffer while they wait, beside the beginning of the next request."""
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        for size in (20_000, 300_000, 900_000):
            client.begin(request(packed(size)), VERSION)
        await until(lambda: bool(examiner.asked))
        examiner.may_go_on.set()
        for _ in range(3):
            assert await client.frame() is not None
        for offset, size in enumerate((20_000, 300_000, 900_000)):
            answer = await client.ask(fetch("t", offset), 11)
            assert bytes(answer.responses[0].partitions[0].records)[HEADER_SIZE:].startswith(packed(size)[HEADER_SIZE:])


async def test_settings_that_change_meanwhile_count(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        first = asyncio.create_task(client.ask(request(packed(key=None)), VERSION))
        await until(lambda: bool(examiner.asked))
        partition(living).configure(replace(partition(living).settings, cleanup_policy=("compact",)))
        examiner.may_go_on.set()
        assert outcomes(await first) == [(ErrorCode.INVALID_RECORD, -1)]
        assert examiner.asked == [1, 1]


async def test_a_leadership_that_ends_meanwhile_is_over(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        first = asyncio.create_task(client.ask(request(packed()), VERSION))
        await until(lambda: bool(examiner.asked))
        there = partition(living)
        there.follow(Epoch(there.replica.leader_epoch + 1), NodeId(7), (NodeId(1), NodeId(7)))
        examiner.may_go_on.set()
        assert outcomes(await first) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
        assert there.log.next_offset == 0


async def unheard(_: Registration) -> bool:
    return True


async def test_a_lease_that_ends_meanwhile_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not a timer has said so."""
    monkeypatch.setattr(Registration, "_is_alone", False)
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        first = asyncio.create_task(client.ask(request(packed()), VERSION))
        await until(lambda: bool(examiner.asked))
        monkeypatch.setattr(Registration, "_beat", unheard)
        living.node.registration._lease_end_s = 0.0
        examiner.may_go_on.set()
        assert outcomes(await first) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
        assert partition(living).log.next_offset == 0


async def test_the_batches_of_a_request_share_the_loops_allowance(tmp_path: Path) -> None:
    count = LOOP_STEPS * 2 // 5
    many = bytes(encode_batch([(NOW_MS, None, None, ())] * count))
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        assert outcomes(await client.ask(request(many, many), VERSION)) == [(0, 0), (0, 0)]
        assert examiner.asked == []
        writes: list[int] = []
        commit, there = living.node.stage.commit, living.node.topics

        def noting() -> None:
            commit()
            writes.append(sum(there.partition("t", index).log.next_offset for index in range(4)))

        living.node.stage.commit = noting  # type: ignore[method-assign]  # only here it is noted
        answer = await client.ask(request(many, many, many, many), VERSION)
        assert outcomes(answer) == [(0, count), (0, count), (0, 0), (0, 0)]
        assert count * 4 in writes, "what is too much for one turn of the loop is for the next"
        assert examiner.asked == []


async def test_a_batch_that_was_written_shares_the_fate_of_its_leader_while_others_of_its_request_wait(
    tmp_path: Path,
) -> None:
    """Whoever leads afterwards may have a high watermark that covers its offset, and something else there."""
    async with held_up(tmp_path) as (living, examiner):
        there = partition(living)
        both = (NodeId(1), NodeId(7))
        there.lead(Epoch(there.replica.leader_epoch + 1), both, both)
        client = await living.connect()
        quick = bytes(encode_batch([(NOW_MS, None, b"v", ())]))
        answer = asyncio.create_task(client.ask(request(quick, packed(), acks=-1), VERSION))
        await until(lambda: bool(examiner.asked) and there.log.next_offset == 1)
        there.follow(Epoch(there.replica.leader_epoch + 1), NodeId(7), both)
        examiner.may_go_on.set()
        assert outcomes(await answer) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (0, 0)]


async def test_a_refused_batch_does_not_take_its_neighbours_along(tmp_path: Path) -> None:
    bad = bytearray(packed())
    bad[70:80] = bytes(10)
    seal(bad)
    async with held_up(tmp_path) as (living, examiner):
        examiner.may_go_on.set()
        client = await living.connect()
        answer = outcomes(await client.ask(request(packed(), bytes(bad), packed()), VERSION))
        assert answer == [(0, 0), (ErrorCode.CORRUPT_MESSAGE, -1), (0, 0)]


async def test_memory_of_a_waiting_request_is_not_given_back(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        first = asyncio.create_task(client.ask(request(packed(500_000)), VERSION))
        await until(lambda: bool(examiner.asked))
        held = living.server.requests.used
        assert held > 500_000
        for connection in living.server.connections.seats():
            connection.give_back_idle()
            connection.shrink()
        assert living.server.requests.used == held
        examiner.may_go_on.set()
        assert outcomes(await first) == [(0, 0)]


async def test_a_client_that_leaves_while_it_waits_disturbs_nobody(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        leaving, other = await living.connect(), await living.connect()
        leaving.begin(request(packed()), VERSION)
        await until(lambda: bool(examiner.asked))
        leaving.vanish()
        assert outcomes(await other.ask(produce("t"), VERSION)) == [(0, 0)]
        examiner.may_go_on.set()
        assert outcomes(await other.ask(request(packed()), VERSION))[0][0] == 0
        assert not living.node.failed.done()


async def test_what_a_client_left_behind_is_done_and_counts_as_memory_until_then(tmp_path: Path) -> None:
    """A producer that wants no answer may leave as soon as it has sent everything."""
    async with held_up(tmp_path) as (living, examiner):
        leaving = await living.connect()
        leaving.begin(request(packed(500_000), acks=0), VERSION)
        await until(lambda: bool(examiner.asked))
        await lose_all(living)
        assert living.server.requests.used > 500_000
        examiner.may_go_on.set()
        await until(lambda: partition(living).log.next_offset == 1)
        await until(lambda: living.server.requests.used == 0)


async def test_the_next_request_of_a_connection_waits_like_the_first(tmp_path: Path) -> None:
    """It may begin to wait before everybody has heard that the first has ended."""
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        for _ in range(2):
            client.begin(request(packed(5_000)), VERSION)
        await until(lambda: len(examiner.asked) == 1)
        examiner.may_go_on.set()
        examiner.may_go_on.clear()  # who waits now goes on; who comes waits
        await until(lambda: len(examiner.asked) == 2)
        await asyncio.sleep(0.01)
        await lose_all(living)
        assert len(living.server._left_behind) == 1
        examiner.may_go_on.set()
        await until(lambda: not living.server._left_behind)
        assert partition(living).log.next_offset == 2


async def test_what_too_many_clients_left_behind_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "LEFT_BEHIND_MAX", 1)
    async with held_up(tmp_path) as (living, examiner):
        for asked in (1, 2, 3):
            leaving = await living.connect()
            leaving.begin(request(packed(500_000)), VERSION)
            await until(lambda asked=asked: len(examiner.asked) == asked)  # type: ignore[misc]  # mypy infers no types of defaults
            await lose_all(living)
        assert 500_000 < living.server.requests.used < 1_000_000
        examiner.may_go_on.set()
        await until(lambda: living.server.requests.used == 0)
        assert partition(living).log.next_offset == 1
        assert not living.server._left_behind
        other = await living.connect()
        assert outcomes(await other.ask(request(packed()), VERSION))[0][0] == 0


async def test_a_server_that_stops_answers_a_request_that_waits(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        first = asyncio.create_task(client.ask(request(packed()), VERSION))
        await until(lambda: bool(examiner.asked))
        stopping = asyncio.create_task(living.server.stop())
        await until(lambda: all(connection._is_leaving for connection in living.server.connections.seats()))
        examiner.may_go_on.set()
        assert outcomes(await first) == [(0, 0)]
        await stopping


async def test_a_server_that_stops_does_not_wait_for_a_look_that_never_ends(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        client = await living.connect()
        client.begin(request(packed()), VERSION)
        await until(lambda: bool(examiner.asked))
        async with asyncio.timeout(20):
            await living.server.stop()
        assert partition(living).log.next_offset == 0


# ---- very many batches


def crowd(count: int, *, acks: int = 1, partitions: int = 4, batch: bytes | None = None) -> ProduceRequest:
    one = bytes(encode_batch([(NOW_MS, None, b"v", ())])) if batch is None else batch
    parts = [PartitionProduceData(index % partitions, one) for index in range(count)]
    return ProduceRequest(None, acks, 10_000, [TopicProduceData("t", partition_data=parts)])


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_crowd_of_batches_is_written_in_order(tmp_path: Path, acks: int) -> None:
    async with held_up(tmp_path) as (living, _):
        client = await living.connect()
        answer = outcomes(await client.ask(crowd(1000, acks=acks), VERSION))
        assert answer == [(0, number // 4) for number in range(1000)]


async def test_others_are_served_between_the_batches_of_a_crowd(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, _):
        many, other = await living.connect(), await living.connect()
        first = asyncio.create_task(many.ask(crowd(5000), VERSION))
        await until(lambda: partition(living).log.next_offset > 0)
        answer = outcomes(await other.ask(produce("t"), VERSION))
        assert 0 < answer[0][1] < 1250, "it came before, or had to wait until the end"
        assert len(outcomes(await first)) == 5000


async def test_only_a_few_crowds_are_let_in_at_a_time(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        clients = [await living.connect() for _ in range(5)]
        waiting = [asyncio.create_task(client.ask(crowd(100, batch=packed()), VERSION)) for client in clients]
        await until(lambda: len(living.server.crowds_beginning) == 3, SOON_S)
        assert len(examiner.asked) <= 2
        examiner.may_go_on.set()
        for answer in await asyncio.gather(*waiting):
            assert {code for code, _ in outcomes(answer)} == {0}


async def test_a_crowd_without_an_answer_lets_its_client_go_on(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, _):
        client = await living.connect()
        for _ in range(5):
            client.begin(crowd(100, acks=0), VERSION)
        assert outcomes(await client.ask(produce("t"), VERSION)) == [(0, 125)]


async def test_a_crowd_that_is_malformed_costs_its_connection(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, _):
        client = await living.connect()
        client.begin(crowd(30_000), VERSION)
        assert await client.frame() is None
        other = await living.connect()
        assert outcomes(await other.ask(produce("t"), VERSION)) == [(0, 0)]
        assert not living.node.failed.done()


async def test_the_place_of_a_crowd_whose_client_has_gone_is_free_again(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, examiner):
        for _ in range(4):
            leaving = await living.connect()
            leaving.begin(crowd(100, acks=-1, batch=packed()), VERSION)
        await until(lambda: len(living.server.crowds_beginning) == 2, SOON_S)
        await lose_all(living)
        examiner.may_go_on.set()
        client = await living.connect()
        assert {code for code, _ in outcomes(await client.ask(crowd(100), VERSION))} == {0}


async def test_a_crowd_that_asks_for_impossible_acks_is_refused_in_every_place(tmp_path: Path) -> None:
    async with held_up(tmp_path) as (living, _):
        client = await living.connect()
        answer = outcomes(await client.ask(crowd(100, acks=5), VERSION))
        assert answer == [(ErrorCode.INVALID_REQUIRED_ACKS, -1)] * 100


async def test_no_more_bytes_are_written_in_a_turn_than_it_has_time_for(tmp_path: Path) -> None:
    large = bytes(encode_batch([(NOW_MS, None, bytes(1_000_000), ())]))
    async with held_up(tmp_path) as (living, _):
        writes: list[int] = []
        commit, log = living.node.stage.commit, partition(living).log

        def noting() -> None:
            commit()
            writes.append(log.next_offset)

        living.node.stage.commit = noting  # type: ignore[method-assign]  # only here it is noted
        client = await living.connect()
        answer = outcomes(await client.ask(crowd(12, partitions=1, batch=large), VERSION))
        assert answer == [(0, offset) for offset in range(12)]
        grown = [after - before for before, after in pairwise([0, *writes])]
        assert max(grown) * len(large) <= TURN_BYTES + len(large)


async def test_as_many_topics_as_batches_are_no_crowd(tmp_path: Path) -> None:
    one = bytes(encode_batch([(NOW_MS, None, b"v", ())]))
    async with held_up(tmp_path) as (living, _):
        for number in range(AT_ONCE):
            await living.create_topic(f"t{number}")
        topics = [
            TopicProduceData(f"t{number}", partition_data=[PartitionProduceData(0, one)]) for number in range(AT_ONCE)
        ]
        async with living.server.crowds_beginning.turn("a"), living.server.crowds_beginning.turn("b"):
            client = await living.connect()
            answer = await client.ask(ProduceRequest(None, 1, 10_000, topics), VERSION)
        assert [topic.partition_responses[0].error_code for topic in answer.responses] == [0] * AT_ONCE


async def test_a_transaction_is_asked_about_for_every_batch_that_is_let_in(tmp_path: Path) -> None:
    """Compressed batches are more work than one turn of the loop allows: the request is begun in several."""
    async with living_server(tmp_path, transaction_state_log_num_partitions="1") as living:
        await living.create_topic("t", 30)
        client = await living.connect()
        await client.ask(FindCoordinatorRequest("tx", 1), 3)
        while (producer := await client.ask(InitProducerIdRequest("tx", 60_000), 4)).error_code:
            await asyncio.sleep(0.01)
        batch = bytes(
            encode_batch(
                [(NOW_MS, b"k", b"v", ())] * 20,
                codec=Codec.LZ4,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=0,
                is_transactional=True,
            )
        )
        asked = request(*[batch] * 30, acks=-1)
        asked.transactional_id = "tx"
        assert outcomes(await client.ask(asked, 12)) == [(0, 0)] * 30
