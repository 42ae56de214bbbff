from __future__ import annotations

import pytest

from headrace.metadata.commands.config_commands import (
    ConfigEdit,
    ConfigOperation,
    ResourceConfigs,
    ResourceEdits,
    alter_configs,
    config_operation,
    incremental_alter_configs,
)
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.configs.config_keys import CLUSTER_DEFAULTS, ConfigResource, ResourceKind, resource_kind
from headrace.metadata.image.effective_configs import node_settings, topic_settings
from headrace.metadata.image.records import ConfigChanged
from headrace.model.errors import ErrorCode, Refusal
from tests.unit.metadata.small_cluster import NODE, cluster_of, refused, with_topics

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
ORDERS = ConfigResource(ResourceKind.TOPIC, "orders")
OTHER = ConfigResource(ResourceKind.TOPIC, "other")
NODE_1 = ConfigResource(ResourceKind.BROKER, "1")
LEADERS = "leader.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"


@pytest.fixture
def image():
    orders = NewTopic("orders", configs=(("retention.ms", "1000"), ("cleanup.policy", "compact")))
    return with_topics(cluster_of(1), orders, NewTopic("other"))


def edits(resource: ConfigResource, *wanted: tuple[str, ConfigOperation, str | None]) -> ResourceEdits:
    return ResourceEdits(resource, tuple(ConfigEdit(*edit) for edit in wanted))


@pytest.mark.parametrize(
    ("edit", "value_after"),
    [
        (("retention.ms", SET, "2000"), "2000"),
        (("segment.ms", SET, "5000"), "5000"),
        (("retention.ms", DELETE, None), None),
        (("retention.ms", DELETE, "whatever"), None),
        (("cleanup.policy", APPEND, "delete"), "compact,delete"),
        (("cleanup.policy", APPEND, "delete,compact"), "compact,delete"),
        (("cleanup.policy", SUBTRACT, "compact"), ""),
        (("leader.replication.throttled.replicas", APPEND, "0:1,1:2"), "0:1,1:2"),
    ],
)
def test_an_edit_and_the_value_after_it(image, edit, value_after):
    decision = incremental_alter_configs(image, [edits(ORDERS, edit)], NODE)
    assert decision.records == (ConfigChanged(ORDERS, edit[0], value_after),)
    assert decision.response[0].result == ORDERS
    assert image.apply_all(decision.records).configs_of(ORDERS).get(edit[0]) == value_after


@pytest.mark.parametrize(
    "edit",
    [
        ("retention.ms", SET, "1000"),
        ("segment.ms", DELETE, None),
        ("remote.storage.enable", DELETE, None),
        ("a.name.that.nobody.knows", DELETE, None),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", SUBTRACT, "delete"),
    ],
)
def test_what_changes_nothing_makes_no_record(image, edit):
    decision = incremental_alter_configs(image, [edits(ORDERS, edit)], NODE)
    assert decision.records == ()
    assert decision.response[0].result == ORDERS


