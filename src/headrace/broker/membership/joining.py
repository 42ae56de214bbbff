"""How a node that knows nothing comes into a cluster: it founds one together with others, or is let into theirs.

A disk that was emptied looks like a new one. So whoever is told to found a cluster first asks all the other founders:
if one of them has a log, there is a cluster already, and founding another would take its local. And if one does not
answer, it may be just that one.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.broker.membership.identity import Origin, WrongIdentity
from headrace.broker.membership.local_node import NODES
from headrace.client.errors import AuthenticationFailed, ClientError
from headrace.model.errors import ErrorCode, Reason, Refusal
from headrace.model.names import NodeId, TopicId
from headrace.raft.membership import Membership, Voter
from headrace.runtime.network import Address
from headrace.wire.messages.greet import GreetRequest, GreetResponse
from headrace.wire.messages.join_cluster import JoinClusterRequest, JoinClusterResponse, JoiningEndpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker.membership.address_book import AddressBook
    from headrace.broker.membership.dialing import Dialer
    from headrace.broker.membership.identity import Identity
    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.metadata.quorum import Quorum
    from headrace.runtime.clock import Clock
    from headrace.wire.api import Message

Answer = TypeVar("Answer", bound="Message")

log = logging.getLogger(__name__)

ANSWER_S: Final = 5.0  # the controller may have to be elected first
RETRY_S: Final = 0.2
TELL_S: Final = 1.0  # one that is down need not be told at once when it is back
SAY_EVERY_S: Final = 10.0  # what is waited for, to whoever reads the log
PATIENCE_S: Final = 30.0  # an election, and the session of this node's last life, take a few seconds


class Joining:
    def __init__(
        self,
        local: LocalNode,
        addresses: AddressBook,
        quorum: Quorum,
        clock: Clock,
        dialer: Dialer,
        ways_in: Sequence[Address],
    ) -> None:
        """`ways_in` are the nodes that an operator has named (`--join`)."""
        self._local = local
        self._addresses = addresses
        self._quorum = quorum
        self._clock = clock
        self._dialer = dialer
        self._ways_in = list(ways_in)
        self._not_let_in: Reason | None = None
        """Why, as it was heard last; whoever waits for a leader wants to know."""
        self._strangers: set[NodeId] = set()
        """Founders that do not take this node for one, or are not taken for one: told once, until they are."""

    async def find_cluster(self, identity: Identity) -> Identity:
        """For a node whose log is empty. Returns what its directory must remember from now on.

        Raises Refusal if the cluster does not let it in, or cannot be reached.
        """
        if self._quorum.has_log:
            self._expect_no_other_cluster(identity)
            return identity
        if self._ways_in or (identity.origin is Origin.TOGETHER and identity.cluster_id):
            identity = replace(identity, origin=Origin.JOINED)
        if identity.origin is Origin.TOGETHER and not await self._found():
            log.info("there is a cluster already: this node joins it")
            identity = replace(identity, origin=Origin.JOINED)
        if identity.origin is Origin.JOINED:
            identity = identity.named(await self._ask_in(identity))
        return identity

    def _expect_no_other_cluster(self, identity: Identity) -> None:
        """Whoever was alone and is told of others would go on alone, where their clients take it for one of them."""
        is_alone = self._quorum.raft.membership.everybody == (self._local.node_id,)
        is_told_of_others = bool(self._ways_in or self._local.voters.keys() - {self._local.node_id})
        if is_told_of_others and is_alone and identity.origin is Origin.ALONE:
            raise WrongIdentity(
                f"the data directory holds a cluster of its own, {identity.cluster_id}; a node becomes part of another "
                "with an empty directory: choose one with --data-dir. Or start this one without --join and --voters; "
                "others enter its cluster if it has --cluster-listen"
            )

    async def wait_heard(self) -> None:
        """Until it is known what was agreed on before this node started."""
        while True:
            try:
                async with asyncio.timeout(SAY_EVERY_S):
                    return await self._quorum.agreed_start()
            except TimeoutError:
                log.warning("no leader of the cluster was heard for %d s; %s", SAY_EVERY_S, self._what_to_look_at())

    def _what_to_look_at(self) -> str:
        if self._not_let_in is not None:
            return f"this node has asked to be let in: {self._not_let_in.message}"
        here = ", ".join(f"{it.host}:{it.port}" for it in self._local.endpoints[:1]) or "this node"
        return f"do enough of its voters run, and do they reach {here}? A node that was removed comes back with --join"

    # ---- founding

    async def _found(self) -> bool:
        """Wait for the other founders. False: one of them belongs to a cluster already."""
        if not self._local.voters:
            raise WrongIdentity(
                "the data directory was made for a cluster that is not founded yet; start it with its --voters again"
            )
        missing = {node_id: at for node_id, at in self._local.voters.items() if node_id != self._local.node_id}
        say_at_s = self._now_s() + SAY_EVERY_S
        while missing and not self._quorum.has_log:
            for node_id, address in sorted(missing.items()):
                found = await self._greet(node_id, address)
                if found is None:
                    continue
                if found.has_log or found.cluster_id:
                    return False
                self._expect_same_voters(found)
                del missing[node_id]
            if missing and self._now_s() >= say_at_s:
                say_at_s = self._now_s() + SAY_EVERY_S
                log.warning("a cluster is founded by all its voters; waiting for %s", _listed(missing))
            await asyncio.sleep(RETRY_S if missing else 0)
        self._quorum.found(Membership(tuple(Voter(node_id) for node_id in sorted(self._local.voters))))
        return True

    def _expect_same_voters(self, other: GreetResponse) -> None:
        ours = sorted(self._local.voters)
        if other.voters != ours:
            raise WrongIdentity(
                f"node {other.node_id} was told of the voters {other.voters}, this node of {ours}; "
                "all founders of a cluster are started with the same --voters"
            )

    async def _greet(self, node_id: NodeId, address: Address) -> GreetResponse | None:
        try:
            found = await self._ask(address, GreetRequest(), GreetResponse)
        except (ClientError, Refusal) as trouble:
            is_news = isinstance(trouble, AuthenticationFailed) and node_id not in self._strangers
            log.log(logging.WARNING if is_news else logging.DEBUG, "node %d does not answer: %s", node_id, trouble)
            if is_news:
                self._strangers.add(node_id)
            return None
        self._strangers.discard(node_id)
        if found.node_id != node_id:
            log.warning("at %s there is node %d, not node %d: look at --voters", address, found.node_id, node_id)
            return None
        return found

    # ---- joining

    def has_moved(self) -> bool:
        """Whether the log knows another place of this node than the one where it listens now."""
        known = self._quorum.found_image.nodes.get(self._local.node_id)
        endpoint = None if known is None else known.endpoint(NODES)
        return endpoint is not None and endpoint not in self._local.endpoints

    async def knock(self, identity: Identity) -> None:
        """A node that has a log asks as well, until its leader is heard: its address may have changed, or it may have
        been removed."""
        twin_since_s: float | None = None
        while not self._quorum.knows_agreed:
            try:
                outcome = await self._ask_each(identity)
                if isinstance(outcome, str):
                    break
                self._not_let_in = outcome.reason
                twin_since_s = self._twin_since(outcome, twin_since_s)
            except Refusal as refusal:
                self._quorum.give_up(refusal)
                return
            await asyncio.sleep(RETRY_S)
        self._not_let_in = None
        await self._tell_as_leader(identity)

    def _twin_since(self, refusal: Refusal, since_s: float | None) -> float | None:
        """Since when another process is said to be this node. Raises the refusal if that does not pass."""
        if refusal.code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return None
        if since_s is None:
            return self._now_s()
        if self._now_s() - since_s >= PATIENCE_S:
            raise refusal
        return since_s

    async def _tell_as_leader(self, identity: Identity) -> None:
        """Others hear from their leader where this node is. If that is this node, they hear it, and cannot answer: so
        it tells each of them, until all have answered or another leads."""
        untold = self._doors()
        while untold and self._quorum.is_leader:
            for address in list(untold):
                try:
                    await self._ask(address, self._request(identity), JoinClusterResponse)
                except (ClientError, Refusal) as trouble:
                    log.debug("%s was not told where this node is: %s", address, trouble)
                else:
                    untold.remove(address)
            await asyncio.sleep(TELL_S)

    async def _ask_in(self, identity: Identity) -> str:
        """The cluster's id, once it has let this node in."""
        if not self._ways_in and not self._local.voters:
            raise WrongIdentity(
                "the data directory belongs to a cluster, but has no metadata log; start it with --join, so that the "
                "cluster tells it everything"
            )
        give_up_at_s = self._now_s() + PATIENCE_S
        say_at_s = self._now_s() + SAY_EVERY_S
        while True:
            outcome = await self._ask_each(identity)
            if isinstance(outcome, str):
                return outcome
            if self._now_s() >= give_up_at_s:
                raise outcome
            if self._now_s() >= say_at_s:
                say_at_s = self._now_s() + SAY_EVERY_S
                log.warning("not let in yet, this node asks again: %s", outcome.message)
            await asyncio.sleep(RETRY_S)

    async def _ask_each(self, identity: Identity) -> str | Refusal:
        """The cluster's id, or why nobody has let this node in. Raises Refusal if nobody ever will."""
        refusals, unreachable = [], []
        for address in self._doors():
            try:
                answer = await self._ask(address, self._request(identity), JoinClusterResponse)
            except (ClientError, Refusal) as trouble:
                if isinstance(trouble, Refusal) and self._is_meant(address):
                    raise
                unreachable.append(str(trouble))
                continue
            if answer.error_code == ErrorCode.NONE:
                for it in answer.nodes:
                    self._addresses.note(NodeId(it.node_id), Address(it.host, it.port))
                return answer.cluster_id
            refusals.append(Refusal(ErrorCode(answer.error_code), answer.error_message or "the cluster refuses"))
            if refusals[-1].code is ErrorCode.INCONSISTENT_CLUSTER_ID and self._is_meant(address):
                raise refusals[-1]
        if refusals:
            return refusals[0]
        return Refusal(
            ErrorCode.NETWORK_EXCEPTION,
            f"no node of the cluster can be reached ({'; '.join(unreachable)}); "
            "does one run there that was started with --cluster-listen or --voters?",
        )

    def _doors(self) -> list[Address]:
        """Where the operator says that others are, then where they were when this node last heard of them: either may
        have changed since."""
        known = [
            Address(endpoint.host, endpoint.port)
            for node_id, node in sorted(self._quorum.found_image.nodes.items())
            if node_id != self._local.node_id and (endpoint := node.endpoint(NODES)) is not None
        ]
        return list(dict.fromkeys([*self._named_doors(), *known]))

    def _is_meant(self, address: Address) -> bool:
        """Whether it is a mistake if somebody else is there. Whoever has moved, and is only remembered there, may have
        left the place to another cluster."""
        named = self._named_doors()
        return not named or address in named

    def _named_doors(self) -> list[Address]:
        voters = [at for node_id, at in sorted(self._local.voters.items()) if node_id != self._local.node_id]
        return self._ways_in or voters

    def _request(self, identity: Identity) -> JoinClusterRequest:
        local = self._local
        return JoinClusterRequest(
            local.node_id,
            identity.cluster_id,
            TopicId(local.incarnation),
            TopicId(local.directory),
            local.rack,
            local.timing.session_ms,
            local.life,
            [JoiningEndpoint(*endpoint) for endpoint in local.endpoints],
        )

    async def _ask(self, address: Address, message: Message, answer: type[Answer]) -> Answer:
        connection = await self._dialer.open(address, request_timeout_s=ANSWER_S)
        try:
            if message.API_KEY not in connection.versions:
                raise Refusal(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"{address} is not where nodes meet; name the --cluster-listen address of a node",
                )
            return await connection.request(message, answer)
        finally:
            connection.close()

    def _now_s(self) -> float:
        return self._clock.monotonic_s()


def _listed(missing: dict[NodeId, Address]) -> str:
    return ", ".join(f"node {node_id} at {address}" for node_id, address in sorted(missing.items()))
