"""RemoveRaftVoter (key 81). Refused: a node that is taken out of the cluster stops being a voter with that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.handlers.cluster.add_raft_voter import check_cluster
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=words_of(RemoveRaftVoterResponse))


def handle(message: RemoveRaftVoterRequest, request: Request, view: MetadataView) -> RemoveRaftVoterResponse:
    try:
        check_cluster(message.cluster_id, view)
    except Refusal as refusal:
        return RemoveRaftVoterResponse(error_code=refusal.code, error_message=refusal.message)
    return RemoveRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="voters are not removed by hand: `headrace cluster remove` takes a node out, its vote included",
    )
