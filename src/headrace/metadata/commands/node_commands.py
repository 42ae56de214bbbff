"""What nodes ask of the controller for themselves: to be known, to be there, to leave, to hand out producer ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.decisions.decision import Decision
from headrace.metadata.decisions.slices import first_slice
from headrace.metadata.elections.partition_leaders import (
    has_part_in_any,
    led_again,
    moved_from_draining,
    partitions_of,
    taking_over,
)
from headrace.metadata.image.incarnations import Incarnation, is_superseded
from headrace.metadata.image.records import (
    ClusterNamed,
    Endpoint,
    NodeChanged,
    NodeRegistered,
    NodeRemoved,
    ProducerIdsReserved,
)
from headrace.metadata.liveness import SESSION_MS
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, NODE_ID_MAX, PORT_MAX, NodeId, ProducerId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.metadata.decisions.slices import PartitionChange
    from headrace.metadata.image.cluster_image import ClusterImage, Node
    from headrace.metadata.image.records import MetadataRecord

PRODUCER_IDS_PER_BLOCK = 1_000  # one metadata record per thousand new producers; what a node does not use is lost
HOST_LENGTH_MAX = 255  # of a name in DNS
PRODUCER_ID_MAX = 2**63 - 1  # the field's size
NOT_YET = -1
"""In place of a broker epoch: what the node led before it started anew is still being taken from it."""


class ProducerIdBlock(NamedTuple):
    """Producer ids that belong to one node: from `first` on, below `next`."""

    first: ProducerId
    next: ProducerId


def name_cluster(image: ClusterImage, cluster_id: str, first_records: Sequence[MetadataRecord] = ()) -> Decision[str]:
    """Give the cluster its id, once, and with it what it begins with. The response is the id that holds."""
    if image.cluster_id is not None:
        return Decision((), image.cluster_id)
    return Decision((ClusterNamed(cluster_id), *first_records), cluster_id)


def admit_node(
    image: ClusterImage,
    cluster_id: str,
    node_id: NodeId,
    incarnation: bytes,
    endpoints: tuple[Endpoint, ...] = (),
    rack: str | None = None,
    *,
    directory: bytes = b"",
    session_ms: int = SESSION_MS,
    start_count: int = 0,
    is_heard: bool = False,
) -> Decision[str]:
    """A node asks to be part of the cluster. It is registered, and hears the rest from the metadata log.

    `cluster_id` is what its directory says; empty, if it is a new one. The response is the cluster's; empty if the node
    has to ask again: see `register_node`.
    """
    if image.cluster_id is None:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the cluster is being founded; try again in a moment")
    if cluster_id and cluster_id != image.cluster_id:
        raise Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"this is the cluster {image.cluster_id}, and the node's data directory belongs to {cluster_id}; "
            "join that one, or choose an empty --data-dir",
        )
    registered = register_node(
        image,
        node_id,
        incarnation,
        endpoints,
        rack,
        directory=directory,
        session_ms=session_ms,
        start_count=start_count,
        is_heard=is_heard,
    )
    cluster_id = "" if registered.response == NOT_YET else image.cluster_id
    return Decision(registered.records, cluster_id, registered.loser, registered.rest)


def register_node(
    image: ClusterImage,
    node_id: NodeId,
    incarnation: bytes,
    endpoints: tuple[Endpoint, ...] = (),
    rack: str | None = None,
    *,
    directory: bytes = b"",
    session_ms: int = SESSION_MS,
    start_count: int = 0,
    is_heard: bool = False,
) -> Decision[int]:
    """A node has started anew: whatever it led or was in sync with before ends. The response is its broker epoch.

    It is fenced until it has caught up with the metadata and asks to be let in. Asking twice changes nothing.
    `is_heard`: somebody still says that he is this node, so that this one must be on a copy of its disk.

    NOT_YET if it had too much for one moment: that is taken from it first, and it has to ask again. Once registered it
    must not find itself leading in an epoch of before, nor an empty disk in sync: not even if the controller is lost in
    the middle.
    """
    known = image.nodes.get(node_id)
    if known is not None and known.incarnation == incarnation:
        return Decision((), known.broker_epoch)
    _check_registration(node_id, endpoints, session_ms)
    # What was flushed before is still there. On another disk, or an older copy of this one, it is not.
    is_other_disk = known is not None and known.directory not in {b"", directory}
    has_lost_disk = is_other_disk or is_superseded(known, directory, Incarnation(start_count, incarnation))
    _check_not_running(node_id, is_elsewhere=has_lost_disk and image.is_here(node_id), is_heard=is_heard)
    registered = NodeRegistered(
        node_id,
        incarnation,
        endpoints,
        rack,
        image.registrations + 1,
        directory,
        is_fenced=True,
        session_ms=session_ms,
        start_count=(
            start_count
            if known is None or is_other_disk or not start_count
            else max(start_count, known.start_count + 1)
        ),
    )
    if known is None:
        return Decision((registered,), registered.broker_epoch)
    return _registered_again(image, known, registered, has_lost_disk=has_lost_disk)


def _check_not_running(node_id: NodeId, *, is_elsewhere: bool, is_heard: bool) -> None:
    if is_elsewhere:
        raise Refusal(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"node {node_id} is running, with another data directory; give this node another --node-id. "
            "If its disk was just replaced: in a few seconds it is known that its last process has ended",
        )
    if is_heard:
        raise Refusal(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"node {node_id} is running, and this is another process; if its data directory was copied, choose an "
            "empty one and another --node-id. If it has just crashed: in a few seconds that is known",
        )


def _registered_again(
    image: ClusterImage, known: Node, registered: NodeRegistered, *, has_lost_disk: bool
) -> Decision[int]:
    """Others take over from the node that it was; if that is too much at once, it is registered later."""
    node_id = known.node_id
    fenced = NodeChanged(node_id, True, known.is_draining)
    changes = taking_over(node_id, has_lost_disk=has_lost_disk)
    taken, is_all = first_slice(image.apply(fenced), changes)
    loser = node_id if has_lost_disk else NO_NODE
    if is_all or not has_part_in_any(image, node_id, has_lost_disk=has_lost_disk):
        return Decision((registered, *taken), registered.broker_epoch, loser)
    return Decision((fenced, *taken), NOT_YET, loser, changes)


def _check_registration(node_id: NodeId, endpoints: tuple[Endpoint, ...], session_ms: int) -> None:
    """What is written down of a node is sent to all others and to clients."""
    if not 0 <= node_id <= NODE_ID_MAX:
        raise Refusal(ErrorCode.INVALID_REGISTRATION, f"{node_id} is no id of a node; use 0 to {NODE_ID_MAX}")
    if session_ms <= 0:
        raise Refusal(ErrorCode.INVALID_REGISTRATION, f"a session cannot last {session_ms} ms")
    for endpoint in endpoints:
        if not 0 < len(endpoint.host) <= HOST_LENGTH_MAX or not 0 <= endpoint.port <= PORT_MAX:
            raise Refusal(
                ErrorCode.INVALID_REGISTRATION,
                f"node {node_id} cannot be reached at port {endpoint.port} of {endpoint.host[:HOST_LENGTH_MAX]!r}",
            )


def unfence_node(image: ClusterImage, node_id: NodeId, broker_epoch: int) -> Decision[None]:
    """The node has caught up: from now on clients are sent to it, and it leads what nobody else could."""
    node = _registered(image, node_id, broker_epoch)
    if not node.is_fenced:
        return Decision((), None)
    unfenced, changes = NodeChanged(node_id, False, node.is_draining), (led_again,)
    return _with_changes((unfenced,), image, changes)


def fence_node(image: ClusterImage, *node_ids: NodeId) -> Decision[None]:
    """Nothing was heard of them for too long, or they have stopped: others take over. All who are gone at the same time
    are fenced in one decision: otherwise it would look as if the others had gone on without the first."""
    gone = [node for node_id in node_ids if (node := image.nodes.get(node_id)) is not None and not node.is_fenced]
    if not gone:
        return Decision((), None)
    fenced = tuple(NodeChanged(node.node_id, True, node.is_draining) for node in gone)
    return _with_changes(fenced, image, taking_over(*(node.node_id for node in gone)))


def drain_node(image: ClusterImage, node_id: NodeId, broker_epoch: int | None = None) -> Decision[None]:
    """The node is about to stop, or to be emptied: others lead, and it gets nothing new. It stays in sync meanwhile.

    `broker_epoch` is that of a node that asks for itself; None if somebody else asks.
    """
    node = _known(image, node_id) if broker_epoch is None else _registered(image, node_id, broker_epoch)
    if node.is_draining:
        return Decision((), None)
    draining, changes = NodeChanged(node_id, node.is_fenced, True), (moved_from_draining,)
    return _with_changes((draining,), image, changes)


def _with_changes(
    of_nodes: tuple[NodeChanged, ...], image: ClusterImage, changes: tuple[PartitionChange, ...]
) -> Decision[None]:
    """Changes of nodes, and what follows from them for their partitions."""
    records, is_all = first_slice(image.apply_all(of_nodes), changes)
    return Decision((*of_nodes, *records), None, rest=() if is_all else changes)


def undrain_node(image: ClusterImage, node_id: NodeId) -> Decision[None]:
    node = _known(image, node_id)
    if not node.is_draining:
        return Decision((), None)
    return Decision((NodeChanged(node_id, node.is_fenced, False),), None)


def remove_node(image: ClusterImage, node_id: NodeId) -> Decision[None]:
    """Forget a node that will not come back. It must have no replica."""
    check_removable(image, node_id)
    return Decision((NodeRemoved(node_id),), None)


def check_removable(image: ClusterImage, node_id: NodeId) -> None:
    node = _known(image, node_id)
    held = [partition for _, partition in partitions_of(image) if node_id in partition.replicas]
    if held:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"node {node_id} has {len(held)} replicas; drain it first, so that others take them over. If it is drained "
            "and they stay, there is no other node that lacks a copy: add one, and drain again",
        )
    if not node.is_fenced:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"node {node_id} is running; stop it first")


def reserve_producer_ids(image: ClusterImage, node_id: NodeId) -> Decision[ProducerIdBlock]:
    _known(image, node_id)
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
    block = ProducerIdBlock(first, ProducerId(first + PRODUCER_IDS_PER_BLOCK))
    return Decision((ProducerIdsReserved(node_id, block.next),), block)


def _known(image: ClusterImage, node_id: NodeId) -> Node:
    node = image.nodes.get(node_id)
    if node is None:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}; it must register first")
    return node


def _registered(image: ClusterImage, node_id: NodeId, broker_epoch: int) -> Node:
    """The node, if it asks under its present registration."""
    node = _known(image, node_id)
    if node.broker_epoch != broker_epoch:
        raise Refusal(
            ErrorCode.STALE_BROKER_EPOCH,
            f"node {node_id} has registered again since: broker epoch {node.broker_epoch}, not {broker_epoch}",
        )
    return node
