"""What holds in the end: a topic's own setting, else the node's, else the cluster's, else the default.

Typed settings are pure functions of a few small maps, so they are remembered by those maps: asking for them again costs
a lookup, and topics that set nothing share one `TopicSettings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.configs.config_keys import (
    CLUSTER_DEFAULTS,
    ConfigKey,
    ConfigResource,
    ConfigSource,
    ConfigType,
    ResourceKind,
)
from headrace.metadata.configs.group_configs import GROUP_CONFIGS, GroupTimes, check_group_name, group_times
from headrace.metadata.configs.internal_topics import check_fit_for_coordinators
from headrace.metadata.configs.listener_configs import own_config_key
from headrace.metadata.configs.node_configs import IDENTITY_FLAGS, NODE_CONFIGS, node_config_key
from headrace.metadata.configs.settings import (
    NodeSettings,
    TopicSettings,
    check_combination,
    node_settings_from,
    topic_settings_from,
)
from headrace.metadata.configs.topic_configs import TOPIC_CONFIGS
from headrace.metadata.image.cluster_image import NO_CONFIGS, ClusterImage
from headrace.metadata.image.maps import Map
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId, topic_name_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HIDDEN = "[hidden]"  # what Kafka shows instead of a secret
REMEMBERED_SETTINGS_MAX = 4_096  # different combinations of settings, not topics; about 1 KiB each
REMEMBERED_DESCRIPTIONS_MAX = 64  # a thousand topics in one request mostly share one; about 20 KiB each


@dataclass(frozen=True, slots=True)
class NodeConfigs:
    """What a node was told when it started: the lowest layer above the defaults."""

    node_id: NodeId
    static: Map[str, str]

    @classmethod
    def checked(cls, node_id: NodeId, static: Mapping[str, str]) -> NodeConfigs:
        """Raises Refusal(INVALID_CONFIG) if a name or a value is not allowed."""
        for name in sorted(static):
            if name in IDENTITY_FLAGS:
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} is not a setting here; use {IDENTITY_FLAGS[name]}")
            node_config_key(name).parse(static[name])
        # A secret is for whoever opens the listeners, and goes no further: what is kept here may be shown.
        configs = cls(node_id, Map({it: HIDDEN if node_config_key(it).is_secret else static[it] for it in static}))
        check_topic_settings(ConfigLayers(NO_CONFIGS, NO_CONFIGS, NO_CONFIGS, configs.static))
        return configs

    def known_as(self, identity: Mapping[str, str]) -> NodeConfigs:
        """With what the node is, for those who look: its address, its directory, its number."""
        return NodeConfigs(self.node_id, Map({**self.static, **identity}))


class ConfigLayers(NamedTuple):
    """What was set at each level, the strongest first. `topic` is empty where a node is asked about."""

    topic: Map[str, str]
    node: Map[str, str]
    cluster: Map[str, str]
    static: Map[str, str]


class ConfigSynonym(NamedTuple):
    """One place that gives a setting a value. The first of a setting's synonyms is the one that holds."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting as DescribeConfigs shows it."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    is_read_only: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]
    is_sensitive: bool = False

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


def node_layers(image: ClusterImage, node: NodeConfigs) -> ConfigLayers:
    own = image.configs_of(ConfigResource(ResourceKind.BROKER, str(node.node_id)))
    return ConfigLayers(NO_CONFIGS, own, image.configs_of(CLUSTER_DEFAULTS), node.static)


def topic_layers(image: ClusterImage, topic_name: str, node: NodeConfigs) -> ConfigLayers:
    overrides = image.configs_of(ConfigResource(ResourceKind.TOPIC, topic_name))
    return node_layers(image, node)._replace(topic=overrides)


def topic_settings(image: ClusterImage, topic_name: str, node: NodeConfigs) -> TopicSettings:
    """What a partition of the topic must go by on this node. Two equal answers are the same object."""
    return _topic_settings(topic_layers(image, topic_name, node))


