"""Raft's messages as requests between nodes, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from headrace.broker.metadata.entries import batch_of, entries_of
from headrace.broker.metadata.snapshots import encode_snapshot, open_snapshot
from headrace.metadata.image.incarnations import UNKNOWN_INCARNATION, Incarnation
from headrace.model.names import NodeId, Offset
from headrace.raft.log import Term
from headrace.raft.membership import ReplicaKey
from headrace.raft.messages import (
    AppendAnswer,
    AppendEntries,
    InstallSnapshot,
    RequestVote,
    TakeOver,
    VoteAnswer,
)
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.messages.raft_append_answer import RaftAppendAnswerRequest
from headrace.wire.messages.raft_append_entries import RaftAppendEntriesRequest
from headrace.wire.messages.raft_install_snapshot import RaftInstallSnapshotRequest
from headrace.wire.messages.raft_request_vote import RaftRequestVoteRequest
from headrace.wire.messages.raft_take_over import RaftTakeOverRequest
from headrace.wire.messages.raft_vote_answer import RaftVoteAnswerRequest

if TYPE_CHECKING:
    from headrace.raft.log import Entry
    from headrace.raft.messages import Message, OutboundMessage

RaftRequest = (
    RaftRequestVoteRequest
    | RaftVoteAnswerRequest
    | RaftAppendEntriesRequest
    | RaftAppendAnswerRequest
    | RaftInstallSnapshotRequest
    | RaftTakeOverRequest
)


def to_wire(outbound: OutboundMessage, cluster_id: str, life: Incarnation = UNKNOWN_INCARNATION) -> RaftRequest:
    """`life` is the sender's: whoever knows a later one of its disk does not believe what this one says."""
    request = _request(outbound, cluster_id)
    request.life, request.incarnation = life
    return request


# size: a table, with an entry for each message
def _request(outbound: OutboundMessage, cluster_id: str) -> RaftRequest:
    message = outbound.message
    source, directory = message.source
    match message:
        case AppendEntries():
            return RaftAppendEntriesRequest(
                outbound.target,
                cluster_id,
                source,
                directory,
                message.term,
                message.previous_end,
                message.previous_term,
                message.commit_end,
                message.session,
                message.round,
                memoryview(b"".join(batch_of(entry) for entry in message.entries)),
            )
        case AppendAnswer():
            return RaftAppendAnswerRequest(
                outbound.target,
                cluster_id,
                source,
                directory,
                message.term,
                message.is_accepted,
                message.end,
                message.hint_term,
                message.asked_end,
                message.session,
                message.round,
            )
        case RequestVote():
            return RaftRequestVoteRequest(
                outbound.target,
                cluster_id,
                source,
                directory,
                message.term,
                message.last_term,
                message.end,
                message.is_pre_vote,
                message.is_transfer,
            )
        case VoteAnswer():
            return RaftVoteAnswerRequest(
                outbound.target, cluster_id, source, directory, message.term, message.is_granted, message.is_pre_vote
            )
        case InstallSnapshot():
            return RaftInstallSnapshotRequest(
                outbound.target,
                cluster_id,
                source,
                directory,
                message.term,
                message.session,
                message.round,
                encode_snapshot(message.snapshot),
            )
        case TakeOver():
            return RaftTakeOverRequest(outbound.target, cluster_id, source, directory, message.term)
        case _:
            assert_never(message)


def life_of(request: RaftRequest) -> Incarnation:
    return Incarnation(request.life, request.incarnation)


def from_wire(request: RaftRequest) -> Message:
    """Raises CorruptBatch if entries were damaged on the way. A snapshot has to be checked before: it takes long."""
    source, term = ReplicaKey(NodeId(request.source), request.directory), Term(request.term)
    match request:
        case RaftAppendEntriesRequest():
            return AppendEntries(
                source,
                term,
                Offset(request.previous_end),
                Term(request.previous_term),
                _entries(request),
                Offset(request.commit_end),
                request.session,
                request.round,
            )
        case RaftAppendAnswerRequest():
            return AppendAnswer(
                source,
                term,
                request.is_accepted,
                Offset(request.end),
                Term(request.hint_term),
                Offset(request.asked_end),
                request.session,
                request.round,
            )
        case RaftRequestVoteRequest():
            return RequestVote(
                source,
                term,
                Term(request.last_term),
                Offset(request.end),
                request.is_pre_vote,
                request.is_transfer,
            )
        case RaftVoteAnswerRequest():
            return VoteAnswer(source, term, request.is_granted, request.is_pre_vote)
        case RaftInstallSnapshotRequest():
            return InstallSnapshot(source, term, open_snapshot(request.snapshot), request.session, request.round)
        case RaftTakeOverRequest():
            return TakeOver(source, term)
        case _:
            assert_never(request)


def _entries(request: RaftAppendEntriesRequest) -> tuple[Entry, ...]:
    """Place and term of a batch stand outside of what its CRC covers. So each must follow from the one before."""
    entries = tuple(entries_of(memoryview(request.entries or b"")))
    end, term = request.previous_end, request.previous_term
    for entry in entries:
        if entry.base != end or not term <= entry.term <= request.term:
            raise CorruptBatch(
                f"an entry of term {entry.term} begins at {entry.base}; expected is {end}, "
                f"and a term from {term} to {request.term}"
            )
        end, term = entry.end, entry.term
    return entries
