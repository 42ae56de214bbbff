"""The settings of a consumer group, under Kafka's names. They are for groups of the newer protocol (KIP-848).

Members of classic groups say themselves how long they may be silent. Kafka's other kinds of groups, share and streams,
are not here, and neither are their settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.metadata.configs.config_keys import ConfigKey, ConfigType, Synonym
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.metadata.configs.settings import NodeSettings

HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
SESSION: Final = "consumer.session.timeout.ms"

GROUP_NAME_MAX: Final = 1_024  # characters; the settings of a group are in the memory of every node
GROUPS_MAX: Final = 10_000  # that have settings of their own: whoever invents groups must not fill the metadata log

GROUP_CONFIGS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        ConfigKey(
            HEARTBEAT,
            ConfigType.INT,
            "2000",
            "How often members of the group report; they learn of a rebalance when they do.",
            low=1,
            synonyms=(Synonym("group.consumer.heartbeat.interval.ms"),),
        ),
        ConfigKey(
            SESSION,
            ConfigType.INT,
            "45000",
            "How long a member of the group may be silent before it is removed.",
            low=1,
            synonyms=(Synonym("group.consumer.session.timeout.ms"),),
        ),
    )
}
"""Sorted by name, which is the order in which they are shown."""


class GroupTimes(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int


def group_times(own: Mapping[str, str], node: NodeSettings) -> GroupTimes:
    """What holds for a group with these settings. Bounds that became tighter since they were set are kept to."""
    session_ms, heartbeat_ms = node.group_consumer_session_timeout_ms, node.group_consumer_heartbeat_interval_ms
    if SESSION in own:
        low, high = node.group_consumer_min_session_timeout_ms, node.group_consumer_max_session_timeout_ms
        session_ms = min(max(int(own[SESSION]), low), high)
    if HEARTBEAT in own:
        low, high = node.group_consumer_min_heartbeat_interval_ms, node.group_consumer_max_heartbeat_interval_ms
        heartbeat_ms = min(max(int(own[HEARTBEAT]), low), high)
    return GroupTimes(session_ms, heartbeat_ms)


def check_group_configs(own: Mapping[str, str], node: NodeSettings) -> None:
    """Raises Refusal(INVALID_CONFIG) if the node's bounds do not allow them, or they contradict each other."""
    bounds = {
        SESSION: (node.group_consumer_min_session_timeout_ms, node.group_consumer_max_session_timeout_ms),
        HEARTBEAT: (node.group_consumer_min_heartbeat_interval_ms, node.group_consumer_max_heartbeat_interval_ms),
    }
    for name, (low, high) in bounds.items():
        if name in own and not low <= int(own[name]) <= high:
            setting = name.removeprefix("consumer.")
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"{name} must be from {low} (group.consumer.min.{setting}) to {high} (group.consumer.max.{setting}), "
                f"not {int(own[name])}",
            )
    times = group_times(own, node)
    if own and times.session_timeout_ms <= times.heartbeat_interval_ms:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"{SESSION} ({times.session_timeout_ms}) must be more than {HEARTBEAT} ({times.heartbeat_interval_ms})",
        )


def group_config_key(name: str) -> ConfigKey:
    key = GROUP_CONFIGS.get(name)
    if key is None:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"there is no group setting {name[:200]!r}; `headrace configs describe --group NAME` lists them",
        )
    return key


def check_group_name(name: str) -> None:
    if not name or len(name) > GROUP_NAME_MAX:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"settings are given to one group, by its name of 1 to {GROUP_NAME_MAX} characters, not {len(name)}",
        )
