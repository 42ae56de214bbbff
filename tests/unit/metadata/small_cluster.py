"""A cluster to try commands on: its image after some records, and one node's view of it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from headrace.metadata.commands.node_commands import register_node, unfence_node
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.metadata.decisions.decision import Decision
from headrace.metadata.decisions.slices import first_slice
from headrace.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage
from headrace.metadata.image.effective_configs import NodeConfigs
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId, TopicId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.metadata.decisions.decision import Outcome
    from headrace.metadata.decisions.slices import PartitionChange

NODE = NodeConfigs.checked(NodeId(1), {})


def numbered_topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


class TopicIds:
    """Hands out 1, 2, 3 … as topic ids."""

    def __init__(self, first: int = 1) -> None:
        self._numbers: Iterator[int] = count(first)

    def __call__(self) -> TopicId:
        return numbered_topic_id(next(self._numbers))


def cluster_of(*node_ids: int) -> ClusterImage:
    image = EMPTY_IMAGE
    for node_id in node_ids:
        registered = register_node(image, NodeId(node_id), b"first life")
        image = image.apply_all(registered.records)
        image = image.apply_all(unfence_node(image, NodeId(node_id), registered.response).records)
    return image


def with_topics(image: ClusterImage, *topics: NewTopic) -> ClusterImage:
    """The ids continue where the image's own topics end."""
    decision = create_topics(image, topics, NODE, TopicIds(len(image.topics) + 1))
    for outcome in decision.response:
        assert not isinstance(outcome.result, Refusal), outcome.result
    return image.apply_all(decision.records)


def refused(outcome: Outcome[object]) -> tuple[ErrorCode, str]:
    assert isinstance(outcome.result, Refusal), f"{outcome.name} was not refused: {outcome.result}"
    return outcome.result.code, outcome.result.message


def swept(image: ClusterImage, *changes: PartitionChange) -> Decision[int]:
    """All that the changes do to the partitions of `image`, as one decision. The response is to how many."""
    records = [it for change in changes for it in first_slice(image, [change]).records]
    return Decision(tuple(records), len(records))
