"""Letters to another node, over a real socket: whatever it answers, the next letter reaches it."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING

import pytest

from headrace.broker.membership.dialing import NO_PROOF, Dialer
from headrace.broker.membership.peers import RAFT_LANE, Peers
from headrace.client.errors import NobodyListens
from headrace.metadata.image.incarnations import UNKNOWN_INCARNATION
from headrace.model.errors import ErrorCode
from headrace.model.names import NodeId, Offset
from headrace.raft.log import Term
from headrace.raft.membership import ReplicaKey
from headrace.raft.messages import OutboundMessage, RequestVote
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address, SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.simulation.environment.life import HostIsDown
from headrace.simulation.environment.universe import run
from headrace.wire.messages.greet import GreetRequest, GreetResponse
from headrace.wire.messages.raft_request_vote import RaftRequestVoteRequest, RaftRequestVoteResponse
from tests.ports import free_port, free_ports
from tests.unit.client.scripted_node import HANG_UP, ScriptedNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.simulation.environment.universe import Universe

ME, PEER = NodeId(2), NodeId(1)
CLUSTER_ID = "ours"
GREET = GreetRequest.API_KEY
VOTE = RaftRequestVoteRequest.API_KEY
FINE = RaftRequestVoteResponse(0)
UNHEARD_OF = 9_999  # a code that Kafka may give a meaning to some day
LETTERS_MAX = 2_000  # only a limit: a connection that was lost is opened again after a few
ENOUGH = 10
LETTERS_TO_NOBODY = 100


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode().start()
    yield running
    await running.stop()


@pytest.fixture
def failures() -> list[BaseException]:
    """What went wrong where nobody waits for it."""
    return []


@pytest.fixture
async def peers(node: ScriptedNode, failures: list[BaseException], tmp_path: Path) -> AsyncIterator[Peers]:
    world = World(SystemClock(), SystemDisk(tmp_path), SystemEntropy(), SystemNetwork(), SystemThreads())
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    running = Peers(
        Dialer(ME, world, NO_PROOF),
        UNKNOWN_INCARNATION,
        world.clock,
        lambda _: [node.address],
        lambda: CLUSTER_ID,
        lambda _, failure: failures.append(failure),
    )
    yield running
    await running.close()
    world.disk.close()


def letter(term: int) -> OutboundMessage:
    return OutboundMessage(
        PEER, RequestVote(ReplicaKey(ME, b"d" * 16), Term(term), Term(0), Offset(0), is_pre_vote=True)
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(RaftRequestVoteResponse(UNHEARD_OF), id="a code of a newer node"),
        pytest.param(b"\0\0\0\4nose", id="to a request that was never sent"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="nonsense"),
        pytest.param(HANG_UP, id="none"),
    ],
)
async def test_letters_go_on_whatever_is_answered(
    node: ScriptedNode, peers: Peers, failures: list[BaseException], answer: object
) -> None:
    node.script[VOTE] = [FINE, answer, *[FINE] * LETTERS_MAX]
    for term in range(1, LETTERS_MAX):
        peers.send(letter(term))
        await asyncio.sleep(0.01)
        if len(node.asked(VOTE)) > ENOUGH:
            break
    assert len(node.asked(VOTE)) > ENOUGH, "no letter gets there any more"
    terms = [request.term for request in node.asked(VOTE)]
    assert terms == sorted(terms)
    assert failures == []


async def test_what_hangs_up_on_everybody_is_not_stormed(
    peers: Peers, failures: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed node that cannot end, or something that is no node at all."""
    calls = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        writer.close()

    nobody = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    monkeypatch.setattr(peers, "_addresses", lambda _: [Address(*nobody.sockets[0].getsockname())])
    for term in range(1, LETTERS_TO_NOBODY):
        peers.send(letter(term))
        await asyncio.sleep(0.01)
    nobody.close()
    assert 1 < calls < LETTERS_TO_NOBODY * 2, "it is called more often than there is something to say"
    assert failures == []


