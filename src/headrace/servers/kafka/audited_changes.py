"""What a request has changed, as its answer says: one entry for each thing that it names. Values of settings are left
out unless they are known to be no secret, and passwords never come this far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.access.operations import Operation, PatternType, Permission, ResourceType
from headrace.metadata.configs.group_configs import GROUP_CONFIGS
from headrace.metadata.configs.topic_configs import TOPIC_CONFIGS
from headrace.model.errors import ErrorCode
from headrace.model.names import topic_id_text
from headrace.wire.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from enum import IntEnum

VALUE_MAX: Final = 100
LISTED_MAX: Final = 20  # of the parts of one thing, as the settings of a topic
WHOLE_CLUSTER: Final = "the cluster"
SHOWN_VALUES: Final = {*TOPIC_CONFIGS, *GROUP_CONFIGS}
_CONFIG_KINDS: Final = {2: "topic", 4: "broker", 32: "group"}
_CONFIG_OPERATIONS: Final = {0: "=", 1: " deleted", 2: "+=", 3: "-="}
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class Change(NamedTuple):
    resource: str
    error_code: int
    detail: str = ""


def _topics_created(message: Any, answer: Any) -> Iterator[Change]:
    if message.validate_only:
        return
    asked = {topic.name: topic for topic in message.topics}
    for topic in answer.topics:
        wanted = asked.get(topic.name)
        settings = [] if wanted is None else [_setting(it.name, "=", it.value) for it in wanted.configs]
        sizes = f"{topic.num_partitions} partitions, {topic.replication_factor} replicas"
        yield Change(
            _named("topic", topic.name), topic.error_code, _listed([*([] if topic.error_code else [sizes]), *settings])
        )


def _topics_deleted(_: Any, answer: Any) -> Iterator[Change]:
    for topic in answer.responses:
        name = topic_id_text(topic.topic_id) if topic.name is None else topic.name
        yield Change(_named("topic", name), topic.error_code)


def _partitions_created(message: Any, answer: Any) -> Iterator[Change]:
    if message.validate_only:
        return
    counts = {topic.name: topic.count for topic in message.topics}
    for topic in answer.results:
        yield Change(_named("topic", topic.name), topic.error_code, f"{counts.get(topic.name)} partitions")


def _records_deleted(message: Any, answer: Any) -> Iterator[Change]:
    offsets = {(topic.name, part.partition_index): part.offset for topic in message.topics for part in topic.partitions}
    for topic in answer.topics:
        for part in topic.partitions:
            before = offsets.get((topic.name, part.partition_index), -1)
            detail = f"records of partition {part.partition_index} before {'its end' if before < 0 else before}"
            yield Change(_named("topic", topic.name), part.error_code, detail)


def _acls_created(message: Any, answer: Any) -> Iterator[Change]:
    for rule, result in zip(message.creations, answer.results, strict=False):
        yield Change(_pattern(rule), result.error_code, _rule(rule))


def _acls_deleted(_: Any, answer: Any) -> Iterator[Change]:
    for result in answer.filter_results:
        if result.error_code:
            yield Change(WHOLE_CLUSTER, result.error_code)
        for rule in result.matching_acls:
            yield Change(_pattern(rule), rule.error_code, _rule(rule))


def _pattern(rule: Any) -> str:
    kind = _word(ResourceType, rule.resource_type)
    pattern = rule.resource_pattern_type if hasattr(rule, "resource_pattern_type") else rule.pattern_type
    return f"{kind} {_word(PatternType, pattern)} {rule.resource_name[:VALUE_MAX]!r}"


def _rule(rule: Any) -> str:
    permission, operation = _word(Permission, rule.permission_type), _word(Operation, rule.operation)
    return f"{permission} {operation} to {rule.principal[:VALUE_MAX]} from {rule.host[:VALUE_MAX]}"


def _word(kinds: type[IntEnum], number: int) -> str:
    try:
        return kinds(number).name.lower()
    except ValueError:
        return str(number)


def _configs_altered(message: Any, answer: Any) -> Iterator[Change]:
    if message.validate_only:
        return
    asked = {(resource.resource_type, resource.resource_name): resource.configs for resource in message.resources}
    for resource in answer.responses:
        configs = asked.get((resource.resource_type, resource.resource_name), ())
        settings = [
            _setting(it.name, _CONFIG_OPERATIONS.get(getattr(it, "config_operation", 0), "?"), it.value)
            for it in configs
        ]
        kind = _CONFIG_KINDS.get(resource.resource_type, f"resource of type {resource.resource_type}")
        yield Change(_named(kind, resource.resource_name), resource.error_code, _listed(settings))


def _setting(name: str, sign: str, value: str | None) -> str:
    """A broker's settings may be secrets, and so may what somebody gave a wrong name."""
    if value is None or sign == " deleted":
        return f"{name[:VALUE_MAX]} deleted"
    return f"{name[:VALUE_MAX]}{sign}{value[:VALUE_MAX] if name in SHOWN_VALUES else '…'}"


def _groups_deleted(_: Any, answer: Any) -> Iterator[Change]:
    for group in answer.results:
        yield Change(_named("group", group.group_id), group.error_code)


def _offsets_deleted(message: Any, answer: Any) -> Iterator[Change]:
    group = _named("group", message.group_id)
    if answer.error_code:
        yield Change(group, answer.error_code)
    for topic in answer.topics:
        for part in topic.partitions:
            yield Change(group, part.error_code, f"the offset of {topic.name}-{part.partition_index}")


