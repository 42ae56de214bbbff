"""How a node calls others: over TLS and logged in, where the listener for nodes asks for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.client.connections.connection import Connection
from headrace.client.connections.login import Login
from headrace.runtime.threads import OneLane
from headrace.runtime.tls.network import TlsNetwork

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.security.credentials import PasswordCredentials
    from headrace.model.names import NodeId
    from headrace.runtime.network import Address
    from headrace.runtime.tasks import TaskScope
    from headrace.runtime.tls.contexts import ClientTls
    from headrace.runtime.world import World

LANE: Final = "logins to nodes"
CONNECT_S: Final = 1.0  # within one rack it takes a millisecond; a node that is off answers never


@dataclass(frozen=True, slots=True)
class NodeProof:
    """What a node shows the others, and knows them by. Nothing of it where nodes trust their network."""

    tls: ClientTls | None = None
    credentials: PasswordCredentials | None = field(default=None, repr=False)


NO_PROOF: Final = NodeProof()


class Dialer:
    def __init__(self, node_id: NodeId, world: World, proof: NodeProof) -> None:
        self._client_id = f"node-{node_id}"
        self._proof = proof
        self._world = world
        self._network = world.network if proof.tls is None else TlsNetwork(world.network, client=proof.tls)
        self._login: Login | None = None
        if proof.credentials is not None:
            # In a lane of its own: a login has a second, and a node that starts has its threads busy with recovery.
            self._login = Login(proof.credentials, world.entropy, OneLane(world.threads, LANE))

    async def open(
        self, address: Address, *, request_timeout_s: float, on_broken: Callable[[], None] | None = None
    ) -> Connection:
        """One attempt. ConnectionLost if nobody answers there, AuthenticationFailed if one of both is no node."""
        return await Connection.open(
            self._network,
            address,
            client_id=self._client_id,
            connect_timeout_s=CONNECT_S,
            request_timeout_s=request_timeout_s,
            on_broken=on_broken,
            login=self._login,
        )

    def keep_fresh(self, tasks: TaskScope) -> None:
        """From now on: use what the files of certificates have become."""
        if self._proof.tls is not None:
            tasks.start(self._proof.tls.keep_fresh(self._world.threads), "certificates that are shown to nodes")
