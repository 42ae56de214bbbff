"""What befalls stored batches: a bit flips on the device, and nobody is told; or a sector cannot be read any more.

Both are survived because another replica is whole. So they strike only where all replicas are in sync and no other copy
is damaged. After a flip the node looks at its files soon, as an operator or the calendar would have it do; of a bad
sector it hears from whoever reads there, or never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.batches.header import CRC_POSITION, HEADER_SIZE, read_header

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from headrace.broker.node import Node
    from headrace.broker.partitions.partition import Partition
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster
    from headrace.storage.segments.segment_span import SegmentSpan

BITS = 8
LOOKED_FOR = 0.3  # of bad sectors, by a scrub and not by chance


def flip_a_bit(cluster: SimulatedCluster, process: NodeProcess, chance: Random) -> bool:
    """Flip a bit that a CRC covers, and let the node look. False if there is no place where that may happen now."""
    found = _place(cluster, process, chance)
    if found is None:
        return False
    node, partition, span = found
    content = process.host.device.file(span.path).cached
    starts = _batch_starts(content, span.size)
    start = chance.choice(starts)
    end = start + read_header(content, start).size
    process.host.device.flip_bit(span.path, chance.randrange(start + CRC_POSITION, end), chance.randrange(BITS))
    node.scrub.begin(partition.name.topic, partition.index)
    return True


def spoil_a_sector(cluster: SimulatedCluster, process: NodeProcess, chance: Random) -> bool:
    """A sector of a log cannot be read from now on. False if there is no place where that may happen now."""
    if any(file.has_bad_sector for other in cluster.nodes for file in other.host.device.contents()):
        return False  # one copy at a time
    found = _place(cluster, process, chance)
    if found is None:
        return False
    node, partition, span = found
    process.host.device.spoil(span.path, chance.randrange(span.size))
    if chance.random() < LOOKED_FOR:
        node.scrub.begin(partition.name.topic, partition.index)
    return True


def _place(
    cluster: SimulatedCluster, process: NodeProcess, chance: Random
) -> tuple[Node, Partition, SegmentSpan] | None:
    node = process.node
    nodes = [other.node for other in cluster.nodes if other.is_serving and other.node is not None]
    if node is None or len(nodes) < len(cluster.nodes) or any(map(_is_mending, nodes)):
        return None
    places = [partition for partition in node.topics.partitions() if _is_safe(partition, nodes)]
    if not places:
        return None
    partition = chance.choice(places)
    return node, partition, chance.choice(partition.log.spans.since(closed_only=False))


def _is_mending(node: Node) -> bool:
    return bool(node.scrub.progress.is_running or node.damage.damaged_count or node.store.set_aside_damaged)


def _is_safe(partition: Partition, nodes: Sequence[Node]) -> bool:
    """All know that all replicas are in sync, and everything is on every device: no crash takes the whole ones away."""
    states = [node.image.partition(*partition.log_id) for node in nodes]
    copies = [node.topics.by_log_id(partition.log_id) for node in nodes]
    return (
        partition.log.next_offset > partition.log.start_offset
        and all(state is not None and state.has_leader and len(state.isr) == len(nodes) for state in states)
        and all(copy is not None and copy.log.flushed_offset == partition.log.next_offset for copy in copies)
    )


def _batch_starts(content: bytearray, size: int) -> list[int]:
    starts, position = [], 0
    while position + HEADER_SIZE <= size:
        starts.append(position)
        position += read_header(content, position).size
    return starts