def node_settings(image: ClusterImage, node: NodeConfigs) -> NodeSettings:
    return _node_settings(node_layers(image, node))


def own_group_times(image: ClusterImage, group_id: str, node: NodeConfigs) -> GroupTimes | None:
    """None if the group has no settings of its own."""
    own = image.configs_of(ConfigResource(ResourceKind.GROUP, group_id))
    return group_times(own, node_settings(image, node)) if own else None


def check_topic_settings(layers: ConfigLayers, topic: str | None = None) -> None:
    """Raises Refusal(INVALID_CONFIG) if a value or a combination in `layers` is not allowed; or not for this topic."""
    settings = _topic_settings(layers)
    check_combination(settings)
    if topic is not None:
        check_fit_for_coordinators(topic, settings)


@lru_cache(maxsize=REMEMBERED_SETTINGS_MAX)
def _topic_settings(layers: ConfigLayers) -> TopicSettings:
    return topic_settings_from({key.name: effective_topic_text(key, layers) for key in TOPIC_CONFIGS.values()})


@lru_cache(maxsize=REMEMBERED_SETTINGS_MAX)
def _node_settings(layers: ConfigLayers) -> NodeSettings:
    texts = {}
    for key in NODE_CONFIGS.values():
        synonym = next(_node_synonyms(key, layers), None)
        if synonym is not None:
            texts[key.name] = synonym.value
    return node_settings_from(texts)


def effective_topic_text(key: ConfigKey, layers: ConfigLayers) -> str:
    """The text that holds, in the unit of the topic's own setting."""
    name, text, source = next(_topic_synonyms(key, layers))
    if source is ConfigSource.DYNAMIC_TOPIC_CONFIG:
        return text
    return next((synonym.in_topic_units(text) for synonym in key.synonyms if synonym.name == name), text)


def _topic_synonyms(key: ConfigKey, layers: ConfigLayers) -> Iterator[ConfigSynonym]:
    if (text := layers.topic.get(key.name)) is not None:
        yield ConfigSynonym(key.name, text, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    for synonym in key.synonyms:
        yield from _node_synonyms(NODE_CONFIGS[synonym.name], layers)
    if not key.synonyms:
        assert key.default is not None
        yield ConfigSynonym(key.name, key.default, ConfigSource.DEFAULT_CONFIG)


def _node_synonyms(key: ConfigKey, layers: ConfigLayers) -> Iterator[ConfigSynonym]:
    if (text := layers.node.get(key.name)) is not None:
        yield ConfigSynonym(key.name, text, ConfigSource.DYNAMIC_BROKER_CONFIG)
    if (text := layers.cluster.get(key.name)) is not None:
        yield ConfigSynonym(key.name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    if (text := layers.static.get(key.name)) is not None:
        yield ConfigSynonym(key.name, text, ConfigSource.STATIC_BROKER_CONFIG)
    if key.default is not None:
        yield ConfigSynonym(key.name, key.default, ConfigSource.DEFAULT_CONFIG)


def describe_configs(
    image: ClusterImage, resource: ConfigResource, names: Sequence[str] | None, node: NodeConfigs
) -> list[ConfigEntry]:
    """Every setting of `resource` with its effective value and where that comes from; `names` picks some of them.

    Names that do not exist are left out, as Kafka does. A node can answer for itself and for the cluster's defaults.
    """
    check_resource(image, resource)
    if resource.kind is ResourceKind.TOPIC:
        entries = list(topic_config_entries(topic_layers(image, resource.name, node)))
    elif resource.kind is ResourceKind.GROUP:
        entries = _group_config_entries(image.configs_of(resource), node_layers(image, node))
    elif resource == CLUSTER_DEFAULTS:
        entries = _cluster_default_entries(image.configs_of(CLUSTER_DEFAULTS))
    elif resource.name == str(node.node_id):
        entries = _node_config_entries(node_layers(image, node))
    else:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"this is node {node.node_id}; only node {resource.name} itself can describe its settings",
        )
    if names is None:
        return entries
    wanted = frozenset(names)
    return [entry for entry in entries if entry.name in wanted]


def check_resource(image: ClusterImage, resource: ConfigResource) -> None:
    """Raises Refusal if `resource` is nothing that can have settings here."""
    match resource.kind:
        case ResourceKind.TOPIC:
            if problem := topic_name_problem(resource.name):
                raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
            if image.topic_named(resource.name) is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.name!r}")
        case ResourceKind.GROUP:  # it need not exist: its settings may be there first, and stay
            check_group_name(resource.name)
        case ResourceKind.BROKER if resource != CLUSTER_DEFAULTS:
            node_id = _node_id_in(resource.name)
            if node_id not in image.nodes:
                raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}")


