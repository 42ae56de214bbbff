"""Where the other nodes may be found, as far as this one knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.membership.local_node import NODES
from headrace.runtime.network import Address

if TYPE_CHECKING:
    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.metadata.quorum import Quorum
    from headrace.model.names import NodeId
    from headrace.raft.membership import ReplicaKey


class AddressBook:
    def __init__(self, local: LocalNode, quorum: Quorum) -> None:
        self._local = local
        self._quorum = quorum
        self._told: dict[NodeId, Address] = {}
        """As the cluster said when it let this node in, or they said while nobody could decide."""

    def addresses_of(self, node_id: NodeId) -> list[Address]:
        """Where a node may be, the likeliest place first: where the log says, that is where it was when it last made
        itself known; where this node was told since it started; where its operator says. Those who have moved cannot
        write it into the log before somebody is elected, and that takes messages to their new places."""
        quorum = self._quorum
        images = (quorum.image,) if quorum.knows_agreed else (quorum.found_image, quorum.image)
        nodes = [image.nodes[node_id] for image in images if node_id in image.nodes]
        endpoints = [endpoint for node in nodes if (endpoint := node.endpoint(NODES)) is not None]
        told = [told[node_id] for told in (self._told, self._local.voters) if node_id in told]
        return list(dict.fromkeys([*(Address(it.host, it.port) for it in endpoints), *told]))

    def note(self, node_id: NodeId, address: Address) -> None:
        """The cluster has said so."""
        self._told[node_id] = address

    def note_moved(self, voter: ReplicaKey, address: Address) -> None:
        """A voter says where it is, and nobody leads who could write it down: to elect one may take its vote, and this
        node has to answer it."""
        if self._quorum.raft.membership.is_voter(voter):
            self.note(voter.node_id, address)
