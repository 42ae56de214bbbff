"""The APIs that are served, and how a request finds its handler.

Each API has a file of its own, in a room of `handlers/`, with one function `handle(message, request, …)`, plain or
async. What follows `request` are the parts of the node that it uses, under the node's names for them: `Apis` reads them
off the function, once, and hands them in. Modules are imported when first asked for: a node that only ever sees Produce
and Fetch never loads the others.
"""

from __future__ import annotations

import logging
from functools import partial
from importlib import import_module
from inspect import isawaitable, signature
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace.servers.kafka.audited import audited
from headrace.servers.kafka.gate import Gate
from headrace.servers.kafka.interfaces import Api
from headrace.servers.kafka.mutations import within_mutation_quota
from headrace.servers.kafka.rights import Rights
from headrace.wire.api import APIS, ApiKey, request_class, response_class
from headrace.wire.frames import encode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.quorum import Quorum
    from headrace.servers.kafka.interfaces import Request

log = logging.getLogger(__name__)

SERVED = {
    ApiKey.PRODUCE: "records.produce",
    ApiKey.FETCH: "records.fetch",
    ApiKey.LIST_OFFSETS: "records.list_offsets",
    ApiKey.METADATA: "topics.metadata",
    ApiKey.OFFSET_COMMIT: "groups.offset_commit",
    ApiKey.OFFSET_FETCH: "groups.offset_fetch",
    ApiKey.FIND_COORDINATOR: "groups.find_coordinator",
    ApiKey.JOIN_GROUP: "groups.join_group",
    ApiKey.HEARTBEAT: "groups.heartbeat",
    ApiKey.LEAVE_GROUP: "groups.leave_group",
    ApiKey.SYNC_GROUP: "groups.sync_group",
    ApiKey.DESCRIBE_GROUPS: "groups.describe_groups",
    ApiKey.LIST_GROUPS: "groups.list_groups",
    ApiKey.SASL_HANDSHAKE: "users.sasl_handshake",
    ApiKey.API_VERSIONS: "cluster.api_versions",
    ApiKey.CREATE_TOPICS: "topics.create_topics",
    ApiKey.DELETE_TOPICS: "topics.delete_topics",
    ApiKey.DELETE_RECORDS: "records.delete_records",
    ApiKey.INIT_PRODUCER_ID: "transactions.init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "records.offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactions.add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactions.add_offsets_to_txn",
    ApiKey.END_TXN: "transactions.end_txn",
    ApiKey.WRITE_TXN_MARKERS: "transactions.write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "transactions.txn_offset_commit",
    ApiKey.DESCRIBE_ACLS: "acls.describe_acls",
    ApiKey.CREATE_ACLS: "acls.create_acls",
    ApiKey.DELETE_ACLS: "acls.delete_acls",
    ApiKey.DESCRIBE_CONFIGS: "configs.describe_configs",
    ApiKey.ALTER_CONFIGS: "configs.alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "replicas.alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "replicas.describe_log_dirs",
    ApiKey.SASL_AUTHENTICATE: "users.sasl_authenticate",
    ApiKey.CREATE_PARTITIONS: "topics.create_partitions",
    ApiKey.DELETE_GROUPS: "groups.delete_groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs.incremental_alter_configs",
    ApiKey.ELECT_LEADERS: "replicas.elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "replicas.alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "replicas.list_partition_reassignments",
    ApiKey.OFFSET_DELETE: "groups.offset_delete",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "users.describe_user_scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "users.alter_user_scram_credentials",
    ApiKey.DESCRIBE_QUORUM: "cluster.describe_quorum",
    ApiKey.UPDATE_FEATURES: "cluster.update_features",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "quotas.describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "quotas.alter_client_quotas",
    ApiKey.DESCRIBE_CLUSTER: "cluster.describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "transactions.describe_producers",
    ApiKey.UNREGISTER_BROKER: "cluster.unregister_broker",
    ApiKey.DESCRIBE_TRANSACTIONS: "transactions.describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "transactions.list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "groups.consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "groups.consumer_group_describe",
    ApiKey.LIST_CONFIG_RESOURCES: "configs.list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics.describe_topic_partitions",
    ApiKey.ADD_RAFT_VOTER: "cluster.add_raft_voter",
    ApiKey.REMOVE_RAFT_VOTER: "cluster.remove_raft_voter",
    ApiKey.DRAIN_NODE: "cluster.drain_node",
    ApiKey.PLAN_REBALANCE: "replicas.plan_rebalance",
    ApiKey.SCRUB_LOGS: "replicas.scrub_logs",
}
"""Each API's handler: its room in `handlers/`, and its file there."""

