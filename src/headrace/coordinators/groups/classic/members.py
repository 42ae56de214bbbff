"""The members of a classic group: what each of them offers, has and waits for, and what they have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.group_records import MemberMetadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.coordinators.effects import Caller, Token
    from headrace.wire.messages.join_group import JoinGroupRequest


@dataclass(slots=True, eq=False)
class Member:
    """One member. From `joining` on everything is soft: a reload begins without it."""

    member_id: str
    instance_id: str | None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    protocols: dict[str, bytes] = field(default_factory=dict)
    """What it offers, most wanted first, each with its metadata. A reload knows only the one that was chosen."""

    subscription: bytes | None = None
    """Its metadata under the protocol of the generation; None if it has yet to be in one."""
    assignment: bytes = b""

    joining: Token | None = None
    """Whoever waits for the answer to its JoinGroup."""
    syncing: Token | None = None
    """Whoever waits for the answer to its SyncGroup."""
    owes_sync: bool = False
    """It is in the generation, but has not asked for its assignment."""
    is_new: bool = False
    """It has never seen a join come to its end, so it may not even know its id."""
    session_ends_ms: int = 0

    @classmethod
    def asking(cls, request: JoinGroupRequest, caller: Caller, member_id: str) -> Member:
        member = cls(member_id, request.group_instance_id, caller.client_id, caller.host)
        member.offer(request)
        return member

    def offer(self, request: JoinGroupRequest) -> None:
        self.protocols = offered(request)
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = _rebalance_timeout_ms(request.rebalance_timeout_ms, request.session_timeout_ms)

    def settle(self, kept: MemberMetadata, protocol: str) -> None:
        """Be what the record says; what it does not speak of stays as it is."""
        self.client_id = kept.client_id
        self.client_host = kept.client_host
        self.session_timeout_ms = kept.session_timeout
        self.rebalance_timeout_ms = _rebalance_timeout_ms(kept.rebalance_timeout, kept.session_timeout)
        self.subscription = kept.subscription
        self.assignment = kept.assignment
        if self.protocols.get(protocol) != kept.subscription:
            self.protocols = {protocol: kept.subscription}

    def to_record(self, assignment: bytes) -> MemberMetadata:
        assert self.subscription is not None, "only a generation's members are recorded"
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.subscription,
            assignment=assignment,
        )

    @property
    def can_expire(self) -> bool:
        """Whoever waits for us is kept, as it cannot beat meanwhile; but a new client may have given up unseen."""
        return self.is_new or (self.joining is None and self.syncing is None)

    @property
    def said_bytes(self) -> int:
        """What it has said of itself."""
        protocols = sum(len(name) + len(metadata) for name, metadata in self.protocols.items())
        return protocols + len(self.client_id) + len(self.instance_id or "") + len(self.member_id)

    @property
    def held_bytes(self) -> int:
        """With what it was given. Its subscription is one of its protocols'."""
        return self.said_bytes + len(self.assignment)

    def offers(self, protocols: dict[str, bytes]) -> bool:
        """True if these are what it offered last, in the same order."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name in self.protocols if name in candidates)


def offered(request: JoinGroupRequest) -> dict[str, bytes]:
    return {protocol.name: protocol.metadata for protocol in request.protocols}


def _rebalance_timeout_ms(asked_ms: int, session_timeout_ms: int) -> int:
    """JoinGroup v0 and the oldest records know one timeout for both, and read as -1 or 0 here."""
    return asked_ms if asked_ms > 0 else session_timeout_ms


class Roster:
    """All members by id, in the order in which they came. Someone leads as long as anyone is there."""

    __slots__ = ("_by_id", "_by_instance", "leader_id")

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._by_instance: dict[str, Member] = {}
        self.leader_id: str | None = None

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def with_instance(self, instance_id: str | None) -> Member | None:
        return None if instance_id is None else self._by_instance.get(instance_id)

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """Who speaks. Raises Refusal if nobody has that id, or if another took over its instance."""
        holder = self.with_instance(instance_id)
        if holder is not None and holder.member_id != member_id:
            raise Refusal(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id!r} is held by {holder.member_id!r} now")
        member = self._by_id.get(member_id)
        if member is None or (instance_id is not None and holder is None):
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is no member of the group; it must join anew")
        return member

    def add(self, member: Member) -> None:
        assert member.member_id not in self._by_id
        assert member.instance_id is None or member.instance_id not in self._by_instance
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: Member) -> None:
        del self._by_id[member.member_id]
        if member.instance_id is not None:
            del self._by_instance[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._by_id), None)

    def replace(self, old: Member, new: Member) -> None:
        """A static member came back under a new id: what the old one was, the new one is."""
        was_leader = self.leader_id == old.member_id
        self.remove(old)
        self.add(new)
        if was_leader:
            self.leader_id = new.member_id

    @property
    def rebalance_timeout_ms(self) -> int:
        """As long as the slowest may take."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    @property
    def joining_count(self) -> int:
        return sum(member.joining is not None for member in self)

    def elect_joined_leader(self) -> bool:
        """Leave the lead to someone who has joined, if the leader has not; False if nobody has."""
        leader = self._by_id.get(self.leader_id or "")
        if leader is None or leader.joining is None:
            leader = next((member for member in self if member.joining is not None), None)
        if leader is None:
            return False
        self.leader_id = leader.member_id
        return True

    def accepts(self, protocols: dict[str, bytes]) -> bool:
        """True if one of them is offered by everybody who is here."""
        return any(all(name in member.protocols for member in self) for name in protocols)

    def elected_protocol(self) -> str:
        """Of those that everybody offers the one that most want; of equals the one that was named first."""
        offers = Counter(name for member in self for name in member.protocols)
        candidates = {name for name, count in offers.items() if count == len(self)}
        assert candidates, "nobody is admitted who has nothing in common with the others"
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]
