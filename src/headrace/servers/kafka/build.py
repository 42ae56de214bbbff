"""Puts listeners together from the parts of a node: the one place in this room that takes it whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.access.listener_access import OPEN
from headrace.broker.access.users import ClusterUsers
from headrace.servers.kafka.apis import Apis
from headrace.servers.kafka.connections.listener import ListenerParts
from headrace.servers.kafka.handlers.records.fetch import FetchParts
from headrace.servers.kafka.handlers.records.produced_batches import ProduceParts
from headrace.servers.kafka.server import KafkaServer

if TYPE_CHECKING:
    from headrace.broker.access.listener_access import ListenerAccess, TokenCheck
    from headrace.broker.listeners.opening import Doors
    from headrace.broker.listeners.plans import ListenerPlans
    from headrace.broker.listeners.token_settings import TokenSettings
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


async def client_listeners(
    node: Node, plans: ListenerPlans, doors: Doors, *, connections_max: int | None = None
) -> list[KafkaServer]:
    """One for each of the plans, in their order. Raises UnusableKeys for keys of tokens that cannot be read.

    `connections_max` is what the system can bear of all of them.
    """
    users = ClusterUsers(node.view, node.world.entropy)
    share = None if connections_max is None else max(1, connections_max // len(plans.clients))
    servers = []
    for plan in plans.clients:
        access = doors.access(plan, users, await _token_check(node, plan.protection.tokens))
        servers.append(kafka_server(node, plan.told, access=access, connections_max=share))
    return servers


async def _token_check(node: Node, settings: TokenSettings | None) -> TokenCheck | None:
    if settings is None:
        return None
    from headrace.broker.listeners.token_keys import TokenKeyring  # noqa: PLC0415 - its libraries take 60 ms

    keyring = TokenKeyring(settings, node.world.clock, node.world.threads)
    await keyring.load()
    node.tasks.start(keyring.keep_fresh(), "keys of tokens")
    return keyring.check