async def test_what_answers_nonsense_is_no_end_of_this_node(
    peers: Peers, failures: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives an answer to the first request that says nothing: a frame with its number alone."""
    calls = 0

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        await reader.read(1)
        writer.write((4).to_bytes(4) + (1).to_bytes(4))
        await writer.drain()

    nobody = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    monkeypatch.setattr(peers, "_addresses", lambda _: [Address(*nobody.sockets[0].getsockname())])
    for term in range(1, LETTERS_TO_NOBODY):
        peers.send(letter(term))
        await asyncio.sleep(0.01)
    nobody.close()
    assert failures == []
    assert calls > 1


@pytest.fixture
async def stranger() -> AsyncIterator[ScriptedNode]:
    """It listens where the peer was."""
    running = await ScriptedNode().start()
    yield running
    await running.stop()


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param(GreetResponse(NodeId(3), CLUSTER_ID), id="another node"),
        pytest.param(GreetResponse(PEER, "another"), id="one of another cluster"),
        pytest.param(HANG_UP, id="one that hangs up"),
        pytest.param(None, id="one where nodes do not meet"),
    ],
)
async def test_a_peer_that_has_moved_is_found_in_its_next_place(
    node: ScriptedNode,
    stranger: ScriptedNode,
    peers: Peers,
    failures: list[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    greeting: object,
) -> None:
    node.script[GREET] = [GreetResponse(PEER, CLUSTER_ID)]
    node.script[VOTE] = [FINE] * LETTERS_MAX
    if greeting is None:
        stranger.versions.pop(GREET)
    stranger.script[GREET] = [greeting] * LETTERS_MAX
    places = [Address("127.0.0.1", free_port()), stranger.address, node.address]
    monkeypatch.setattr(peers, "_addresses", lambda _: places)
    await sent_until_heard(peers, node)
    assert stranger.asked(VOTE) == []
    assert peers.absent == set()
    assert failures == []


async def test_a_stranger_in_a_peers_place_is_left_when_the_peer_may_be_elsewhere(
    node: ScriptedNode, stranger: ScriptedNode, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.script[VOTE] = [FINE] * LETTERS_MAX
    stranger.script[VOTE] = [RaftRequestVoteResponse(ErrorCode.INVALID_VOTER_KEY)] * LETTERS_MAX
    monkeypatch.setattr(peers, "_addresses", lambda _: [stranger.address])
    await sent_until_heard(peers, stranger)
    monkeypatch.setattr(peers, "_addresses", lambda _: [node.address])
    await sent_until_heard(peers, node)


async def sent_until_heard(peers: Peers, node: ScriptedNode) -> None:
    for term in range(1, LETTERS_MAX):
        peers.send(letter(term))
        await asyncio.sleep(0.01)
        if len(node.asked(VOTE)) > ENOUGH:
            return
    pytest.fail("no letter gets there")


async def test_a_peer_that_is_nowhere_is_gone(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[NodeId] = []
    monkeypatch.setattr(peers, "on_gone", gone.append)
    monkeypatch.setattr(peers, "_addresses", lambda _: [Address("127.0.0.1", port) for port in free_ports(2)])
    with pytest.raises(NobodyListens):
        await peers.connection(PEER, RAFT_LANE)
    assert (gone, peers.absent) == ([PEER], {PEER})


def test_a_node_that_ends_while_it_looks_for_others_leaves_nothing_behind() -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        dialer = Dialer(ME, host.world, NO_PROOF)
        peers = Peers(dialer, UNKNOWN_INCARNATION, host.world.clock, lambda _: [], lambda: CLUSTER_ID, lambda *_: None)
        peers.absent = {NodeId(1), NodeId(3), NodeId(4)}

        async def end_and_look() -> None:
            host.crash()  # in the middle of a turn, which goes on as far as it can
            with pytest.raises(HostIsDown):
                await peers.look_for_absent()
            is_over.append(True)

        is_over: list[bool] = []
        host.start(end_and_look(), "end and look")
        await asyncio.sleep(1)
        assert is_over

    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        run(main, seed=1)
        gc.collect()
    assert not [str(it.message) for it in complaints if "never awaited" in str(it.message)]
