"""ListGroups (key 16): the groups that this node coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.rights import Listed, Right, Rights
from headrace.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


SEE: Final = Right(Operation.DESCRIBE, ResourceType.GROUP, "group_id", or_on_cluster=Operation.DESCRIBE)
RIGHTS = Rights(listed=(Listed(("groups",), SEE),))


async def handle(message: ListGroupsRequest, request: Request, coordinators: Coordinators) -> ListGroupsResponse:
    states, types = set(message.states_filter), set(message.types_filter)
    groups: list[ListedGroup] = []
    for shard in coordinators.group_shards():
        try:
            groups += await shard.look(lambda mind: mind.list_groups(states, types))
        except Refusal as refusal:
            if shard.is_closed:
                continue  # it has moved since: another node lists what it has
            return ListGroupsResponse(error_code=refusal.code)
    return ListGroupsResponse(groups=sorted(groups, key=lambda group: group.group_id))
