"""What the parts that count look at: an image, settings, and a clock that stands still until it is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.configs.config_keys import INT_MAX
from headrace.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage
from headrace.metadata.image.records import QuotaChanged
from headrace.model.names import Millis

if TYPE_CHECKING:
    from headrace.access.quotas.entity import QuotaEntity
    from headrace.access.quotas.keys import QuotaKey
    from headrace.broker.metadata.quorum import ImageListener


class HandClock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> Millis:
        return Millis(0)


class View:
    """The image, and the settings of a node that says nothing of its own."""

    def __init__(self) -> None:
        self.image: ClusterImage = EMPTY_IMAGE
        self.listeners: list[ImageListener] = []
        self.quota_window_num = 11
        self.quota_window_size_seconds = 1
        self.controller_quota_window_num = 11
        self.controller_quota_window_size_seconds = 1
        self.max_connection_creation_rate = INT_MAX

    @property
    def settings(self) -> View:
        return self

    def set(self, entity: QuotaEntity, key: QuotaKey, value: float | None) -> None:
        before, records = self.image, [QuotaChanged(entity, key.value, value)]
        self.image = before.apply_all(records)
        for listener in self.listeners:
            listener.committed(before, records)