def _node_id_in(name: str) -> NodeId:
    if not (name.isascii() and name.isdigit() and len(name) <= 10 and name == str(int(name))):
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"a broker is named by its number, or by nothing for the cluster's defaults; {name[:80]!r} is neither",
        )
    return NodeId(int(name))


@lru_cache(maxsize=REMEMBERED_DESCRIPTIONS_MAX)
def topic_config_entries(layers: ConfigLayers) -> tuple[ConfigEntry, ...]:
    return tuple(
        _entry(key, tuple(_topic_synonyms(key, layers)), effective_topic_text(key, layers))
        for key in TOPIC_CONFIGS.values()
    )


def _node_config_entries(layers: ConfigLayers) -> list[ConfigEntry]:
    entries = []
    own = [key for name in sorted(layers.static) if (key := own_config_key(name)) is not None]
    for key in (*NODE_CONFIGS.values(), *own):
        synonyms = tuple(_node_synonyms(key, layers))
        entries.append(_entry(key, synonyms, synonyms[0].value if synonyms else None))
    return entries


def _group_config_entries(own: Map[str, str], layers: ConfigLayers) -> list[ConfigEntry]:
    entries = []
    for key in GROUP_CONFIGS.values():
        synonyms = tuple(it for synonym in key.synonyms for it in _node_synonyms(NODE_CONFIGS[synonym.name], layers))
        if (text := own.get(key.name)) is not None:
            synonyms = (ConfigSynonym(key.name, text, ConfigSource.DYNAMIC_GROUP_CONFIG), *synonyms)
        entries.append(_entry(key, synonyms, synonyms[0].value))
    return entries


def _cluster_default_entries(configs: Map[str, str]) -> list[ConfigEntry]:
    """Only what was set: the defaults under it may differ from node to node."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _entry(NODE_CONFIGS[name], (ConfigSynonym(name, configs[name], source),), configs[name])
        for name in sorted(configs)
    ]


def _entry(key: ConfigKey, synonyms: tuple[ConfigSynonym, ...], value: str | None) -> ConfigEntry:
    return ConfigEntry(
        name=key.name,
        value=None if key.is_secret else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        type=key.type,
        is_read_only=not key.is_dynamic,
        documentation=key.documentation,
        synonyms=() if key.is_secret else synonyms,
        is_sensitive=key.is_secret,
    )


def list_config_resources(image: ClusterImage, kinds: Sequence[ResourceKind]) -> list[ConfigResource]:
    """Everything that can be described, in order of kind and name."""
    resources: list[ConfigResource] = []
    if ResourceKind.TOPIC in kinds:
        resources += [ConfigResource(ResourceKind.TOPIC, topic.name) for topic in image.sorted_topics()]
    if ResourceKind.BROKER in kinds:
        resources += [ConfigResource(ResourceKind.BROKER, str(node_id)) for node_id in image.live_nodes()]
    if ResourceKind.GROUP in kinds:  # those with settings: only their coordinators know which groups there are
        resources += sorted(resource for resource in image.configs if resource.kind is ResourceKind.GROUP)
    return resources
