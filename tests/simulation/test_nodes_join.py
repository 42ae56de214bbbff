"""Nodes that ask to be let into a cluster, and disks that are lost: what becomes of them, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import pytest

from headrace.broker.membership.identity import IDENTITY_FILE, WrongIdentity
from headrace.broker.membership.local_node import NODES
from headrace.broker.metadata.store import FLUSH_LANE
from headrace.broker.node import TRY_AGAIN_S
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from headrace.runtime.network import Address
from headrace.simulation import cluster as simulated_cluster
from headrace.simulation.cluster import NodeProcess, SimulatedCluster
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

FOUR = NodeId(4)
LIMIT_S = 100.0


def played(story: Callable[[SimulatedCluster], Coroutine[object, object, T]], node_count: int = 3, seed: int = 1) -> T:
    async def play(universe: Universe) -> T:
        cluster = await ready_cluster(universe, node_count=node_count)
        return await story(cluster)

    return run(play, seed=seed, limit_s=LIMIT_S)


async def until(is_so: Callable[[], bool]) -> None:
    """The run's own limit of time ends a wait that is in vain."""
    while not is_so():
        await asyncio.sleep(0.1)


async def exit_of(process: NodeProcess) -> BaseException | None:
    await until(lambda: bool(process.exits))
    return process.exits[-1][1]


def leading(cluster: SimulatedCluster) -> NodeProcess | None:
    return next((it for it in cluster.nodes if it.node is not None and it.is_serving and it.node.is_controller), None)


def voters(cluster: SimulatedCluster) -> list[tuple[int, bytes | None]]:
    process = leading(cluster)
    if process is None or process.node is None:
        return []
    return [(voter.node_id, voter.directory) for voter in process.node.quorum.raft.membership.voters]


def test_a_guest_learns_serves_and_needs_no_second_invitation() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        guest = cluster.join(FOUR)
        await until(lambda: guest.is_serving)
        assert guest.node is not None
        assert guest.node.quorum.raft.membership.learners == (FOUR,)
        assert [voter for voter, _ in voters(cluster)] == [1, 2, 3]  # three are enough
        guest.host.crash()
        guest.join = ()
        guest.launch()
        await until(lambda: guest.is_serving)

    played(story)


def test_a_guest_that_has_moved_is_let_in_again_without_an_invitation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would find it where it was, and all that it knows of the others is in its log."""

    async def story(cluster: SimulatedCluster) -> None:
        guest = cluster.join(FOUR)
        await until(lambda: guest.is_serving)
        guest.host.crash()
        guest.join = ()
        monkeypatch.setattr(simulated_cluster, "CLUSTER_PORT", simulated_cluster.CLUSTER_PORT + 1)
        guest.launch()
        await until(lambda: guest.is_serving)
        assert guest.node is not None
        known = guest.node.image.nodes[FOUR].endpoint(NODES)
        assert known is not None
        assert known.port == simulated_cluster.CLUSTER_PORT

    played(story)


def test_voters_may_move_one_after_the_other_each_told_of_its_own_new_place_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the last one was told of the others is no longer true; where they are now is in its log."""
    old_port = simulated_cluster.CLUSTER_PORT
    new_port = old_port + 1

    async def story(cluster: SimulatedCluster) -> list[int]:
        monkeypatch.setattr(simulated_cluster, "CLUSTER_PORT", new_port)
        for process in cluster.nodes:
            process.ask_to_stop()
            await process.host.is_down.wait()
            process._voters = {
                it.node_id: Address(it.host.name, new_port if it is process else old_port) for it in cluster.nodes
            }
            process.launch()
            await cluster.wait_ready()
        assert process.node is not None
        endpoints = [node.endpoint(NODES) for node in process.node.image.nodes.values()]
        return [endpoint.port for endpoint in endpoints if endpoint is not None]

    assert played(story) == [new_port] * 3


def test_an_old_disk_under_a_running_id_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    """It has a log, so it waits for its leader, who counts on the other one."""

    async def story(cluster: SimulatedCluster) -> None:
        process = cluster.nodes[2]
        process.host.crash()
        old_device = process.host.device
        process.host.replace_disk()
        process.launch()
        await until(lambda: process.is_serving)
        ghost = NodeProcess(cluster.universe, FOUR, {}, {}, [Address("node-1", 9093)])
        ghost.node_id = process.node_id
        ghost.host.crash()  # it was up with a disk of its own
        ghost.host.device = old_device
        ghost.launch()
        await asyncio.sleep(15)
        assert not ghost.is_serving

    played(story)
    assert "this node has asked to be let in: node 3 is running, with another data directory" in caplog.text


