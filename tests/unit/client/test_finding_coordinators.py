from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import refuse_unless_ok
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.api import ApiKey
from headrace.wire.messages.find_coordinator import Coordinator as Found
from headrace.wire.messages.find_coordinator import FindCoordinatorResponse
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.unit.client.scripted_node import HANG_UP, ScriptedNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.client.connections.cluster import Cluster

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)


@pytest.fixture
async def nodes() -> AsyncIterator[tuple[ScriptedNode, ScriptedNode]]:
    first, second = await ScriptedNode(node_id=1).start(), await ScriptedNode(node_id=2).start()
    first.nodes = second.nodes = [first, second]
    yield first, second
    await first.stop()
    await second.stop()


@pytest.fixture
async def cluster(nodes: tuple[ScriptedNode, ScriptedNode]) -> AsyncIterator[Cluster]:
    async with nodes[0].cluster(QUICK) as reached:
        yield reached


async def beat(coordinator: Coordinator) -> None:
    """Any request will do."""
    await coordinator.ask(
        HeartbeatRequest("g", 1, "m"),
        HeartbeatResponse,
        lambda answer: refuse_unless_ok(answer.error_code, "the member"),
    )


def refusal(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(0, code)


def counts(node: ScriptedNode) -> tuple[int, int]:
    return len(node.asked(ApiKey.FIND_COORDINATOR)), len(node.asked(ApiKey.HEARTBEAT))


async def test_it_is_found_once_and_remembered(nodes: tuple[ScriptedNode, ScriptedNode], cluster: Cluster) -> None:
    first, second = nodes
    first.coordinator_id = second.coordinator_id = 2
    coordinator = Coordinator(cluster, CoordinatorKind.TRANSACTION, "payments")
    for _ in range(3):
        await beat(coordinator)
    assert (counts(first), counts(second)) == ((1, 0), (0, 3))
    assert await coordinator.node_id() == 2
    (asked,) = first.asked(ApiKey.FIND_COORDINATOR)
    assert (asked.key_type, asked.coordinator_keys) == (1, ["payments"])


@pytest.mark.parametrize("sign", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_another_is_looked_for_when_it_says_no(
    nodes: tuple[ScriptedNode, ScriptedNode], cluster: Cluster, sign: ErrorCode
) -> None:
    first, second = nodes

    def moved(_: HeartbeatRequest) -> HeartbeatResponse:
        first.coordinator_id = second.coordinator_id = 2
        return refusal(sign)

    first.script[ApiKey.HEARTBEAT] = [moved]
    await beat(Coordinator(cluster, CoordinatorKind.GROUP, "g"))
    assert (counts(first)[1], counts(second)[1]) == (1, 1)


async def test_another_is_looked_for_when_it_goes_away(
    nodes: tuple[ScriptedNode, ScriptedNode], cluster: Cluster
) -> None:
    first, second = nodes
    coordinator = Coordinator(cluster, CoordinatorKind.GROUP, "g")
    await beat(coordinator)
    first.coordinator_id = second.coordinator_id = 2
    first.script[ApiKey.HEARTBEAT] = [HANG_UP]
    await beat(coordinator)
    assert counts(second)[1] == 1


async def test_one_that_loads_is_waited_for(nodes: tuple[ScriptedNode, ScriptedNode], cluster: Cluster) -> None:
    first, _ = nodes
    first.script[ApiKey.HEARTBEAT] = [refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 3
    await beat(Coordinator(cluster, CoordinatorKind.GROUP, "g"))
    assert counts(first) == (1, 4)


async def test_one_that_is_not_there_yet_is_waited_for(
    nodes: tuple[ScriptedNode, ScriptedNode], cluster: Cluster
) -> None:
    first, second = nodes
    second.coordinator_id = 1
    absent = Found("g", -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "no leader yet")
    unknown = Found("g", 9, "", 0, 0)
    first.script[ApiKey.FIND_COORDINATOR] = second.script[ApiKey.FIND_COORDINATOR] = [
        FindCoordinatorResponse(coordinators=[absent]),
        FindCoordinatorResponse(coordinators=[unknown]),
    ]
    await beat(Coordinator(cluster, CoordinatorKind.GROUP, "g"))
    assert counts(first)[0] + counts(second)[0] == 3
    assert (counts(first)[1], counts(second)[1]) == (1, 0)


async def test_a_node_that_knows_only_what_was_is_not_believed_for_ever(
    nodes: tuple[ScriptedNode, ScriptedNode], cluster: Cluster
) -> None:
    first, second = nodes
    first.coordinator_id, second.coordinator_id = 1, 2
    first.script[ApiKey.HEARTBEAT] = [refusal(ErrorCode.NOT_COORDINATOR)] * 100_000
    await beat(Coordinator(cluster, CoordinatorKind.GROUP, "g"))
    assert counts(second)[1] == 1


async def test_what_does_not_pass_is_raised_at_once(nodes: tuple[ScriptedNode, ScriptedNode], cluster: Cluster) -> None:
    first, _ = nodes
    first.script[ApiKey.HEARTBEAT] = [refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    with pytest.raises(Refusal, match="group authorization failed"):
        await beat(Coordinator(cluster, CoordinatorKind.GROUP, "g"))
    assert counts(first) == (1, 1)


async def test_patience_ends(nodes: tuple[ScriptedNode, ScriptedNode]) -> None:
    first, _ = nodes
    first.script[ApiKey.HEARTBEAT] = [refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 10_000
    impatient = ClusterSettings(retry_for_s=0.02, backoff_first_s=0.001, backoff_max_s=0.001)
    async with first.cluster(impatient) as cluster:
        with pytest.raises(Refusal, match="coordinator load in progress"):
            await beat(Coordinator(cluster, CoordinatorKind.GROUP, "g"))


async def test_a_version_that_the_node_does_not_speak_is_told(
    nodes: tuple[ScriptedNode, ScriptedNode], cluster: Cluster
) -> None:
    for node in nodes:
        node.versions[ApiKey.HEARTBEAT] = (0, 2)
    coordinator = Coordinator(cluster, CoordinatorKind.GROUP, "g")
    with pytest.raises(Refusal, match="offers versions 0 to 2 of Heartbeat; this client speaks 3 to 4"):
        await coordinator.ask(HeartbeatRequest("g"), HeartbeatResponse, lambda _: None, versions=(3, 4))
