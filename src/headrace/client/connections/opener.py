"""Opens connections as a client's settings say: over TLS, logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.connections.connection import Connection
from headrace.client.connections.login import Login

if TYPE_CHECKING:
    from headrace.client.connections.cluster import ClusterSettings
    from headrace.runtime.entropy import Entropy
    from headrace.runtime.network import Address, Network
    from headrace.runtime.threads import Threads
    from headrace.runtime.tls.contexts import ClientTls


class ConnectionOpener:
    """For one client. It ends with `close`."""

    def __init__(
        self, network: Network, entropy: Entropy, settings: ClusterSettings, threads: Threads | None = None
    ) -> None:
        """Without `threads` it makes some if it needs them. Raises UnusableTls (a ValueError) for files that cannot be
        used."""
        self._settings = settings
        self._own_threads: Threads | None = None
        self._tls: ClientTls | None = None
        self._login: Login | None = None
        self._network = network
        security = settings.security
        if security.tls is None and security.credentials is None:
            return
        if threads is None:
            from headrace.runtime.threads import SystemThreads  # noqa: PLC0415 - the simulator brings its own

            threads = self._own_threads = SystemThreads()
        self._threads = threads
        if security.tls is not None:
            from headrace.runtime.tls.contexts import ClientTls  # noqa: PLC0415 - most clients in tests need no OpenSSL
            from headrace.runtime.tls.network import TlsNetwork  # noqa: PLC0415

            choice = security.tls
            self._tls = ClientTls(choice.settings, expects_host=choice.expects_host, verifies=choice.verifies)
            self._network = TlsNetwork(network, client=self._tls)
        if security.credentials is not None:
            self._login = Login(security.credentials, entropy, threads)

    async def open(self, address: Address) -> Connection:
        """One attempt. ConnectionLost if nobody answers there, AuthenticationFailed if they do not let us in."""
        settings = self._settings
        if self._tls is not None:
            await self._tls.refresh(self._threads)
        return await Connection.open(
            self._network,
            address,
            client_id=settings.client_id,
            connect_timeout_s=settings.connect_timeout_s,
            request_timeout_s=settings.request_timeout_s,
            login=self._login,
        )

    def close(self) -> None:
        """No connection is opened after that."""
        if self._own_threads is not None:
            self._own_threads.close()
