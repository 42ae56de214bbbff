from __future__ import annotations

import pytest

from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.configs.config_keys import (
    CLUSTER_DEFAULTS,
    ConfigResource,
    ConfigSource,
    ConfigType,
    ResourceKind,
)
from headrace.metadata.configs.node_configs import NODE_CONFIGS
from headrace.metadata.configs.settings import DEFAULT_TOPIC_SETTINGS
from headrace.metadata.configs.topic_configs import TOPIC_CONFIGS
from headrace.metadata.image.effective_configs import (
    ConfigSynonym,
    NodeConfigs,
    describe_configs,
    list_config_resources,
    topic_settings,
)
from headrace.metadata.image.records import ConfigChanged
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from tests.unit.metadata.small_cluster import NODE, cluster_of, with_topics

ORDERS = ConfigResource(ResourceKind.TOPIC, "orders")
NODE_1 = ConfigResource(ResourceKind.BROKER, "1")


@pytest.fixture
def image():
    return with_topics(cluster_of(1, 2), NewTopic("orders", configs=(("retention.ms", "1000"),)), NewTopic("b"))


def described(image, resource, node=NODE):
    return {entry.name: entry for entry in describe_configs(image, resource, None, node)}


def test_a_topic_shows_every_setting_with_its_default(image):
    entries = describe_configs(image, ORDERS, None, NODE)
    assert [entry.name for entry in entries] == sorted(TOPIC_CONFIGS)
    for entry in entries:
        assert entry.documentation
        assert not entry.is_read_only
        assert not entry.is_sensitive
        if entry.name != "retention.ms":
            assert (entry.value, entry.is_default) == (TOPIC_CONFIGS[entry.name].default, True)