SERVED_TO_NODES = {
    ApiKey.ALTER_PARTITION: "nodes.alter_partition",
    ApiKey.BROKER_REGISTRATION: "nodes.broker_registration",
    ApiKey.BROKER_HEARTBEAT: "nodes.broker_heartbeat",
    ApiKey.ALLOCATE_PRODUCER_IDS: "nodes.allocate_producer_ids",
    ApiKey.RAFT_REQUEST_VOTE: "nodes.raft",
    ApiKey.RAFT_VOTE_ANSWER: "nodes.raft",
    ApiKey.RAFT_APPEND_ENTRIES: "nodes.raft",
    ApiKey.RAFT_APPEND_ANSWER: "nodes.raft",
    ApiKey.RAFT_INSTALL_SNAPSHOT: "nodes.raft",
    ApiKey.RAFT_TAKE_OVER: "nodes.raft",
    ApiKey.FORWARD: "nodes.forward",
    ApiKey.GREET: "nodes.greet",
    ApiKey.JOIN_CLUSTER: "nodes.join_cluster",
    ApiKey.GIVE_UP_REPLICA: "nodes.give_up_replica",
    ApiKey.LIVE_TRANSACTIONS: "nodes.live_transactions",
    ApiKey.DESCRIBE_LOG_ENDS: "nodes.describe_log_ends",
    ApiKey.WRITE_AUDIT: "nodes.write_audit",
}
"""Only where nodes listen for each other; clients do not hear of them."""

DECIDED_BY_CONTROLLER = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.DRAIN_NODE,
    ApiKey.PLAN_REBALANCE,
    ApiKey.JOIN_CLUSTER,
}
"""Any node takes them, and passes them on. Some only ask; what they ask, the controller knows first or alone."""

_TWO_STAGE = {ApiKey.PRODUCE, ApiKey.FETCH}


class Apis:
    """The APIs of one listener, each with its handler and with the parts of the node that the handler names."""

    def __init__(self, parts: Mapping[str, Any], *, is_for_nodes: bool) -> None:
        self._parts = parts
        self._is_for_nodes = is_for_nodes
        self._served = {**SERVED, **SERVED_TO_NODES} if is_for_nodes else SERVED
        self._loaded: dict[int, Api] = {}
        self._gate: Gate | None = None
        """Where clients connect to a node that obeys rules. What nodes pass on was judged where it came from."""
        if not is_for_nodes and parts["authorizer"].is_on:
            self._gate = Gate(parts["authorizer"], parts["view"], parts["audit"], parts["world"].clock)

    def find(self, api_key: int, version: int) -> Api | None:
        """The API, or None if it is not served in this version."""
        api = self._loaded.get(api_key)
        if api is None:
            if api_key not in self._served:
                return None
            api = self._loaded[api_key] = self._load(ApiKey(api_key))
        return api if APIS[api_key].serves(version) else None

    def _load(self, key: ApiKey) -> Api:
        module = _handler_module(key)
        if not self._is_for_nodes and not isinstance(getattr(module, "RIGHTS", None), Rights):
            raise LookupError(f"{module.__name__} does not say which rights it takes: its RIGHTS are missing")
        handle = _never if key in _TWO_STAGE else self._handler(key, module, self._with_parts(module.handle))
        return Api(key.name.lower(), request_class(key), handle)

    def _with_parts(self, handle: Callable[..., Any]) -> Callable[[Any, Request], Any]:
        names = parts_of(handle)
        unknown = [name for name in names if name not in self._parts]
        if unknown:
            raise LookupError(f"{handle.__module__} asks for {', '.join(unknown)}: a node has no such part")
        return partial(handle, **{name: self._parts[name] for name in names}) if names else handle

    def _handler(
        self,
        key: ApiKey,
        module: ModuleType,
        handle: Callable[[Any, Request], Any],
    ) -> Callable[[Any, Request], Any]:
        """What a connection calls: whatever is to happen between it and the handler is put around that here."""
        if key in DECIDED_BY_CONTROLLER:
            handle = _passed_on(handle, self._parts["quorum"], self._parts["commands"])
        if not self._is_for_nodes:
            handle = within_mutation_quota(key, handle, self._parts["view"])
        if not self._is_for_nodes and self._parts["audit"].is_on:  # what a node passes on was noted where it came from
            handle = audited(key, handle, self._parts["audit"])
        return handle if self._gate is None else self._gate.before(key, module.RIGHTS, handle)


def parts_of(handle: Callable[..., Any]) -> list[str]:
    """The parts of a node that a handler names: its parameters after the message and the request."""
    return list(islice(signature(handle).parameters, 2, None))


def advertised_versions(*, to_nodes: bool = False) -> list[tuple[int, int, int]]:
    """Key, lowest and highest version of every API served."""
    keys = (*SERVED, *SERVED_TO_NODES) if to_nodes else SERVED
    return [(key, APIS[key].advertised_min, APIS[key].advertised_max) for key in sorted(keys)]


def _handler_module(key: ApiKey) -> ModuleType:
    place = SERVED.get(key) or SERVED_TO_NODES[key]
    return import_module(f"headrace.servers.kafka.handlers.{place}")


def _passed_on(
    handle: Callable[[Any, Request], Any], quorum: Quorum, commands: Commands
) -> Callable[[Any, Request], Any]:
    """The handler where the controller is, and the way there elsewhere."""

    def handle_or_forward(message: Any, request: Request) -> Any:
        if quorum.is_leader:
            return handle(message, request)
        return _forwarded(handle, message, request, commands)

    return handle_or_forward


async def _forwarded(handle: Callable[[Any, Request], Any], message: Any, request: Request, commands: Commands) -> Any:
    answer = response_class(message.API_KEY)
    host = request.connection.link.peer.host
    try:
        return await commands.forward(message, request.version, answer, client_id=request.client_id, client_host=host)
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
    answer = _handler_module(ApiKey.API_VERSIONS).unsupported_version()
    return encode_response(correlation_id, api_key, 0, answer)
