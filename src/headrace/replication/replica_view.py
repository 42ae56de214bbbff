"""What others may know of a replica's mind: to be looked at and asked. Only its partition tells it what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.model.names import Epoch, NodeId, Offset


class ReplicaView(Protocol):
    """`replica.Replica` says what each of these means."""

    @property
    def node_id(self) -> NodeId: ...

    @property
    def written(self) -> Offset: ...

    @property
    def flushed(self) -> Offset: ...

    @property
    def high_watermark(self) -> Offset: ...

    @property
    def leader_epoch(self) -> Epoch: ...

    @property
    def leader(self) -> NodeId: ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def replicas(self) -> tuple[NodeId, ...]: ...

    @property
    def in_sync(self) -> tuple[NodeId, ...]: ...

    @property
    def eligible(self) -> tuple[NodeId, ...]: ...

    def is_unsettled(self, is_here: Callable[[NodeId], bool]) -> bool: ...

    def wanted_in_sync(
        self,
        now_ms: int,
        lag_max_ms: int,
        heard_ms: Mapping[NodeId, int],
        is_here: Callable[[NodeId], bool],
        log_start: Offset,
    ) -> tuple[NodeId, ...] | None: ...

    def broker_epoch_of(self, node_id: NodeId) -> int: ...

    def begins_everywhere_at(self, offset: Offset) -> bool: ...

    def check_write(self, acks: int) -> None: ...

    def check_read(self) -> None: ...

    def check_epoch(self, client_epoch: Epoch) -> None: ...