def test_an_id_that_a_living_node_has_is_refused() -> None:
    async def story(cluster: SimulatedCluster) -> BaseException | None:
        imposter = NodeProcess(cluster.universe, FOUR, {}, {}, [Address("node-1", 9093)])
        imposter.node_id = NodeId(2)
        imposter.launch()
        return await exit_of(imposter)

    refusal = played(story)
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert "node 2 is running" in refusal.message


def test_nobody_there_is_said_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def play(universe: Universe) -> BaseException | None:
        lonely = NodeProcess(universe, FOUR, {}, {}, [Address("nobody", 9093)])
        lonely.launch()
        return await exit_of(lonely)

    refusal = run(play, seed=1, limit_s=LIMIT_S)
    assert isinstance(refusal, Refusal)
    assert "no node of the cluster can be reached" in refusal.message
    assert "not let in yet" in caplog.text, "until it gives up it says what it waits for"


def test_two_guests_do_not_let_each_other_in() -> None:
    async def play(universe: Universe) -> BaseException | None:
        guests = [
            NodeProcess(universe, FOUR, {}, {}, [Address("node-5", 9093)]),
            NodeProcess(universe, NodeId(5), {}, {}, [Address("node-4", 9093)]),
        ]
        guests[0].launch()
        await asyncio.sleep(1.0)  # the second is to be there for longer
        guests[1].launch()
        return await exit_of(guests[0])

    refusal = run(play, seed=1, limit_s=LIMIT_S)
    assert isinstance(refusal, Refusal)
    assert "as far as node 5 knows: it was not let into a cluster yet" in refusal.message


def test_the_clients_door_is_not_the_nodes_door() -> None:
    async def story(cluster: SimulatedCluster) -> BaseException | None:
        lost = NodeProcess(cluster.universe, FOUR, {}, {}, [cluster.nodes[0].address])
        lost.launch()
        return await exit_of(lost)

    refusal = played(story)
    assert isinstance(refusal, Refusal)
    assert "is not where nodes meet" in refusal.message


def test_a_cluster_of_its_own_joins_no_other() -> None:
    async def story(cluster: SimulatedCluster) -> BaseException | None:
        hermit = NodeProcess(cluster.universe, FOUR, {}, {})
        hermit.launch()
        await until(lambda: hermit.is_serving)
        hermit.host.crash()
        return await exit_of(cluster.join(FOUR))

    refusal = played(story)
    assert isinstance(refusal, WrongIdentity)
    assert "a cluster of its own" in str(refusal)


def test_a_cluster_of_its_own_is_no_voter_of_another() -> None:
    async def story(cluster: SimulatedCluster) -> BaseException | None:
        hermit = NodeProcess(cluster.universe, FOUR, {}, {})
        hermit.launch()
        await until(lambda: hermit.is_serving)
        hermit.host.crash()
        hermit = NodeProcess(
            cluster.universe, FOUR, {}, {FOUR: Address("node-4", 9093), NodeId(1): Address("node-1", 9093)}
        )
        hermit.launch()
        return await exit_of(hermit)

    refusal = played(story)
    assert isinstance(refusal, WrongIdentity)
    assert "a cluster of its own" in str(refusal)


def test_a_directory_of_another_cluster_is_refused() -> None:
    async def story(cluster: SimulatedCluster) -> BaseException | None:
        guest = cluster.join(FOUR)
        await until(lambda: guest.is_serving)
        for process in (guest, *cluster.nodes):
            process.host.crash()
        for process in cluster.nodes:
            process.host.replace_disk()
            process.launch()
        await cluster.wait_ready()
        return await exit_of(cluster.join(FOUR))

    refusal = played(story)
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.INCONSISTENT_CLUSTER_ID


def lose_disk(process: NodeProcess, *, keeps_name: bool = False) -> None:
    """All of it, or all but the file that says whose it is."""
    name = process.host.world.disk.read_file(IDENTITY_FILE)
    process.host.power_cut()
    process.host.replace_disk()
    if keeps_name:
        process.host.restart().disk.write_file(IDENTITY_FILE, name)
        process.host.crash()


@pytest.mark.parametrize(("lost", "keeps_name"), [(1, False), (2, False), (3, False), (2, True)])
def test_a_voter_with_an_empty_disk_votes_again_once_it_has_everything(lost: int, keeps_name: bool) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await until(lambda: all(directory for _, directory in voters(cluster)) and len(voters(cluster)) == 3)
        before = dict(voters(cluster))
        process = cluster.nodes[lost - 1]
        lose_disk(process, keeps_name=keeps_name)
        process.launch()
        await until(lambda: sorted(dict(voters(cluster))) == [1, 2, 3] and dict(voters(cluster)) != before)
        after = dict(voters(cluster))
        assert [node_id for node_id in after if after[node_id] != before[node_id]] == [lost]

    played(story)


