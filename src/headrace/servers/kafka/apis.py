"""The APIs that are served, and how a request finds its handler.

Each API has a file of its own in `handlers/` with one function `handle(message, request)`, plain or async. Modules
are imported when first asked for: a node that only ever sees Produce and Fetch never loads the others.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace.wire.api import APIS, ApiKey, request_class, response_class
from headrace.wire.frames import encode_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.node import Node
    from headrace.servers.kafka.connection import Connection
    from headrace.servers.kafka.server import KafkaServer

log = logging.getLogger(__name__)

SERVED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.DRAIN_NODE,
    ApiKey.PLAN_REBALANCE,
    ApiKey.SCRUB_LOGS,
)

SERVED_TO_NODES = (
    ApiKey.ALTER_PARTITION,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.RAFT_REQUEST_VOTE,
    ApiKey.RAFT_VOTE_ANSWER,
    ApiKey.RAFT_APPEND_ENTRIES,
    ApiKey.RAFT_APPEND_ANSWER,
    ApiKey.RAFT_INSTALL_SNAPSHOT,
    ApiKey.RAFT_TAKE_OVER,
    ApiKey.FORWARD,
    ApiKey.GREET,
    ApiKey.JOIN_CLUSTER,
    ApiKey.GIVE_UP_REPLICA,
    ApiKey.LIVE_TRANSACTIONS,
    ApiKey.DESCRIBE_LOG_ENDS,
)
"""Only where nodes listen for each other; clients do not hear of them."""

DECIDED_BY_CONTROLLER = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.DRAIN_NODE,
    ApiKey.PLAN_REBALANCE,
    ApiKey.JOIN_CLUSTER,
}
"""Any node takes them, and passes them on. Some only ask; what they ask, the controller knows first or alone."""

_TWO_STAGE = {ApiKey.PRODUCE, ApiKey.FETCH}
_MODULES = dict.fromkeys(
    (
        ApiKey.RAFT_REQUEST_VOTE,
        ApiKey.RAFT_VOTE_ANSWER,
        ApiKey.RAFT_APPEND_ENTRIES,
        ApiKey.RAFT_APPEND_ANSWER,
        ApiKey.RAFT_INSTALL_SNAPSHOT,
        ApiKey.RAFT_TAKE_OVER,
    ),
    "raft",
)


class Request(NamedTuple):
    """What a handler may know about the request besides its message."""

    connection: Connection
    client_id: str
    version: int
    correlation_id: int

    @property
    def node(self) -> Node:
        return self.connection.node

    @property
    def server(self) -> KafkaServer:
        return self.connection.server


class Api(NamedTuple):
    name: str
    request: Any
    handle: Callable[[Any, Request], Any]


def advertised_versions(*, to_nodes: bool = False) -> list[tuple[int, int, int]]:
    """Key, lowest and highest version of every API served."""
    keys = (*SERVED, *SERVED_TO_NODES) if to_nodes else SERVED
    return [(key, APIS[key].advertised_min, APIS[key].advertised_max) for key in sorted(keys)]


def api_for(api_key: int, version: int, *, to_nodes: bool = False) -> Api | None:
    """The API, or None if it is not served in this version."""
    if api_key not in SERVED and not (to_nodes and api_key in SERVED_TO_NODES):
        return None
    return _load(ApiKey(api_key)) if APIS[api_key].serves(version) else None


@cache
def _load(key: ApiKey) -> Api:
    name = key.name.lower()
    if key in _TWO_STAGE:
        return Api(name, request_class(key), _never)
    handle = import_module(f"headrace.servers.kafka.handlers.{_MODULES.get(key, name)}").handle
    return Api(name, request_class(key), _passed_on(handle) if key in DECIDED_BY_CONTROLLER else handle)


def _passed_on(handle: Callable[[Any, Request], Any]) -> Callable[[Any, Request], Any]:
    """The handler where the controller is, and the way there elsewhere."""

    def handle_or_forward(message: Any, request: Request) -> Any:
        if request.node.is_controller:
            return handle(message, request)
        return _forwarded(handle, message, request)

    return handle_or_forward


async def _forwarded(handle: Callable[[Any, Request], Any], message: Any, request: Request) -> Any:
    answer = response_class(message.API_KEY)
    host = request.connection.link.peer.host
    try:
        return await request.node.forward(
            message, request.version, answer, client_id=request.client_id, client_host=host
        )
    except (Refusal, ClientError) as trouble:
        # Whoever asked hears of it, and may ask often; the operator heard when the controller fell silent.
        log.debug("there is no controller to decide %s: %s", APIS[message.API_KEY].name, trouble)
    # Nobody decides now. The handler hears it from the quorum, and knows how its own answer says so.
    outcome = handle(message, request)
    return await outcome if isawaitable(outcome) else outcome


def _never(message: Any, request: Request) -> Any:
    raise AssertionError(f"{message} of {request} has two stages and is begun by the connection")


def unsupported_version_answer(api_key: int, correlation_id: int) -> bytes | None:
    """What a client hears that asks for a version we do not know; None means that the connection is closed.

    Only ApiVersions is answered, in its oldest form: it tells the client what to step down to.
    """
    if api_key != ApiKey.API_VERSIONS:
        return None
    from headrace.servers.kafka.handlers import api_versions  # noqa: PLC0415 - loaded when first needed, as all handlers

    return encode_response(correlation_id, api_key, 0, api_versions.unsupported_version())
