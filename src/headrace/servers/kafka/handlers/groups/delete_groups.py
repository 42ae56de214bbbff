"""DeleteGroups (key 42): forget groups that have no members, with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


def _refused(group_id: str, refusal: Refusal) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, refusal.code)


RIGHTS = Rights(each=(Each("groups_names", "results", _refused, Right(Operation.DELETE, ResourceType.GROUP)),))


async def handle(message: DeleteGroupsRequest, request: Request, coordinators: Coordinators) -> DeleteGroupsResponse:
    wanted = dict.fromkeys(message.groups_names)  # as Kafka does; the second time it would be unknown
    return DeleteGroupsResponse(results=[await _delete(group_id, coordinators) for group_id in wanted])


async def _delete(group_id: str, coordinators: Coordinators) -> DeletableGroupResult:
    try:
        shard = coordinators.groups_of(group_id)
        results: list[DeletableGroupResult] = await shard.ask(
            lambda mind, token, now: mind.delete_groups([group_id], token, now)
        )
    except Refusal as refusal:
        return DeletableGroupResult(group_id, refusal.code)
    return results[0]
