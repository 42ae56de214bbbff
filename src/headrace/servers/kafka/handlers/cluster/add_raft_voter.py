"""AddRaftVoter (key 80). Refused: a node that enters the cluster becomes a voter by itself where one is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=words_of(AddRaftVoterResponse))


def handle(message: AddRaftVoterRequest, request: Request, view: MetadataView) -> AddRaftVoterResponse:
    try:
        check_cluster(message.cluster_id, view)
        if message.voter_id < 0 or not message.listeners:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a voter has a number, and listens somewhere")
    except Refusal as refusal:
        return AddRaftVoterResponse(error_code=refusal.code, error_message=refusal.message)
    return AddRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="voters are not added by hand: a node that is started with --join becomes one where needed",
    )


def check_cluster(named: str | None, view: MetadataView) -> None:
    """Raises Refusal if another cluster is meant."""
    own = view.image.cluster_id
    if named is not None and named != own:
        raise Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {own}, not {named[:80]!r}")
