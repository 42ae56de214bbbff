"""The parts of a node that are measured here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.counters import Counters
    from headrace.broker.partitions.session_cache import SessionCache
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.replicas.cleaner import LogCleaner
    from headrace.broker.replicas.damage_reports import DamageReports
    from headrace.model.names import NodeId
    from headrace.runtime.world import World


class MeasuredNode(Protocol):
    @property
    def node_id(self) -> NodeId: ...
    @property
    def is_controller(self) -> bool: ...
    @property
    def world(self) -> World: ...
    @property
    def view(self) -> MetadataView: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def topics(self) -> TopicTable: ...
    @property
    def fetch_sessions(self) -> SessionCache: ...
    @property
    def damage(self) -> DamageReports: ...
    @property
    def cleaner(self) -> LogCleaner: ...
