"""What a secured cluster of processes is started with, and what its clients are."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AdminClient

from headrace.access.authentication.credentials import SCRAM_MECHANISMS, ScramUser, verifier_for
from headrace.access.authentication.verifier_file import users_text
from tests.certificates import Certificates
from tests.clients.clusters import ClusterProcesses

if TYPE_CHECKING:
    from pathlib import Path

    from tests.certificates import Held

ALICE, PASSWORD = "alice", "wonderland-in-the-rabbit-hole"
NODES = "nodes"
"""The unit in the names of nodes' certificates."""
ONLY_NODES = f"RULE:^CN=([^,]+),OU={NODES}$/$1/"


class SecuredCluster:
    """One authority and one user for it all. `configs` are for `ClusterProcesses`."""

    def __init__(self, home: Path) -> None:
        self.certificates = Certificates(home)
        self.node: Held = self.certificates.issue("node", unit=NODES)
        self.users = home / "users.json"
        salt = b"0123456789abcdef"
        self.users.write_text(
            users_text(
                {ScramUser(ALICE, it): verifier_for(PASSWORD, it, salt, 4096) for it in SCRAM_MECHANISMS.values()}
            )
        )
        self.users.chmod(0o600)

    @property
    def for_clients(self) -> dict[str, str]:
        """Clients log in over TLS."""
        return {
            "listeners": "SASL_SSL://127.0.0.1:0",
            "ssl.keystore.location": str(self.node.certificate),
            "ssl.key.location": str(self.node.key),
            "headrace.initial.users.file": str(self.users),
        }

    @property
    def by_certificates(self) -> dict[str, str]:
        """Nodes know each other by certificates, and by the names in them."""
        own = "listener.name.controller"
        return {
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SSL",
            f"{own}.ssl.truststore.location": str(self.certificates.path),
            f"{own}.ssl.principal.mapping.rules": ONLY_NODES,
        }

    @property
    def client(self) -> dict[str, Any]:
        """Settings of a client, without its servers."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": ALICE,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.certificates.path),
        }


class SecuredProcesses(ClusterProcesses):
    """With clients that log in."""

    def __init__(self, home: Path, configs: dict[str, str], client: dict[str, Any], node_count: int = 3) -> None:
        super().__init__(home, node_count, configs)
        self._client = client

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self.client)

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap_servers, **self._client}

    def meeting(self, node_id: int) -> str:
        """Where the others call it."""
        return self._meetings[node_id]
