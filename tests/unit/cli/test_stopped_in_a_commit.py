"""Exactly once, stopped while it commits: a command claims only what it knows."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from headrace.cli.messages.copying import Copying
from headrace.cli.messages.partition_reading import Tally
from headrace.client.groups.group_consumer import GroupConsumer
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.model.errors import ErrorCode
from headrace.wire.api import ApiKey
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.end_txn import EndTxnResponse
from tests.unit.client.scripted_node import HANG_UP, SILENCE, TOPIC, ScriptedNode, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PRODUCE = (sys.executable, "-m", "headrace", "produce", "--topic", TOPIC, "--delivery", "exactly-once")


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = ScriptedNode()
    running.features = {"transaction.version": 2}
    await running.start()
    yield running
    await running.stop()


async def start_producing(node: ScriptedNode) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *PRODUCE,
        "--bootstrap-server",
        str(node.address),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(producing: asyncio.subprocess.Process, stdin: bytes | None = None) -> tuple[int | None, str]:
    _, said = await producing.communicate(stdin)
    return producing.returncode, said.decode()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_that_comes_too_late_is_no_failure(node: ScriptedNode, stop: signal.Signals) -> None:
    """Whoever saw one would run it again, and have everything twice."""
    producing = await start_producing(node)

    def stop_and_hang_up(_: object) -> object:
        os.kill(producing.pid, stop)
        return HANG_UP

    node.script[ApiKey.END_TXN] = [stop_and_hang_up]
    code, said = await ended(producing, b"a\nb\n")
    assert (code, said.startswith("sent 2 messages")) == (0, True), said
    assert [request.committed for request in node.asked(ApiKey.END_TXN)] == [True, True]


async def test_a_commit_that_is_refused_to_whoever_was_stopped_is_told_as_an_abort(node: ScriptedNode) -> None:
    producing = await start_producing(node)

    def stop_and_refuse(_: object) -> object:
        os.kill(producing.pid, signal.SIGTERM)
        return EndTxnResponse(0, ErrorCode.INVALID_TXN_STATE)

    node.script[ApiKey.END_TXN] = [stop_and_refuse]
    code, said = await ended(producing, b"a\n")
    assert code == 1
    assert "aborted: readers of committed messages will see none of the input" in said


async def test_whoever_is_stopped_twice_says_that_the_outcome_is_not_known(node: ScriptedNode) -> None:
    producing = await start_producing(node)
    node.script[ApiKey.END_TXN] = [SILENCE]
    ending = asyncio.create_task(ended(producing, b"a\n"))
    while not node.asked(ApiKey.END_TXN):
        await asyncio.sleep(0.01)
    while not ending.done():
        with suppress(ProcessLookupError):
            os.kill(producing.pid, signal.SIGTERM)
        await asyncio.sleep(0.2)  # signals that come together are one
    code, said = await ending
    assert code != 0
    assert said.startswith("unknown: the input may have been committed")


async def test_a_stop_before_the_end_of_input_aborts(node: ScriptedNode) -> None:
    producing = await start_producing(node)
    assert producing.stdin is not None
    producing.stdin.write(b"a\n")
    while not node.logs[0]:
        await asyncio.sleep(0.01)
    os.kill(producing.pid, signal.SIGTERM)
    code, said = await ended(producing)
    assert (code, said.startswith("aborted: ")) == (143, True), said
    assert [request.committed for request in node.asked(ApiKey.END_TXN)] == [False]


@pytest.mark.parametrize(("stop", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_stop_that_comes_together_with_the_end_of_input_aborts(
    node: ScriptedNode, stop: signal.Signals, exit_code: int
) -> None:
    producing = await start_producing(node)
    assert producing.stdin is not None
    producing.stdin.write(b"a\n")
    while not node.logs[0]:
        await asyncio.sleep(0.01)
    os.kill(producing.pid, signal.SIGSTOP)  # when it goes on, it finds both
    os.kill(producing.pid, stop)
    producing.stdin.close()
    await producing.stdin.wait_closed()
    os.kill(producing.pid, signal.SIGCONT)
    code, said = await ended(producing)
    assert (code, said.startswith("aborted: ")) == (exit_code, True), said
    assert [request.committed for request in node.asked(ApiKey.END_TXN)] == [False]


# Copying: a stop waits for the whole step, a second one for the commit alone, a third for nothing.


@pytest.mark.parametrize(
    ("is_answered", "count", "words"),
    [(True, 2, ""), (False, 0, "whether the last 2 messages were copied is not known")],
    ids=["the second stop", "the third stop"],
)
async def test_a_copier_that_is_stopped_in_a_hurry_counts_what_it_knows(
    node: ScriptedNode, capsys: pytest.CaptureFixture[str], is_answered: bool, count: int, words: str
) -> None:
    tally = Tally(None, None)
    node.script[ApiKey.FETCH] = [records(bytes(encode_batch([(0, None, b"v", ())] * 2)))]

    async def stop() -> None:
        copying.cancel()
        await asyncio.sleep(0)

    async with (
        node.cluster() as cluster,
        BatchingProducer(cluster, ProducerSettings(transactional_id="tx")) as producer,
        GroupConsumer(cluster, "g", [TOPIC]) as consumer,
    ):
        step = Copying(cluster, producer, consumer, TOPIC, tally).copy_next(10, 30.0)
        node.script[ApiKey.END_TXN] = [SILENCE]
        copying = asyncio.create_task(step)
        while not node.asked(ApiKey.END_TXN):
            await asyncio.sleep(0.001)
        await stop()
        await stop()
        if is_answered:
            for link in node.links:
                link.abort()  # the next attempt is answered
        else:
            await stop()
        with pytest.raises(asyncio.CancelledError):
            await copying
    assert tally.count == count
    assert words in capsys.readouterr().err
