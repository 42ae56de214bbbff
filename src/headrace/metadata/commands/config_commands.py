"""Change settings: the incremental way (set, delete, append, subtract) and the older one that replaces all of them.

Each resource is changed as a whole or not at all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.configs.config_keys import (
    CLUSTER_DEFAULTS,
    ConfigKey,
    ConfigResource,
    ResourceKind,
    list_with,
    list_without,
)
from headrace.metadata.configs.group_configs import GROUPS_MAX, check_group_configs, group_config_key
from headrace.metadata.configs.node_configs import node_config_key
from headrace.metadata.configs.topic_configs import topic_config_key
from headrace.metadata.decisions.decision import Decision, Outcome
from headrace.metadata.image.effective_configs import (
    ConfigLayers,
    NodeConfigs,
    check_resource,
    check_topic_settings,
    effective_topic_text,
    node_layers,
    node_settings,
    topic_layers,
)
from headrace.metadata.image.maps import Map
from headrace.metadata.image.records import ConfigChanged, MetadataRecord
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.metadata.image.cluster_image import ClusterImage


class ConfigOperation(IntEnum):
    """Kafka's numbers. APPEND and SUBTRACT are for lists only."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def config_operation(number: int) -> ConfigOperation:
    """The operation that a request names by its number."""
    try:
        return ConfigOperation(number)
    except ValueError:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"there is no config operation {number}; 0 to 3 are set, delete, append, subtract",
        ) from None


class ConfigEdit(NamedTuple):
    name: str
    operation: ConfigOperation
    value: str | None


@dataclass(frozen=True, slots=True)
class ResourceEdits:
    resource: ConfigResource
    edits: tuple[ConfigEdit, ...]


@dataclass(frozen=True, slots=True)
class ResourceConfigs:
    """All that shall be set for a resource; what is missing goes back to its default."""

    resource: ConfigResource
    configs: tuple[tuple[str, str | None], ...]


def incremental_alter_configs(
    image: ClusterImage, resources: Sequence[ResourceEdits], node: NodeConfigs, validate_only: bool = False
) -> Decision[list[Outcome[ConfigResource]]]:
    return _alter(image, resources, node, validate_only)


def alter_configs(
    image: ClusterImage, resources: Sequence[ResourceConfigs], node: NodeConfigs, validate_only: bool = False
) -> Decision[list[Outcome[ConfigResource]]]:
    return _alter(image, [_as_edits(image, wanted) for wanted in resources], node, validate_only)


def _as_edits(image: ClusterImage, wanted: ResourceConfigs) -> ResourceEdits:
    kept = {name for name, _ in wanted.configs}
    dropped = [name for name in sorted(image.configs_of(wanted.resource)) if name not in kept]
    edits = [ConfigEdit(name, ConfigOperation.SET, value) for name, value in wanted.configs]
    edits += [ConfigEdit(name, ConfigOperation.DELETE, None) for name in dropped]
    return ResourceEdits(wanted.resource, tuple(edits))


def _alter(
    image: ClusterImage, resources: Sequence[ResourceEdits], node: NodeConfigs, validate_only: bool
) -> Decision[list[Outcome[ConfigResource]]]:
    mentions = Counter(edits.resource for edits in resources)
    records: list[MetadataRecord] = []
    outcomes: list[Outcome[ConfigResource]] = []
    places = _Places(image)
    for edits in resources:
        resource = edits.resource
        try:
            if mentions[resource] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"the request names {resource} more than once")
            changed = _edited(image, edits, node)
            places.take(resource, changed)
        except Refusal as refusal:
            outcomes.append(Outcome(resource.name, refusal))
            continue
        records += changed
        outcomes.append(Outcome(resource.name, resource))
    return Decision(() if validate_only else tuple(records), outcomes)


