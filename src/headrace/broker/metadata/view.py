"""The committed metadata and what it means for this node, to be looked at and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.image.effective_configs import node_settings, topic_settings

if TYPE_CHECKING:
    from headrace.broker.metadata.quorum import Quorum
    from headrace.metadata.configs.settings import NodeSettings, TopicSettings
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.metadata.image.effective_configs import NodeConfigs
    from headrace.model.names import LogId, NodeId


class MetadataView:
    def __init__(self, node_id: NodeId, quorum: Quorum, configs: NodeConfigs) -> None:
        self.node_id = node_id
        self.configs = configs
        self._quorum = quorum
        self._settings = (quorum.image, node_settings(quorum.image, configs))
        """As they follow from an image, which is another one whenever anything has changed."""

    @property
    def image(self) -> ClusterImage:
        return self._quorum.image

    @property
    def settings(self) -> NodeSettings:
        image = self._quorum.image
        if self._settings[0] is not image:
            self._settings = (image, node_settings(image, self.configs))
        return self._settings[1]

    def topic_settings(self, name: str) -> TopicSettings:
        return topic_settings(self._quorum.image, name, self.configs)

    def partition(self, log_id: LogId) -> PartitionState | None:
        return self._quorum.image.partition(*log_id)

    def is_in_sync(self, log_id: LogId) -> bool:
        """Whether this node's replica is, as far as it has heard."""
        state = self.partition(log_id)
        return state is not None and self.node_id in state.isr

    def is_counted_on(self, state: PartitionState) -> bool:
        """Whether this node may be elected: then it must have all that was ever committed."""
        return self.node_id in {*state.isr, *state.eligible}
