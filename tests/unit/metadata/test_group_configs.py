"""Settings that a group of consumers has for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.metadata.commands import config_commands
from headrace.metadata.commands.config_commands import (
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
    incremental_alter_configs,
)
from headrace.metadata.configs.config_keys import ConfigResource, ConfigSource, ResourceKind
from headrace.metadata.configs.group_configs import GROUP_NAME_MAX
from headrace.metadata.image.effective_configs import (
    NodeConfigs,
    describe_configs,
    list_config_resources,
    own_group_times,
)
from headrace.metadata.image.record_encoding import decode_record, encode_record
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from tests.unit.metadata.small_cluster import NODE, cluster_of

if TYPE_CHECKING:
    from headrace.metadata.image.cluster_image import ClusterImage

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
READERS = ConfigResource(ResourceKind.GROUP, "readers")


def altered(image: ClusterImage, resource: ConfigResource, *edits: tuple[str, ConfigOperation, str | None]):
    """The image afterwards, or why not."""
    wanted = ResourceEdits(resource, tuple(ConfigEdit(*edit) for edit in edits))
    decision = incremental_alter_configs(image, [wanted], NODE)
    (outcome,) = decision.response
    if isinstance(outcome.result, Refusal):
        assert not decision.records
        return outcome.result
    return image.apply_all([decode_record(encode_record(record)) for record in decision.records])


def test_what_was_set_holds_and_shows_where_it_is_from() -> None:
    image = altered(cluster_of(1), READERS, (SESSION, SET, "50000"))
    assert own_group_times(image, "readers", NODE) == (50_000, 2_000)
    assert own_group_times(image, "others", NODE) is None
    heartbeat, session = describe_configs(image, READERS, None, NODE)
    assert (heartbeat.name, heartbeat.value, heartbeat.source) == (HEARTBEAT, "2000", ConfigSource.DEFAULT_CONFIG)
    assert (session.value, session.source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert [(it.name, it.source) for it in session.synonyms] == [
        (SESSION, ConfigSource.DYNAMIC_GROUP_CONFIG),
        ("group.consumer.session.timeout.ms", ConfigSource.DEFAULT_CONFIG),
    ]
    assert list_config_resources(image, [ResourceKind.GROUP]) == [READERS]
    back = altered(image, READERS, (SESSION, DELETE, None))
    assert own_group_times(back, "readers", NODE) is None
    assert list_config_resources(back, [ResourceKind.GROUP]) == []


@pytest.mark.parametrize(
    ("edits", "code"),
    [
        ([(SESSION, SET, "44999")], ErrorCode.INVALID_CONFIG),
        ([(SESSION, SET, "60001")], ErrorCode.INVALID_CONFIG),
        ([(HEARTBEAT, SET, "1999")], ErrorCode.INVALID_CONFIG),
        ([(HEARTBEAT, SET, "15001")], ErrorCode.INVALID_CONFIG),
        ([(HEARTBEAT, SET, "x")], ErrorCode.INVALID_CONFIG),
        ([(SESSION, SET, None)], ErrorCode.INVALID_REQUEST),
        ([(SESSION, APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("share.session.timeout.ms", SET, "50000")], ErrorCode.INVALID_CONFIG),
        ([("unknown", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([(SESSION, SET, "50000"), ("unknown", SET, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_is_refused(edits: list[tuple[str, ConfigOperation, str | None]], code: ErrorCode) -> None:
    refusal = altered(cluster_of(1), READERS, *edits)
    assert isinstance(refusal, Refusal)
    assert refusal.code is code


def test_to_delete_what_nobody_knows_does_nothing() -> None:
    image = cluster_of(1)
    assert altered(image, READERS, ("unknown", DELETE, None)).configs == image.configs


@pytest.mark.parametrize("name", ["", "x" * (GROUP_NAME_MAX + 1)])
def test_a_group_has_a_name(name: str) -> None:
    resource = ConfigResource(ResourceKind.GROUP, name)
    refusal = altered(cluster_of(1), resource, (SESSION, SET, "50000"))
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(Refusal):
        describe_configs(cluster_of(1), resource, None, NODE)


def test_a_session_is_longer_than_the_time_between_heartbeats() -> None:
    static = {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.max.heartbeat.interval.ms": "9000"}
    node = NodeConfigs.checked(NodeId(1), static)
    wanted = ResourceEdits(READERS, (ConfigEdit(SESSION, SET, "5000"), ConfigEdit(HEARTBEAT, SET, "5000")))
    (outcome,) = incremental_alter_configs(cluster_of(1), [wanted], node).response
    assert isinstance(outcome.result, Refusal)
    assert "must be more than" in outcome.result.message


def test_bounds_that_became_tighter_are_kept_to() -> None:
    image = altered(cluster_of(1), READERS, (SESSION, SET, "60000"), (HEARTBEAT, SET, "2000"))
    static = {"group.consumer.max.session.timeout.ms": "46000", "group.consumer.min.heartbeat.interval.ms": "3000"}
    assert own_group_times(image, "readers", NodeConfigs.checked(NodeId(1), static)) == (46_000, 3_000)


def test_no_more_groups_than_every_node_can_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_commands, "GROUPS_MAX", 2)
    wanted = [
        ResourceEdits(ConfigResource(ResourceKind.GROUP, name), (ConfigEdit(SESSION, SET, "50000"),)) for name in "abc"
    ]
    decision = incremental_alter_configs(cluster_of(1), wanted, NODE)
    assert [isinstance(outcome.result, Refusal) for outcome in decision.response] == [False, False, True]
    full = cluster_of(1).apply_all(decision.records)
    assert isinstance(altered(full, ConfigResource(ResourceKind.GROUP, "d"), (SESSION, SET, "50000")), Refusal)
    changed = altered(full, ConfigResource(ResourceKind.GROUP, "a"), (SESSION, SET, "55000"))
    assert own_group_times(changed, "a", NODE) == (55_000, 2_000)
