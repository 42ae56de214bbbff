"""JoinCluster (key 20011, ours): a node asks to be let in. It is known from now on, and gets the metadata log soon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.membership.local_node import NODES
from headrace.metadata.commands.node_commands import admit_node
from headrace.metadata.image.records import Endpoint
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from headrace.raft.membership import ReplicaKey
from headrace.runtime.network import Address
from headrace.wire.messages.join_cluster import JoinClusterRequest, JoinClusterResponse, MemberAddress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.membership.address_book import AddressBook
    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.metadata.controller import Controller
    from headrace.broker.metadata.quorum import Quorum
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.servers.kafka.interfaces import Request


async def handle(
    message: JoinClusterRequest,
    request: Request,
    local: LocalNode,
    addresses: AddressBook,
    quorum: Quorum,
    controller: Controller,
) -> JoinClusterResponse:
    try:
        node_id = NodeId(message.node_id)
        cluster_id = await controller.register(
            node_id,
            lambda image: admit_node(
                image,
                message.cluster_id,
                node_id,
                message.incarnation_id,
                tuple(Endpoint(it.listener, it.host, it.port) for it in message.endpoints),
                message.rack,
                directory=message.directory_id,
                session_ms=message.session_ms,
                start_count=message.life,
                is_heard=controller.is_heard(NodeId(message.node_id)),
            ),
        )
    except Refusal as refusal:
        if refusal.code is ErrorCode.NOT_CONTROLLER and message.cluster_id == local.cluster_id(quorum.image):
            _note_moved(message, addresses)
        return JoinClusterResponse(refusal.code, refusal.message)
    return JoinClusterResponse(cluster_id=cluster_id, nodes=list(_addresses(quorum.image)))


def _note_moved(message: JoinClusterRequest, addresses: AddressBook) -> None:
    for endpoint in message.endpoints:
        if endpoint.listener == NODES:
            voter = ReplicaKey(NodeId(message.node_id), message.directory_id)
            addresses.note_moved(voter, Address(endpoint.host, endpoint.port))


def _addresses(image: ClusterImage) -> Iterator[MemberAddress]:
    for node_id, node in sorted(image.nodes.items()):
        endpoint = node.endpoint(NODES)
        if endpoint is not None:
            yield MemberAddress(node_id, endpoint.host, endpoint.port)
