"""What a lease means for the partitions of a node: without one it leads none, whatever its image says."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from headrace.broker.health import Health
    from headrace.broker.membership.leaving import Leaving
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.replicas.reconciler import Reconciler

log = logging.getLogger(__name__)


class Leadership:
    def __init__(self, health: Health, topics: TopicTable, reconciler: Reconciler, leaving: Leaving) -> None:
        self._health = health
        self._topics = topics
        self._reconciler = reconciler
        self._leaving = leaving
        self._leading_again: asyncio.Future[None] | None = None

    def leased(self, is_leased: bool) -> None:
        """The others believe that this node is there, or may not any more: then it must refuse writes.

        Without a lease others may have led. The image says so, and partitions follow it one after the other: until they
        have, none of them leads again.
        """
        self._leading_again = None
        if is_leased:
            self._leading_again = self._reconciler.caught_up()
            self._leading_again.add_done_callback(self._lead_again)
            return
        if not self._leaving.has_begun:
            log.warning("the controller has not answered for too long; no writes are taken until it does")
        self._set_leased(is_leased=False)

    def _lead_again(self, caught_up: asyncio.Future[None]) -> None:
        if caught_up is self._leading_again:  # otherwise the lease has ended meanwhile
            self._set_leased(is_leased=True)

    def _set_leased(self, *, is_leased: bool) -> None:
        self._health.may_lead = is_leased
        for partition in self._topics.partitions():
            partition.set_leased(is_leased)
