"""What an operator asks of a cluster: topics, settings, nodes, disks.

What a node refuses is raised as a Refusal in the node's own words. Messages are imported where they are used: a command
that asks one thing does not wait for the others to load.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.errors import refuse_unless_ok
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId, Offset, TopicPartition
from headrace.runtime.network import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.connection import Answer
    from headrace.client.connections.view import Topic
    from headrace.wire.api import Message
    from headrace.wire.messages.describe_configs import DescribeConfigsResourceResult

FENCED_NODES_FROM = 2  # the version of DescribeCluster
BY_DEFAULT = -1  # partitions or replicas: as many as the cluster's settings say


class ResourceType(IntEnum):
    """What kind of thing has settings, by its number in the protocol."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a setting's value comes from, by its number in the protocol."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:  # noqa: ARG003 - a newer node may know more sources
        return cls.UNKNOWN


class ConfigChange(IntEnum):
    """What to do with a setting. APPEND and SUBTRACT are for lists, such as `cleanup.policy`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """Something that has settings."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name!r}"


class Config(NamedTuple):
    """One setting of a resource, and where its value comes from. A sensitive one has no value here."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """True if nobody has set it."""
        return self.source in {ConfigSource.DEFAULT, ConfigSource.UNKNOWN}


class ClusterNode(NamedTuple):
    """A node as the controller knows it. One that is fenced serves nothing: it is down, or not let in yet."""

    node_id: NodeId
    address: Address
    rack: str | None
    is_fenced: bool
    is_draining: bool


class ClusterDescription(NamedTuple):
    """The cluster's name, its controller, and its nodes by id."""

    cluster_id: str
    controller_id: NodeId
    nodes: tuple[ClusterNode, ...]


class Compaction(NamedTuple):
    """How one node's copy of a compacted partition fares."""

    dirty_bytes: int
    saved_bytes: int
    """Since the node's start."""
    last_pass_ms: int | None
    error: str | None


class LogDir(NamedTuple):
    """One node's directory and what lies in it."""

    node_id: NodeId
    path: str
    total_bytes: int
    usable_bytes: int
    sizes: dict[TopicPartition, int]
    compactions: dict[TopicPartition, Compaction]
    """Of those that are compacted."""


