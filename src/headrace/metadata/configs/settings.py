"""Settings as typed values: what runs goes by these, and never looks at the texts again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.metadata.configs.node_configs import BEHAVIOUR_CONFIGS
from headrace.metadata.configs.topic_configs import (
    ALL_REPLICAS,
    COMPACT,
    DELETE,
    FLUSHED,
    LOG_APPEND_TIME,
    PRODUCER,
    TOPIC_CONFIGS,
)
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches.header import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.model.names import NodeId

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic's effective settings, one field per entry of `TOPIC_CONFIGS`, in the units that the names say."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    durability: str
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    validate_compressed: bool

    # Asked for every batch, so worked out once.
    codec: Codec | None = field(init=False)
    """How batches are to be packed; None leaves each as its producer packed it."""
    is_log_append_time: bool = field(init=False)
    _throttled_leaders: frozenset[str] = field(init=False)
    _throttled_followers: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        codec = None if self.compression_type == PRODUCER else _CODECS[self.compression_type]
        is_log_append_time = self.message_timestamp_type == LOG_APPEND_TIME
        object.__setattr__(self, "codec", codec)
        object.__setattr__(self, "is_log_append_time", is_log_append_time)
        object.__setattr__(self, "_throttled_leaders", frozenset(self.leader_replication_throttled_replicas))
        object.__setattr__(self, "_throttled_followers", frozenset(self.follower_replication_throttled_replicas))

    def throttles_leader(self, partition: int, node_id: NodeId) -> bool:
        """Whether that node, where it leads, copies the partition no faster than its throttle allows."""
        return _names(self._throttled_leaders, partition, node_id)

    def throttles_follower(self, partition: int, node_id: NodeId) -> bool:
        return _names(self._throttled_followers, partition, node_id)

    @property
    def is_compacted(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        return DELETE in self.cleanup_policy

    @property
    def commits_when_flushed(self) -> bool:
        """False if a record in the page cache already counts as committed."""
        return self.durability == FLUSHED


def _names(throttled: frozenset[str], partition: int, node_id: NodeId) -> bool:
    return bool(throttled) and (ALL_REPLICAS in throttled or f"{partition}:{node_id}" in throttled)


def topic_settings_from(texts: Mapping[str, str]) -> TopicSettings:
    """Typed settings from a text for each setting; a missing one has its default. Raises Refusal on a bad value."""
    values: dict[str, Any] = {}
    for key in TOPIC_CONFIGS.values():
        text = texts.get(key.name, key.default)
        assert text is not None, "every topic setting has a default"
        values[key.field] = key.parse(text)
    return TopicSettings(**values)


def check_combination(settings: TopicSettings) -> None:
    """Raises Refusal if values that are allowed alone contradict each other.

    Asked when settings are made, not when they are read: a node's default may change under a topic later.
    """
    if settings.remote_storage_enable:
        raise Refusal(ErrorCode.INVALID_CONFIG, "remote.storage.enable cannot be true: there is no tiered storage here")
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms ({settings.min_compaction_lag_ms}) must not be more than "
            f"max.compaction.lag.ms ({settings.max_compaction_lag_ms})",
        )


DEFAULT_TOPIC_SETTINGS = topic_settings_from({})


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A node's effective settings, one field per entry of `BEHAVIOUR_CONFIGS`."""

    allow_everyone_if_no_acl_found: bool
    authorizer_class_name: str
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    connections_max_idle_ms: int
    controller_quorum_election_timeout_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    follower_replication_throttled_rate: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    audit_enable: str
    audit_file_max_bytes: int
    audit_files: int
    audit_topic_enable: bool
    election_wait_ms: int
    scrub_interval_ms: int
    scrub_max_bytes_per_second: int
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    leader_replication_throttled_rate: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_retention_check_interval_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: tuple[str, ...]
    max_incremental_fetch_session_cache_slots: int
    num_partitions: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_num_partitions: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    replica_alter_log_dirs_io_max_bytes_per_second: int
    replica_lag_time_max_ms: int
    socket_request_max_bytes: int
    super_users: str
    transaction_max_timeout_ms: int
    transaction_state_log_num_partitions: int
    transactional_id_expiration_ms: int


def node_settings_from(texts: Mapping[str, str]) -> NodeSettings:
    """Typed settings; a missing text means the default. Raises Refusal on a bad value."""
    values: dict[str, Any] = {}
    for key in BEHAVIOUR_CONFIGS:
        text = texts.get(key.name, key.default)
        assert text is not None, "every setting of a node's behaviour has a default"
        values[key.field] = key.parse(text)
    return NodeSettings(**values)


DEFAULT_NODE_SETTINGS = node_settings_from({})
