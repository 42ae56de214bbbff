"""Ends transactions that hang: open in a partition, though no coordinator knows of them any more.

An operator's tools find such a transaction and send WriteTxnMarkers to the partition's leader, as the coordinator
would (KIP-664). Anybody who reaches the clients' listener can send that. A marker that its coordinator did not order
tears a living transaction in two, and one with an epoch that no coordinator has yet fences the real one for good. So
from there a marker is taken only if it can do neither.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.coordination.remote import ask_for_live
from headrace.metadata.configs.internal_topics import TRANSACTION_STATE
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.membership.peers import Peers
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.coordinators.transactions.effects import MarkerOrder
    from headrace.model.names import Epoch, NodeId, ProducerId, TopicPartition
    from headrace.replication.producers import Producer


class HangingTransactions:
    def __init__(self, view: MetadataView, topics: TopicTable, coordinators: Coordinators, peers: Peers) -> None:
        self._view = view
        self._topics = topics
        self._coordinators = coordinators
        self._peers = peers

    async def abort(self, order: MarkerOrder) -> dict[TopicPartition, ErrorCode]:
        """Write an operator's markers where nothing speaks against them. An outcome for each partition."""
        codes: dict[TopicPartition, ErrorCode] = {}
        found: dict[TopicPartition, Producer] = {}
        for name in order.partitions:
            try:
                found[name] = self._open_transaction(name, order)
            except Refusal as refusal:
                codes[name] = refusal.code
        if not found:
            return codes
        try:
            alive = await self._live_partitions(order.producer_id)
        except Refusal as refusal:
            return codes | dict.fromkeys(found, refusal.code)
        for name, before in found.items():
            try:
                # Its coordinator may have let it write again while we asked. What begins from here on needs a new
                # grant.
                if name in alive or self._open_transaction(name, order) != before:
                    codes[name] = ErrorCode.INVALID_TXN_STATE
            except Refusal as refusal:
                codes[name] = refusal.code
        hanging = tuple(name for name in found if name not in codes)
        return codes | await self._coordinators.markers.append_here(order._replace(partitions=hanging))

    def _open_transaction(self, name: TopicPartition, order: MarkerOrder) -> Producer:
        """The producer, as it is before anybody is asked. Raises Refusal unless its open transaction is meant."""
        partition = self._topics.partition(*name)
        partition.replica.check_read()
        producer = partition.log.producers.get(order.producer_id)
        if order.is_commit:
            raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only a coordinator may commit a transaction")
        if producer is None or not producer.has_open_transaction:
            raise Refusal(
                ErrorCode.INVALID_TXN_STATE, f"producer {order.producer_id} has no transaction open in {name}"
            )
        if order.producer_epoch != producer.epoch:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the open transaction of producer {order.producer_id} in {name} has epoch {producer.epoch}, "
                f"not {order.producer_epoch}",
            )
        # Where no coordinator has been yet, tools say 0, which none is below.
        if order.coordinator_epoch > max(producer.coordinator_epoch, 0):
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"no coordinator with epoch {order.coordinator_epoch} has written to {name}; the last one had "
                f"{producer.coordinator_epoch}",
            )
        return producer

    async def _live_partitions(self, producer_id: ProducerId) -> set[TopicPartition]:
        """Where the producer's transactions are open or ending, as all coordinators say. Raises Refusal if one
        does not."""
        topic = self._view.image.topic_named(TRANSACTION_STATE)
        if topic is None:
            return set()  # nobody coordinates anything
        asked: dict[NodeId, dict[int, Epoch]] = {}
        for index, state in topic.partitions.items():
            if not state.has_leader:
                raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{TRANSACTION_STATE}-{index} has no leader")
            asked.setdefault(state.leader, {})[index] = state.leader_epoch
        answers = await asyncio.gather(
            *(
                self._coordinators.live_here(producer_id, epochs)
                if leader == self._view.node_id
                else ask_for_live(self._peers, leader, producer_id, epochs)
                for leader, epochs in asked.items()
            )
        )
        return set().union(*answers)
