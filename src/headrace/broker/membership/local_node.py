"""What a node says about itself, to the others and to the controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.metadata.liveness import SESSION_MS
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.metadata.configs.settings import NodeSettings
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.records import Endpoint
    from headrace.model.names import NodeId
    from headrace.runtime.network import Address

NODES: Final = "CONTROLLER"  # Kafka's usual name for the listener where nodes meet
CLIENTS: Final = "PLAINTEXT"


class Heartbeats(NamedTuple):
    """How often a node says that it is there, and after how long a silence it believes that it is not."""

    interval_ms: int = 400
    session_ms: int = SESSION_MS

    @classmethod
    def of(cls, settings: NodeSettings) -> Heartbeats:
        """Raises Refusal if one late answer would end the session."""
        interval_ms, session_ms = settings.broker_heartbeat_interval_ms, settings.broker_session_timeout_ms
        if interval_ms * 2 > session_ms:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"broker.session.timeout.ms ({session_ms}) must be at least twice broker.heartbeat.interval.ms "
                f"({interval_ms}): one heartbeat that is lost must not cost a node its leaderships",
            )
        return cls(interval_ms, session_ms)


@dataclass(slots=True)
class LocalNode:
    node_id: NodeId
    incarnation: bytes
    directory: bytes
    timing: Heartbeats
    stored_cluster_id: str = ""
    """As it is written on the disk; empty before it belongs to a cluster."""
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    """Where others find it; empty until it listens."""
    voters: Mapping[NodeId, Address] = field(default_factory=dict)
    """Who founds the cluster, and where they listen for each other."""
    life: int = 0
    """How often the disk was started, this time included."""

    @property
    def founders(self) -> list[NodeId]:
        """With whom this node was told to found a cluster."""
        return sorted(self.voters)

    def cluster_id(self, image: ClusterImage) -> str:
        """Empty until the cluster has a name."""
        return image.cluster_id or self.stored_cluster_id