@pytest.mark.parametrize("seed", range(1, 5))  # chance says what a power cut leaves of that which was not flushed
def test_a_lone_node_that_had_almost_let_another_in_is_still_alone(seed: int) -> None:
    """What its directory remembers must not be ahead of its log: then nobody would be left who votes."""

    async def story(cluster: SimulatedCluster) -> None:
        (hermit,) = cluster.nodes
        assert hermit.node is not None
        quorum = hermit.node.quorum
        hermit.host.threads.slowness[FLUSH_LANE] = 1e6
        hermit.host.start(quorum.change_membership(quorum.raft.membership.with_learner(FOUR)), "let another in")
        await until(lambda: quorum.has_company)
        await asyncio.sleep(2 * TRY_AGAIN_S)  # in which it notes whether it has company
        assert not quorum.raft.log.is_membership_committed, "else this tells nothing"
        hermit.host.power_cut()
        hermit.launch()
        await until(lambda: hermit.is_serving)

    played(story, node_count=1, seed=seed)


def test_founders_are_told_of_the_same_voters() -> None:
    async def play(universe: Universe) -> list[BaseException | None]:
        places = {NodeId(it): Address(f"node-{it}", 9093) for it in (1, 2, 3)}
        two = {node_id: places[node_id] for node_id in (NodeId(1), NodeId(2))}
        processes = [NodeProcess(universe, NodeId(1), {}, two), NodeProcess(universe, NodeId(2), {}, places)]
        for process in processes:
            process.launch()
        await until(lambda: any(process.exits for process in processes))
        return [process.exits[-1][1] for process in processes if process.exits]

    refusals = run(play, seed=1, limit_s=LIMIT_S)
    assert all("the same --voters" in str(refusal) for refusal in refusals)


def test_founders_wait_for_all_of_them() -> None:
    async def play(universe: Universe) -> None:
        cluster = SimulatedCluster(universe, node_count=3)
        for process in cluster.nodes[:2]:
            process.launch()
        await asyncio.sleep(15)
        assert not any(process.is_serving for process in cluster.nodes)
        cluster.nodes[2].launch()
        await cluster.wait_ready()

    run(play, seed=1, limit_s=LIMIT_S)


@pytest.mark.parametrize("seed", range(10, 16))
def test_nobody_serves_before_it_is_written_down_which_disk_it_votes_with(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        for process in cluster.nodes:
            assert process.present is not None
            log = process.present.quorum.raft.log
            assert None not in {voter.directory for voter in log.membership_at(log.commit_end).voters}

    played(story, seed=seed)


def test_a_majority_of_emptied_disks_founds_nothing_over_a_living_node() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        survivor = cluster.nodes[0]
        for process in cluster.nodes:
            process.host.power_cut()
        for process in cluster.nodes[1:]:
            process.host.replace_disk()
            process.launch()
        await asyncio.sleep(15)
        survivor.launch()
        await asyncio.sleep(15)
        assert not any(process.is_serving for process in cluster.nodes)
        assert survivor.present is not None
        assert survivor.present.quorum.has_log

    played(story)


def test_a_node_that_leaves_looks_again_for_those_that_were_away() -> None:
    """Three of five were restarted one by one. One that had seen them go, and had no word with them since, must not
    take them for gone when it leaves: it would go without a word itself."""

    async def story(cluster: SimulatedCluster) -> None:
        leaver = leading(cluster)
        assert leaver is not None
        assert leaver.node is not None
        heir, *others = (process for process in cluster.nodes if process is not leaver)
        leaver.node.quorum.hand_over(heir.node_id)
        await until(lambda: leading(cluster) is heir)
        for process in others:
            await restart(process, heir)
        assert leaver.node.peers.absent == {process.node_id for process in others}, "else this tells nothing"
        await leaver.node.leave()
        assert not may_serve(heir, leaver)

    played(story, node_count=5)


async def restart(process: NodeProcess, controller: NodeProcess) -> None:
    process.host.crash()
    await until(lambda: not may_serve(controller, process))
    process.launch()
    await until(lambda: process.is_serving)


def may_serve(controller: NodeProcess, other: NodeProcess) -> bool:
    assert controller.node is not None
    return not controller.node.image.nodes[other.node_id].is_fenced