def test_append_starts_from_the_value_that_holds_even_if_nobody_set_it(image):
    decision = incremental_alter_configs(image, [edits(OTHER, ("cleanup.policy", APPEND, "compact"))], NODE)
    assert decision.records == (ConfigChanged(OTHER, "cleanup.policy", "delete,compact"),)


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (edits(ORDERS, ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG, "a whole number of at least -1"),
        (edits(ORDERS, ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST, "no value"),
        (edits(ORDERS, ("cleanup.policy", APPEND, None)), ErrorCode.INVALID_REQUEST, "no value"),
        (edits(ORDERS, ("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG, "not a list"),
        (edits(ORDERS, ("retention.ms", SUBTRACT, "1")), ErrorCode.INVALID_CONFIG, "not a list"),
        (edits(ORDERS, ("cleanup.policy", APPEND, "shred")), ErrorCode.INVALID_CONFIG, "compact, delete"),
        (edits(ORDERS, ("no.such.thing", SET, "1")), ErrorCode.INVALID_CONFIG, "'no.such.thing'"),
        (edits(ORDERS, ("remote.storage.enable", SET, "true")), ErrorCode.INVALID_CONFIG, "no tiered storage"),
        (edits(ORDERS, ("local.retention.ms", SET, "-3")), ErrorCode.INVALID_CONFIG, "at least -2"),
        (edits(ORDERS, (LEADERS, SET, "0:1,none")), ErrorCode.INVALID_CONFIG, "partition:node"),
        (edits(ORDERS, (LEADERS, APPEND, "0:1:2")), ErrorCode.INVALID_CONFIG, "partition:node"),
        (edits(NODE_1, (RATE, SET, "-1")), ErrorCode.INVALID_CONFIG, "at least 0"),
        (
            edits(ORDERS, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
            ErrorCode.INVALID_REQUEST,
            "given 2 times",
        ),
        (edits(ORDERS, ("max.compaction.lag.ms", SET, "5"), ("min.compaction.lag.ms", SET, "6")), 40, "more than"),
        (edits(ConfigResource(ResourceKind.TOPIC, "none")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'none'"),
        (edits(ConfigResource(ResourceKind.TOPIC, "a b")), ErrorCode.INVALID_TOPIC_EXCEPTION, "'a b'"),
        (edits(ConfigResource(ResourceKind.TOPIC, "")), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (edits(ConfigResource(ResourceKind.BROKER, "7")), ErrorCode.BROKER_ID_NOT_REGISTERED, "no node 7"),
        (edits(ConfigResource(ResourceKind.BROKER, "one")), ErrorCode.INVALID_REQUEST, "by its number"),
        (edits(ConfigResource(ResourceKind.BROKER, "01")), ErrorCode.INVALID_REQUEST, "by its number"),
        (edits(NODE_1, ("socket.request.max.bytes", SET, "2048")), ErrorCode.INVALID_REQUEST, "while a node runs"),
        (edits(NODE_1, ("log.retention.hours", SET, "1")), ErrorCode.INVALID_REQUEST, "while a node runs"),
        (edits(NODE_1, ("num.partitions", SET, "0")), ErrorCode.INVALID_CONFIG, "from 1 to 10000"),
        (edits(NODE_1, ("retention.ms", SET, "0")), ErrorCode.INVALID_CONFIG, "no broker setting"),
    ],
)
def test_refusals(image, wanted, code, words):
    good = edits(OTHER, ("retention.ms", SET, "5"))
    decision = incremental_alter_configs(image, [wanted, good], NODE)
    assert decision.records == (ConfigChanged(OTHER, "retention.ms", "5"),), "the other resource still changes"
    assert refused(decision.response[0])[0] == code
    assert words in refused(decision.response[0])[1]


def test_a_resource_changes_as_a_whole_or_not_at_all(image):
    wanted = edits(ORDERS, ("retention.ms", SET, "5"), ("segment.ms", SET, "never"))
    assert incremental_alter_configs(image, [wanted], NODE).records == ()


def test_a_resource_that_comes_twice_is_refused_both_times(image):
    wanted = [edits(ORDERS, ("retention.ms", SET, "5")), edits(ORDERS, ("segment.ms", SET, "5"))]
    decision = incremental_alter_configs(image, wanted, NODE)
    assert [refused(outcome)[0] for outcome in decision.response] == [ErrorCode.INVALID_REQUEST] * 2


def test_validate_only_changes_nothing(image):
    wanted = edits(ORDERS, ("retention.ms", SET, "5"))
    assert incremental_alter_configs(image, [wanted], NODE, validate_only=True).records == ()
    bad = edits(ORDERS, ("retention.ms", SET, "x"))
    assert refused(incremental_alter_configs(image, [bad], NODE, validate_only=True).response[0])


def test_the_legacy_way_replaces_everything(image):
    decision = alter_configs(image, [ResourceConfigs(ORDERS, (("segment.ms", "7"), ("retention.ms", "1000")))], NODE)
    assert decision.records == (ConfigChanged(ORDERS, "segment.ms", "7"), ConfigChanged(ORDERS, "cleanup.policy", None))
    after = image.apply_all(decision.records)
    assert dict(after.configs_of(ORDERS)) == {"segment.ms": "7", "retention.ms": "1000"}


def test_the_legacy_way_with_nothing_goes_back_to_the_defaults(image):
    decision = alter_configs(image, [ResourceConfigs(ORDERS, ())], NODE)
    assert ORDERS not in image.apply_all(decision.records).configs


def test_the_legacy_way_refuses_null_and_repeated_names(image):
    null = alter_configs(image, [ResourceConfigs(ORDERS, (("retention.ms", None),))], NODE)
    twice = alter_configs(image, [ResourceConfigs(ORDERS, (("retention.ms", "1"), ("retention.ms", "2")))], NODE)
    assert refused(null.response[0])[0] is refused(twice.response[0])[0] is ErrorCode.INVALID_REQUEST
    assert null.records == twice.records == ()


def test_a_nodes_setting_wins_over_the_clusters_default(image):
    def after(image, resource, value):
        wanted = edits(resource, ("num.partitions", SET, value), ("log.retention.ms", SET, value))
        return image.apply_all(incremental_alter_configs(image, [wanted], NODE).records)

    cluster_wide = after(image, CLUSTER_DEFAULTS, "8")
    assert node_settings(cluster_wide, NODE).num_partitions == 8
    assert topic_settings(cluster_wide, "other", NODE).retention_ms == 8
    for_this_node = after(cluster_wide, NODE_1, "9")
    assert node_settings(for_this_node, NODE).num_partitions == 9
    assert topic_settings(for_this_node, "other", NODE).retention_ms == 9
    assert topic_settings(for_this_node, "orders", NODE).retention_ms == 1000, "the topic's own setting wins over all"


def test_numbers_that_kafka_knows_and_we_do_not_are_refused():
    with pytest.raises(Refusal) as unknown_kind:
        resource_kind(16)
    with pytest.raises(Refusal) as unknown_operation:
        config_operation(4)
    assert unknown_kind.value.code is unknown_operation.value.code is ErrorCode.INVALID_REQUEST
    assert (resource_kind(2), config_operation(3)) == (ResourceKind.TOPIC, ConfigOperation.SUBTRACT)


# ---- what coordinators need

INTERNAL = ["__consumer_offsets", "__transaction_state"]


def coordinated(name: str):
    return ConfigResource(ResourceKind.TOPIC, name), with_topics(cluster_of(1), NewTopic(name, 2))


@pytest.mark.parametrize("name", INTERNAL)
@pytest.mark.parametrize(
    "edit",
    [
        ("cleanup.policy", SET, "delete"),
        ("cleanup.policy", SET, "compact,delete"),
        ("cleanup.policy", SET, ""),
        ("cleanup.policy", APPEND, "delete"),
        ("cleanup.policy", SUBTRACT, "compact"),
        ("cleanup.policy", DELETE, None),
        ("max.message.bytes", SET, "1048588"),
        ("max.message.bytes", DELETE, None),
    ],
)
def test_a_coordinator_keeps_what_it_was_told(name, edit):
    resource, image = coordinated(name)
    decision = incremental_alter_configs(image, [edits(resource, edit)], NODE)
    assert decision.records == ()
    code, message = refused(decision.response[0])
    assert (code, f"{name} needs {edit[0]}" in message) == (ErrorCode.INVALID_CONFIG, True)


@pytest.mark.parametrize("name", INTERNAL)
@pytest.mark.parametrize(
    "edit",
    [
        ("segment.bytes", SET, "10485760"),
        ("segment.bytes", DELETE, None),
        ("compression.type", SET, "zstd"),
        ("min.insync.replicas", SET, "1"),
        ("retention.ms", SET, "1"),
        ("max.message.bytes", SET, "33554432"),
        ("cleanup.policy", SET, "compact"),
    ],
)
def test_the_rest_is_the_operators(name, edit):
    resource, image = coordinated(name)
    assert incremental_alter_configs(image, [edits(resource, edit)], NODE).response[0].result == resource


def test_settings_that_are_replaced_as_a_whole_must_hold_what_coordinators_need():
    resource, image = coordinated(INTERNAL[0])
    (dropped,) = alter_configs(image, [ResourceConfigs(resource, (("segment.ms", "1000"),))], NODE).response
    assert refused(dropped)[0] == ErrorCode.INVALID_CONFIG
    whole = (("cleanup.policy", "compact"), ("max.message.bytes", "16777216"), ("segment.ms", "1000"))
    (kept,) = alter_configs(image, [ResourceConfigs(resource, whole)], NODE).response
    assert kept.result == resource


def test_defaults_of_the_cluster_do_not_reach_what_coordinators_need():
    resource, image = coordinated(INTERNAL[0])
    wanted = edits(CLUSTER_DEFAULTS, ("log.cleanup.policy", SET, "delete"), ("message.max.bytes", SET, "1000"))
    image = image.apply_all(incremental_alter_configs(image, [wanted], NODE).records)
    settings = topic_settings(image, resource.name, NODE)
    assert (settings.cleanup_policy, settings.max_message_bytes) == (("compact",), 16 << 20)


@pytest.mark.parametrize(
    ("text", "throttled"),
    [("", set()), ("*", {(0, 1), (0, 2), (7, 1)}), ("0:1,7:1", {(0, 1), (7, 1)}), ("70:1,0:12", set())],
)
def test_which_replicas_are_throttled(image, text, throttled):
    edit = edits(
        ORDERS, (LEADERS, SET, text), ("remote.storage.enable", SET, "false"), ("local.retention.ms", SET, "5")
    )
    after = image.apply_all(incremental_alter_configs(image, [edit], NODE).records)
    settings = topic_settings(after, "orders", NODE)
    places = {(0, 1), (0, 2), (7, 1)}
    assert {place for place in places if settings.throttles_leader(*place)} == throttled
    assert not any(settings.throttles_follower(*place) for place in places)