def _leaders_elected(message: Any, answer: Any) -> Iterator[Change]:
    kind = "unclean election" if getattr(message, "election_type", 0) else "preferred leader"
    if getattr(answer, "error_code", 0):
        yield Change(WHOLE_CLUSTER, answer.error_code, kind)
    for topic in answer.replica_election_results:
        for part in topic.partition_result:
            if part.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                yield Change(_named("topic", topic.topic), part.error_code, f"partition {part.partition_id}: {kind}")


def _reassigned(message: Any, answer: Any) -> Iterator[Change]:
    if answer.error_code:
        yield Change(WHOLE_CLUSTER, answer.error_code)
    wanted = {
        (topic.name, part.partition_index): part.replicas for topic in message.topics for part in topic.partitions
    }
    for topic in answer.responses:
        for part in topic.partitions:
            replicas = wanted.get((topic.name, part.partition_index))
            to = "its move is cancelled" if replicas is None else f"to nodes {', '.join(map(str, replicas))}"
            yield Change(_named("topic", topic.name), part.error_code, f"partition {part.partition_index} {to}")


def _features_updated(message: Any, answer: Any) -> Iterator[Change]:
    if not getattr(message, "validate_only", False):
        levels = [f"{it.feature[:VALUE_MAX]}={it.max_version_level}" for it in message.feature_updates]
        yield Change(WHOLE_CLUSTER, answer.error_code, _listed(levels))


def _node_unregistered(message: Any, answer: Any) -> Iterator[Change]:
    yield Change(f"node {message.broker_id}", answer.error_code)


def _voter_changed(message: Any, answer: Any) -> Iterator[Change]:
    yield Change(f"node {message.voter_id}", answer.error_code)


def _node_drained(message: Any, answer: Any) -> Iterator[Change]:
    detail = "its partitions move away" if message.is_draining else "it takes partitions again"
    yield Change(f"node {message.node_id}", answer.error_code, detail)


def _scrubbed(message: Any, answer: Any) -> Iterator[Change]:
    if not message.is_question:
        yield Change(WHOLE_CLUSTER if message.topic is None else _named("topic", message.topic), answer.error_code)


def _users_altered(message: Any, answer: Any) -> Iterator[Change]:
    done: dict[str, list[str]] = {}
    for it in message.deletions:
        done.setdefault(it.name, []).append(f"{_mechanism(it)} deleted")
    for it in message.upsertions:
        done.setdefault(it.name, []).append(f"{_mechanism(it)} set, {it.iterations} iterations")
    for user in answer.results:
        yield Change(_named("user", user.user), user.error_code, _listed(done.get(user.user, [])))


def _mechanism(it: Any) -> str:
    return _MECHANISMS.get(it.mechanism, f"mechanism {it.mechanism}")


def _quotas_altered(message: Any, answer: Any) -> Iterator[Change]:
    if message.validate_only:
        return
    for entry, result in zip(message.entries, answer.entries, strict=False):
        whom = ", ".join(
            f"{it.entity_type} {'by default' if it.entity_name is None else repr(it.entity_name[:VALUE_MAX])}"
            for it in entry.entity[:LISTED_MAX]
        )
        changed = [
            f"{it.key[:VALUE_MAX]} deleted" if it.remove else f"{it.key[:VALUE_MAX]}={it.value:g}" for it in entry.ops
        ]
        yield Change(f"quota of {whom}", result.error_code, _listed(changed))


def _markers_written(_: Any, answer: Any) -> Iterator[Change]:
    for marker in answer.markers:
        for topic in marker.topics:
            for part in topic.partitions:
                detail = f"a transaction of producer {marker.producer_id} is ended in partition {part.partition_index}"
                yield Change(_named("topic", topic.name), part.error_code, detail)


def _named(kind: str, name: str) -> str:
    return f"{kind} {name!r}"


def _listed(words: list[str]) -> str:
    more = len(words) - LISTED_MAX
    return ", ".join(words[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


AUDITED: dict[ApiKey, Callable[[Any, Any], Iterable[Change]]] = {
    ApiKey.CREATE_TOPICS: _topics_created,
    ApiKey.DELETE_TOPICS: _topics_deleted,
    ApiKey.CREATE_PARTITIONS: _partitions_created,
    ApiKey.DELETE_RECORDS: _records_deleted,
    ApiKey.CREATE_ACLS: _acls_created,
    ApiKey.DELETE_ACLS: _acls_deleted,
    ApiKey.ALTER_CONFIGS: _configs_altered,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs_altered,
    ApiKey.DELETE_GROUPS: _groups_deleted,
    ApiKey.OFFSET_DELETE: _offsets_deleted,
    ApiKey.ELECT_LEADERS: _leaders_elected,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassigned,
    ApiKey.UPDATE_FEATURES: _features_updated,
    ApiKey.UNREGISTER_BROKER: _node_unregistered,
    ApiKey.ADD_RAFT_VOTER: _voter_changed,
    ApiKey.REMOVE_RAFT_VOTER: _voter_changed,
    ApiKey.DRAIN_NODE: _node_drained,
    ApiKey.SCRUB_LOGS: _scrubbed,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _users_altered,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas_altered,
    ApiKey.WRITE_TXN_MARKERS: _markers_written,
}
"""What changes something that is not a client's everyday work."""