class _Places:
    """How many more groups may have settings. Counted if one is named that has none yet."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._left: int | None = None

    def take(self, resource: ConfigResource, changed: Sequence[ConfigChanged]) -> None:
        """Raises Refusal if there is no place for one more."""
        if resource.kind is not ResourceKind.GROUP or not changed or resource in self._image.configs:
            return
        if self._left is None:
            self._left = GROUPS_MAX - sum(it.kind is ResourceKind.GROUP for it in self._image.configs)
        if self._left <= 0:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION, f"{GROUPS_MAX} groups have settings of their own; no more are kept"
            )
        self._left -= 1


def _edited(image: ClusterImage, edits: ResourceEdits, node: NodeConfigs) -> list[ConfigChanged]:
    resource = edits.resource
    check_resource(image, resource)
    for name, count in Counter(edit.name for edit in edits.edits).items():
        if count > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"the setting {name[:200]!r} is given {count} times")
    before = image.configs_of(resource)
    after = before
    for edit in edits.edits:
        text = _text_after(image, resource, edit, node)
        if text is not None:
            after = after.set(edit.name, text)
        elif edit.name in after:
            after = after.delete(edit.name)
    _check_together(image, resource, after, node)
    names = (edit.name for edit in edits.edits)
    return [ConfigChanged(resource, name, after.get(name)) for name in names if before.get(name) != after.get(name)]


def _text_after(image: ClusterImage, resource: ConfigResource, edit: ConfigEdit, node: NodeConfigs) -> str | None:
    """The text that the setting shall have; None if it shall not be set."""
    if edit.operation is ConfigOperation.DELETE:
        return None  # also of a name that nobody knows: tools that copy settings delete what the other cluster lacks
    key = _alterable_key(resource, edit.name)
    if edit.value is None:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{edit.name} has no value; to go back to the default, delete it")
    text = edit.value
    if edit.operation is not ConfigOperation.SET:
        if not key.is_list:
            raise Refusal(
                ErrorCode.INVALID_CONFIG, f"{edit.name} is not a list: it can be set, not {_verb(edit.operation)}"
            )
        current = _current_text(image, resource, key, node)
        changed = list_with if edit.operation is ConfigOperation.APPEND else list_without
        text = changed(current, edit.value)
    key.parse(text)
    return text


def _verb(operation: ConfigOperation) -> str:
    return "appended to" if operation is ConfigOperation.APPEND else "subtracted from"


def _alterable_key(resource: ConfigResource, name: str) -> ConfigKey:
    if resource.kind is ResourceKind.TOPIC:
        return topic_config_key(name)
    if resource.kind is ResourceKind.GROUP:
        return group_config_key(name)
    key = node_config_key(name)
    if not key.is_dynamic:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"{name} cannot change while a node runs; give it in the node's own settings"
        )
    return key


def _current_text(image: ClusterImage, resource: ConfigResource, key: ConfigKey, node: NodeConfigs) -> str:
    """What APPEND and SUBTRACT start from: the value that holds now, whoever set it."""
    if resource.kind is ResourceKind.TOPIC:
        return effective_topic_text(key, topic_layers(image, resource.name, node))
    own = image.configs_of(resource).get(key.name)
    inherited = node_layers(image, node)
    candidates = (own, inherited.cluster.get(key.name), inherited.static.get(key.name), key.default)
    return next((text for text in candidates if text is not None), "")


def _check_together(image: ClusterImage, resource: ConfigResource, after: Map[str, str], node: NodeConfigs) -> None:
    if resource.kind is ResourceKind.TOPIC:
        check_topic_settings(topic_layers(image, resource.name, node)._replace(topic=after), resource.name)
        return
    if resource.kind is ResourceKind.GROUP:
        check_group_configs(after, node_settings(image, node))
        return
    if resource == CLUSTER_DEFAULTS:
        layers = node_layers(image, node)._replace(cluster=after)
    else:
        layers = ConfigLayers(Map(), after, image.configs_of(CLUSTER_DEFAULTS), node.static)
    check_topic_settings(layers)
