"""Puts a listener together from the parts of a node: the one place in this room that takes it whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.access.listener_access import OPEN
from headrace.servers.kafka.apis import Apis
from headrace.servers.kafka.connections.listener import ListenerParts
from headrace.servers.kafka.handlers.records.fetch import FetchParts
from headrace.servers.kafka.handlers.records.produced_batches import ProduceParts
from headrace.servers.kafka.server import KafkaServer

if TYPE_CHECKING:
    from headrace.broker.access.listener_access import ListenerAccess
    from headrace.broker.node import Node
    from headrace.runtime.network import Address


def kafka_server(
    node: Node,
    advertised: Address | None = None,
    *,
    access: ListenerAccess = OPEN,
    connections_max: int | None = None,
    is_for_nodes: bool = False,
) -> KafkaServer:
    """A listener of this node's, for clients or for other nodes. It takes nobody before its `start`."""
    parts = ListenerParts(
        node.world,
        node.health,
        node.counters,
        node.registration,
        node.view,
        node.stage,
        node.audit,
        node.authorizer,
        node.client_quotas,
        node.connection_rates,
        ProduceParts(node.topics, node.examiner, node.coordinators, node.registration, node.stage, node.world.clock),
        FetchParts(node.view, node.fetch_sessions, node.heard_followers, node.counters, node.health, node.world),
    )
    apis = Apis(vars(node), is_for_nodes=is_for_nodes)
    return KafkaServer(
        parts, apis, advertised, access=access, connections_max=connections_max, is_for_nodes=is_for_nodes
    )