class Admin:
    """Topics, settings, nodes and disks of a cluster. Make one whenever it is needed; it holds nothing but the cluster.

        async with system_cluster("localhost:9092") as cluster:
            await Admin(cluster).create_topic("orders", partitions=6, configs={"retention.ms": "86400000"})

    Every method raises Refusal if a node says no, with the node's words and an error code, and ClusterUnreachable if no
    node answers. Trouble that passes, such as an election, is waited out for `retry_for_s` of the cluster's settings.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timeout_ms = int(cluster.settings.request_timeout_s * 1000)

    # Topics.

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = BY_DEFAULT,
        replication_factor: int = BY_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; returns when it can be used.

        `partitions` and `replication_factor` are the cluster's defaults if they are left out; `configs` are the topic's
        own settings, such as `{"cleanup.policy": "compact"}`. Refusal TOPIC_ALREADY_EXISTS if there is one of that
        name.
        """
        from headrace.wire.messages.create_topics import (  # noqa: PLC0415
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
            CreateTopicsResponse,
        )

        settings = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
        topic = CreatableTopic(name, partitions, replication_factor, [], settings)
        request = CreateTopicsRequest([topic], self._timeout_ms)

        async def attempt() -> None:
            answer = await self._cluster.ask_controller(request, CreateTopicsResponse)
            for result in answer.topics:
                refuse_unless_ok(result.error_code, f"topic {name!r}", result.error_message)

        await self._cluster.retry(attempt)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all of its records. Refusal UNKNOWN_TOPIC_OR_PARTITION if there is none."""
        from headrace.wire.messages.delete_topics import (  # noqa: PLC0415
            DeleteTopicsRequest,
            DeleteTopicsResponse,
            DeleteTopicState,
        )

        await self._cluster.topic(name)  # told at once if it is not there
        request = DeleteTopicsRequest([DeleteTopicState(name)], [name], self._timeout_ms)

        async def attempt() -> None:
            answer = await self._cluster.ask_controller(request, DeleteTopicsResponse)
            for result in answer.responses:
                refuse_unless_ok(result.error_code, f"topic {name!r}", result.error_message)

        await self._cluster.retry(attempt)

    async def add_partitions(self, name: str, total: int) -> None:
        """Raise a topic's partitions to `total`. Refusal INVALID_PARTITIONS if it has as many already.

        Keys are spread over the new number from then on: a key's later records may be in another partition.
        """
        from headrace.wire.messages.create_partitions import (  # noqa: PLC0415
            CreatePartitionsRequest,
            CreatePartitionsResponse,
            CreatePartitionsTopic,
        )

        await self._cluster.topic(name)
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, total, None)], self._timeout_ms)

        async def attempt() -> None:
            answer = await self._cluster.ask_controller(request, CreatePartitionsResponse)
            for result in answer.results:
                refuse_unless_ok(result.error_code, f"topic {name!r}", result.error_message)

        await self._cluster.retry(attempt)

    async def list_topics(self) -> list[Topic]:
        """All topics, by name."""
        view = await self._cluster.full_view()
        return [view.topics[name] for name in sorted(view.topics)]

    async def describe_topic(self, name: str) -> Topic:
        """A topic with its partitions, their leaders and replicas. Refusal if there is none."""
        return await self._cluster.topic(name)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        """Delete what lies before these offsets (-1: all that is committed). Returns the new first offsets.

        Whole segments go from disk, later; but from now on nobody is given anything before these offsets.
        """
        from headrace.wire.messages.delete_records import (  # noqa: PLC0415
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsResponse,
            DeleteRecordsTopic,
        )

        firsts: dict[TopicPartition, Offset] = {}
        for topic in dict.fromkeys(name.topic for name in before):
            await self._cluster.topic(topic)

        async def delete_the_rest() -> None:
            for name, offset in before.items():
                if name in firsts:
                    continue
                partition = self._cluster.leader_of(name)
                if partition is None:
                    raise self._cluster.why_no_leader(name)
                share = DeleteRecordsTopic(name.topic, [DeleteRecordsPartition(name.partition, offset)])
                connection = await self._cluster.node_connection(partition.leader)
                answer = await connection.request(
                    DeleteRecordsRequest([share], self._timeout_ms), DeleteRecordsResponse
                )
                result = answer.topics[0].partitions[0]
                refuse_unless_ok(result.error_code, f"{name} before offset {offset}")
                firsts[name] = Offset(result.low_watermark)

        await self._cluster.retry(delete_the_rest)
        return firsts

    # Settings.

    async def describe_configs(self, resource: Resource, *, with_documentation: bool = False) -> list[Config]:
        """The settings of a topic, node or group, by name. `with_documentation` asks for their explanations."""
        from headrace.wire.messages.describe_configs import (  # noqa: PLC0415
            DescribeConfigsRequest,
            DescribeConfigsResource,
            DescribeConfigsResponse,
        )

        await self._check_there(resource)
        request = DescribeConfigsRequest(
            [DescribeConfigsResource(resource.type, resource.name, None)], include_documentation=with_documentation
        )

        async def attempt() -> list[Config]:
            answer = await self._ask_owner(resource, request, DescribeConfigsResponse)
            result = answer.results[0]
            refuse_unless_ok(result.error_code, str(resource), result.error_message)
            return [_config(config) for config in sorted(result.configs, key=lambda config: config.name)]

        return await self._cluster.retry(attempt)

    async def alter_configs(self, resource: Resource, changes: Sequence[tuple[str, ConfigChange, str | None]]) -> None:
        """Change settings of one resource: all of these changes or none.

            topic = Resource(ResourceType.TOPIC, "orders")
            await admin.alter_configs(topic, [("retention.ms", ConfigChange.SET, "60000")])

        Refusal INVALID_CONFIG if a name or a value is not accepted.
        """
        from headrace.wire.messages.incremental_alter_configs import (  # noqa: PLC0415
            AlterableConfig,
            AlterConfigsResource,
            IncrementalAlterConfigsRequest,
            IncrementalAlterConfigsResponse,
        )

        await self._check_there(resource)
        configs = [AlterableConfig(name, change, value) for name, change, value in changes]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(resource.type, resource.name, configs)])

        async def attempt() -> None:
            answer = await self._ask_owner(resource, request, IncrementalAlterConfigsResponse)
            for result in answer.responses:
                refuse_unless_ok(result.error_code, str(resource), result.error_message)

        await self._cluster.retry(attempt)

    # The cluster.

    async def describe_cluster(self) -> ClusterDescription:
        """All nodes; also those that are not there now, if the cluster is new enough to tell."""
        from headrace.wire.messages.describe_cluster import (  # noqa: PLC0415
            DescribeClusterRequest,
            DescribeClusterResponse,
        )

        async def attempt() -> ClusterDescription:
            connection = await self._cluster.any_connection()
            knows_fenced = connection.version_for(DescribeClusterRequest) >= FENCED_NODES_FROM
            request = DescribeClusterRequest(include_fenced_brokers=knows_fenced)
            answer = await connection.request(request, DescribeClusterResponse)
            refuse_unless_ok(answer.error_code, "DescribeCluster", answer.error_message)
            nodes = tuple(
                ClusterNode(
                    NodeId(node.broker_id),
                    Address(node.host, node.port),
                    node.rack,
                    node.is_fenced,
                    node.is_draining,
                )
                for node in sorted(answer.brokers, key=lambda node: node.broker_id)
            )
            return ClusterDescription(answer.cluster_id, NodeId(answer.controller_id), nodes)

        return await self._cluster.retry(attempt)

    async def log_dirs(self, node_id: int) -> list[LogDir]:
        """What lies in the directories of one node, and how much room is left there."""
        from headrace.wire.messages.describe_log_dirs import (  # noqa: PLC0415
            DescribeLogDirsRequest,
            DescribeLogDirsResponse,
        )

        async def attempt() -> list[LogDir]:
            connection = await self._cluster.node_connection(node_id)
            answer = await connection.request(DescribeLogDirsRequest(None), DescribeLogDirsResponse)
            refuse_unless_ok(answer.error_code, f"directories of node {node_id}")
            return [
                LogDir(
                    NodeId(node_id),
                    found.log_dir,
                    found.total_bytes,
                    found.usable_bytes,
                    {
                        TopicPartition(topic.name, part.partition_index): part.partition_size
                        for topic in found.topics
                        for part in topic.partitions
                        if not part.is_future_key
                    },
                    {
                        TopicPartition(topic.name, part.partition_index): Compaction(
                            part.dirty_bytes,
                            part.saved_bytes,
                            part.compacted_ms if part.compacted_ms >= 0 else None,
                            part.compaction_error,
                        )
                        for topic in found.topics
                        for part in topic.partitions
                        if part.dirty_bytes >= 0
                    },
                )
                for found in answer.results
            ]

        return await self._cluster.retry(attempt)

    async def all_log_dirs(self) -> list[LogDir]:
        """What lies in the directories of every node that is alive. One that has just been lost is still among those
        that clients are told of, and not waited for."""
        nodes = (await self.describe_cluster()).nodes
        alive = [node.node_id for node in nodes if not node.is_fenced]
        return [directory for node_id in alive for directory in await self.log_dirs(node_id)]

    async def partition_sizes(self) -> dict[TopicPartition, int]:
        """Bytes of each partition: the largest copy, where nodes differ."""
        return largest_copies(await self.all_log_dirs())

    async def _check_there(self, resource: Resource) -> None:
        """A topic that is not there is told at once. Asked of a node it is trouble that may pass, and tried again."""
        if resource.type is ResourceType.TOPIC:
            await self._cluster.topic(resource.name)

    async def _ask_owner(self, resource: Resource, request: Message, answer: type[Answer]) -> Answer:
        """A node's settings are known to that node alone; everything else, any node answers."""
        if resource.type is not ResourceType.BROKER or not resource.name:
            return await self._cluster.ask_controller(request, answer)
        view = await self._cluster.refresh()
        node_id = int(resource.name)
        if node_id not in view.nodes:
            known = ", ".join(str(known) for known in sorted(view.nodes))
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, f"there is no node {node_id}; these are: {known}")
        connection = await self._cluster.node_connection(node_id)
        return await connection.request(request, answer)


def _config(config: DescribeConfigsResourceResult) -> Config:
    return Config(
        config.name,
        config.value,
        ConfigSource(config.config_source),
        config.read_only,
        config.is_sensitive,
        config.documentation,
    )


def largest_copies(directories: Iterable[LogDir]) -> dict[TopicPartition, int]:
    """Bytes of each partition: the largest copy, where nodes differ."""
    sizes: dict[TopicPartition, int] = {}
    for directory in directories:
        for name, size in directory.sizes.items():
            sizes[name] = max(size, sizes.get(name, 0))
    return sizes