def test_an_override_names_its_source_and_what_it_hides(image):
    entry = described(image, ORDERS)["retention.ms"]
    assert (entry.value, entry.source, entry.type) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigType.LONG)
    assert not entry.is_default
    assert entry.synonyms == (
        ConfigSynonym("retention.ms", "1000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    )


def test_all_layers_in_order_of_strength(image):
    node = NodeConfigs.checked(NodeId(1), {"log.retention.ms": "4000", "log.retention.hours": "1"})
    image = image.apply_all(
        [
            ConfigChanged(NODE_1, "log.retention.ms", "2000"),
            ConfigChanged(CLUSTER_DEFAULTS, "log.retention.ms", "3000"),
        ]
    )
    entry = described(image, ORDERS, node)["retention.ms"]
    assert [(synonym.value, int(synonym.source)) for synonym in entry.synonyms] == [
        ("1000", 1),
        ("2000", 2),
        ("3000", 3),
        ("4000", 4),
        ("1", 4),
        ("168", 5),
    ]


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 7 * 24 * 3600 * 1000),
        ({"log.retention.hours": "2"}, 2 * 3600 * 1000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, 5 * 60 * 1000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5", "log.retention.ms": "77"}, 77),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_a_nodes_default_may_be_given_in_another_unit(image, static, retention_ms):
    node = NodeConfigs.checked(NodeId(1), static)
    assert topic_settings(image, "b", node).retention_ms == retention_ms
    assert described(image, ConfigResource(ResourceKind.TOPIC, "b"), node)["retention.ms"].value == str(retention_ms)


def test_names_pick_entries_and_unknown_ones_are_left_out(image):
    entries = describe_configs(image, ORDERS, ["segment.ms", "no.such", "retention.ms"], NODE)
    assert [entry.name for entry in entries] == ["retention.ms", "segment.ms"]
    assert describe_configs(image, ORDERS, [], NODE) == []


def test_a_node_shows_its_own_settings_and_which_can_change(image):
    node = NodeConfigs.checked(NodeId(1), {}).known_as({"node.id": "1", "log.dirs": "/var/lib/headrace"})
    entries = described(image, NODE_1, node)
    assert list(entries) == sorted(NODE_CONFIGS)
    assert (entries["log.dirs"].value, entries["log.dirs"].source) == (
        "/var/lib/headrace",
        ConfigSource.STATIC_BROKER_CONFIG,
    )
    assert entries["log.dirs"].is_read_only
    assert not entries["num.partitions"].is_read_only
    assert entries["broker.rack"].value is None
    assert entries["message.max.bytes"].value == "1048588"
    assert entries["auto.create.topics.enable"].value == "true"


def test_a_secret_is_kept_nowhere_and_shown_to_nobody(image):
    own = "listener.name.outside.ssl.key.password"
    node = NodeConfigs.checked(
        NodeId(1), {"ssl.key.password": "hunter2", own: "hunter3", "ssl.client.auth": "required"}
    )
    assert "hunter" not in repr(node)
    entries = described(image, NODE_1, node)
    for name in ("ssl.key.password", own):
        assert (entries[name].value, entries[name].is_sensitive, entries[name].synonyms) == (None, True, ())
    assert (entries["ssl.client.auth"].value, entries["ssl.client.auth"].is_sensitive) == ("required", False)


def test_settings_of_one_listener_are_those_of_all_under_another_name(image):
    name = "listener.name.outside.oauthbearer.sasl.oauthbearer.expected.audience"
    entries = described(image, NODE_1, NodeConfigs.checked(NodeId(1), {name: "a,b"}))
    assert (entries[name].value, entries[name].is_read_only) == ("a,b", True)
    for wrong in ("listener.name.outside.num.partitions", "listener.name.outside.plain.ssl.client.auth"):
        with pytest.raises(Refusal, match="there is no broker setting"):
            NodeConfigs.checked(NodeId(1), {wrong: "1"})
    with pytest.raises(Refusal, match=r"listener\.name\.outside\.ssl\.client\.auth must be one of required"):
        NodeConfigs.checked(NodeId(1), {"listener.name.outside.ssl.client.auth": "maybe"})


@pytest.mark.parametrize("name", ["node.id", "log.dirs", "broker.rack"])
def test_what_a_node_is_comes_from_its_flags(name):
    with pytest.raises(Refusal, match="is not a setting here; use --"):
        NodeConfigs.checked(NodeId(1), {name: "3"})


def test_the_clusters_defaults_show_only_what_was_set(image):
    assert describe_configs(image, CLUSTER_DEFAULTS, None, NODE) == []
    image = image.apply(ConfigChanged(CLUSTER_DEFAULTS, "num.partitions", "8"))
    (entry,) = describe_configs(image, CLUSTER_DEFAULTS, None, NODE)
    assert (entry.name, entry.value, entry.source) == (
        "num.partitions",
        "8",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (ConfigResource(ResourceKind.TOPIC, "none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResource(ResourceKind.TOPIC, "../x"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ConfigResource(ResourceKind.BROKER, "9"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (ConfigResource(ResourceKind.BROKER, "²"), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceKind.BROKER, "2"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(image, resource, code):
    with pytest.raises(Refusal) as refusal:
        describe_configs(image, resource, None, NODE)
    assert refusal.value.code is code


def test_every_resource_can_be_listed(image):
    assert list_config_resources(image, [ResourceKind.TOPIC, ResourceKind.BROKER]) == [
        ConfigResource(ResourceKind.TOPIC, "b"),
        ORDERS,
        NODE_1,
        ConfigResource(ResourceKind.BROKER, "2"),
    ]
    assert list_config_resources(image, []) == []


def test_topics_that_set_nothing_share_one_settings_object(image):
    image = with_topics(image, NewTopic("c"))
    assert topic_settings(image, "b", NODE) is topic_settings(image, "c", NODE)
    assert topic_settings(image, "b", NODE) == DEFAULT_TOPIC_SETTINGS


def test_a_clusters_default_that_contradicts_a_topic_later_does_not_break_the_topic(image):
    image = image.apply(ConfigChanged(ORDERS, "min.compaction.lag.ms", "500"))
    image = image.apply(ConfigChanged(CLUSTER_DEFAULTS, "log.cleaner.max.compaction.lag.ms", "100"))
    settings = topic_settings(image, "orders", NODE)
    assert (settings.min_compaction_lag_ms, settings.max_compaction_lag_ms) == (500, 100)


@pytest.mark.parametrize("static", [{"no.such.setting": "1"}, {"num.partitions": "0"}, {"segment.bytes": "1073741824"}])
def test_a_node_does_not_start_with_settings_it_cannot_read(static):
    with pytest.raises(Refusal) as refusal:
        NodeConfigs.checked(NodeId(1), static)
    assert refusal.value.code is ErrorCode.INVALID_CONFIG
