from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.node_commands import drain_node, fence_node
from headrace.metadata.commands.topic_commands import (
    PARTITIONS_PER_CLUSTER_MAX,
    PARTITIONS_PER_REQUEST_MAX,
    CreatedTopic,
    NewTopic,
    create_topics,
)
from headrace.metadata.configs.config_keys import ConfigResource, ConfigSource, ResourceKind
from headrace.metadata.image.effective_configs import NodeConfigs
from headrace.metadata.image.records import ConfigChanged, PartitionCreated, TopicCreated
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID, NodeId
from tests.unit.metadata.small_cluster import NODE, TopicIds, cluster_of, numbered_topic_id, refused, with_topics


def assigned(*replicas: tuple[int, ...]) -> tuple[ManualAssignment, ...]:
    return tuple(
        ManualAssignment(partition, tuple(NodeId(node_id) for node_id in nodes))
        for partition, nodes in enumerate(replicas)
    )


def created(image, topic: NewTopic, node: NodeConfigs = NODE) -> CreatedTopic:
    (outcome,) = create_topics(image, [topic], node, TopicIds()).response
    assert isinstance(outcome.result, CreatedTopic), outcome.result
    return outcome.result


def test_a_topic_is_its_name_then_its_settings_then_its_partitions():
    topic = NewTopic("orders", 2, 1, configs=(("retention.ms", "60000"), ("cleanup.policy", "compact")))
    decision = create_topics(cluster_of(1), [topic], NODE, TopicIds())
    topic_id = numbered_topic_id(1)
    resource = ConfigResource(ResourceKind.TOPIC, "orders")
    assert decision.records == (
        TopicCreated(topic_id, "orders"),
        ConfigChanged(resource, "cleanup.policy", "compact"),
        ConfigChanged(resource, "retention.ms", "60000"),
        PartitionCreated(topic_id, 0, (1,), (1,), 1, 0, 0),
        PartitionCreated(topic_id, 1, (1,), (1,), 1, 0, 0),
    )


def test_the_answer_tells_what_was_made_and_all_its_settings():
    answer = created(cluster_of(1, 2, 3), NewTopic("orders", 4, 3, configs=(("retention.ms", "60000"),)))
    assert (answer.topic_id, answer.partition_count, answer.replication_factor) == (numbered_topic_id(1), 4, 3)
    entries = {entry.name: entry for entry in answer.configs}
    assert entries["retention.ms"].value == "60000"
    assert entries["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert entries["segment.bytes"].value == str(2**30)


def test_minus_one_takes_the_defaults_of_the_node():
    node = NodeConfigs.checked(NodeId(1), {"num.partitions": "6", "default.replication.factor": "2"})
    answer = created(cluster_of(1, 2), NewTopic("orders"), node)
    assert (answer.partition_count, answer.replication_factor) == (6, 2)


def test_replicas_can_be_assigned_by_hand():
    topic = NewTopic("orders", assignments=assigned((2, 1), (1, 3)))
    image = with_topics(cluster_of(1, 2, 3), topic)
    partitions = list(image.topic_named("orders").in_order())
    assert [partition.replicas for partition in partitions] == [(2, 1), (1, 3)]
    assert [partition.leader for partition in partitions] == [2, 1]


def test_who_was_assigned_by_hand_and_is_away_neither_leads_nor_is_in_sync():
    image = cluster_of(1, 2, 3)
    image = image.apply_all(fence_node(image, NodeId(3)).records)
    image = image.apply_all(drain_node(image, NodeId(2)).records)
    image = with_topics(image, NewTopic("orders", assignments=assigned((3, 2, 1), (2, 3, 1))))
    partitions = list(image.topic_named("orders").in_order())
    assert [(partition.leader, partition.isr) for partition in partitions] == [(1, (2, 1)), (1, (2, 1))]
    image = image.apply_all(fence_node(image, NodeId(1)).records)
    new = NewTopic("new", assignments=assigned((3, 1)))
    (outcome,) = create_topics(image, [new], NODE, TopicIds()).response
    assert refused(outcome) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "partition 0 is assigned to nodes that are all away: [3, 1]",
    )


def test_nodes_that_are_away_get_replicas_if_the_others_are_too_few():
    image = cluster_of(1, 2, 3, 4, 5)
    for away in (2, 4):
        image = image.apply_all(fence_node(image, NodeId(away)).records)
    image = with_topics(image, NewTopic("enough", 6, 3), NewTopic("wide", 6, 4))
    assert {node_id for it in image.topic_named("enough").in_order() for node_id in it.replicas} == {1, 3, 5}
    wide = list(image.topic_named("wide").in_order())
    assert {partition.isr for partition in wide} == {partition.replicas[:3] for partition in wide}
    assert Counter(partition.leader for partition in wide) == {1: 2, 3: 2, 5: 2}
    assert Counter(partition.replicas[3] for partition in wide) == {2: 3, 4: 3}


def test_a_draining_node_gets_replicas_if_the_others_are_too_few():
    image = cluster_of(1, 2)
    image = image.apply_all(drain_node(image, NodeId(2)).records)
    (partition,) = with_topics(image, NewTopic("orders", 1, 2)).topic_named("orders").in_order()
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (1, 2), 1)


def test_nothing_is_placed_where_nobody_takes_anything():
    image = cluster_of(1)
    image = image.apply_all(drain_node(image, NodeId(1)).records)
    (outcome,) = create_topics(image, [NewTopic("orders", 1, 1)], NODE, TopicIds()).response
    assert refused(outcome)[0] is ErrorCode.INVALID_REPLICATION_FACTOR


def test_validate_only_answers_the_same_but_changes_nothing():
    decision = create_topics(
        cluster_of(1), [NewTopic("orders", 3), NewTopic("..")], NODE, TopicIds(), validate_only=True
    )
    assert decision.records == ()
    first, second = decision.response
    assert isinstance(first.result, CreatedTopic)
    assert (first.result.topic_id, first.result.partition_count) == (NO_TOPIC_ID, 3)
    assert refused(second)[0] is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("topic", "code", "words"),
    [
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'..'"),
        (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "may hold only"),
        (NewTopic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "249"),
        (NewTopic("taken.name"), ErrorCode.TOPIC_ALREADY_EXISTS, "taken.name"),
        (NewTopic("taken_name"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with the topic 'taken.name'"),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "cannot be created"),
        (NewTopic("new", 0), ErrorCode.INVALID_PARTITIONS, "at least 1"),
        (NewTopic("new", -2), ErrorCode.INVALID_PARTITIONS, "at least 1"),
        (NewTopic("new", 10**6), ErrorCode.INVALID_PARTITIONS, str(PARTITIONS_PER_REQUEST_MAX)),
        (NewTopic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "at least 1"),
        (NewTopic("new", 1, -3), ErrorCode.INVALID_REPLICATION_FACTOR, "at least 1"),
        (NewTopic("new", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "the cluster has 3"),
        (NewTopic("new", 2, -1, assigned((1,), (2,))), ErrorCode.INVALID_REQUEST, "must both be -1"),
        (NewTopic("new", -1, 1, assigned((1,), (2,))), ErrorCode.INVALID_REQUEST, "must both be -1"),
        (NewTopic("new", assignments=assigned((1,), ())), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replica"),
        (
            NewTopic(
                "new",
                assignments=assigned(
                    (1, 1),
                ),
            ),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "two replicas",
        ),
        (
            NewTopic(
                "new",
                assignments=assigned(
                    (1, 9),
                ),
            ),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "[9]",
        ),
        (NewTopic("new", assignments=assigned((1, 2), (3,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "has 1 replicas"),
        (
            NewTopic("new", assignments=(ManualAssignment(1, (NodeId(1),)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "numbered from 0",
        ),
        (
            NewTopic("new", assignments=(ManualAssignment(0, (NodeId(1),)), ManualAssignment(0, (NodeId(2),)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "each once",
        ),
        (NewTopic("new", configs=(("retention.msec", "1"),)), ErrorCode.INVALID_CONFIG, "'retention.msec'"),
        (NewTopic("new", configs=(("retention.ms", "soon"),)), ErrorCode.INVALID_CONFIG, "of at least -1, not 'soon'"),
        (NewTopic("new", configs=(("retention.ms", None),)), ErrorCode.INVALID_CONFIG, "no value"),
        (
            NewTopic("new", configs=(("retention.ms", "1"), ("retention.ms", "2"))),
            ErrorCode.INVALID_CONFIG,
            "given twice",
        ),
        (
            NewTopic("new", configs=(("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8"))),
            ErrorCode.INVALID_CONFIG,
            "must not be more than max.compaction.lag.ms",
        ),
    ],
)
def test_refusals(topic, code, words):
    image = with_topics(cluster_of(1, 2, 3), NewTopic("taken.name"))
    decision = create_topics(image, [topic], NODE, TopicIds(100))
    assert decision.records == ()
    (outcome,) = decision.response
    assert outcome.name == topic.name
    assert refused(outcome)[0] is code
    assert words in refused(outcome)[1]


def test_one_refusal_does_not_touch_the_others():
    topics = [NewTopic("good"), NewTopic("bad name"), NewTopic("fine")]
    decision = create_topics(cluster_of(1), topics, NODE, TopicIds())
    assert [outcome.name for outcome in decision.response] == ["good", "bad name", "fine"]
    assert [isinstance(outcome.result, Refusal) for outcome in decision.response] == [False, True, False]
    assert [record.name for record in decision.records if isinstance(record, TopicCreated)] == ["good", "fine"]


def test_a_name_that_comes_twice_is_refused_both_times():
    decision = create_topics(cluster_of(1), [NewTopic("a"), NewTopic("b"), NewTopic("a")], NODE, TopicIds())
    assert [isinstance(outcome.result, Refusal) for outcome in decision.response] == [True, False, True]
    assert refused(decision.response[0])[0] is ErrorCode.INVALID_REQUEST


def test_names_within_one_request_collide_too():
    decision = create_topics(cluster_of(1), [NewTopic("a.b"), NewTopic("a_b")], NODE, TopicIds())
    assert refused(decision.response[1])[0] is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_many_topics_cannot_get_around_the_limit_of_a_request():
    halves = [NewTopic(f"t{number}", PARTITIONS_PER_REQUEST_MAX // 2) for number in range(3)]
    outcomes = create_topics(cluster_of(1), halves, NODE, TopicIds()).response
    assert [isinstance(outcome.result, Refusal) for outcome in outcomes] == [False, False, True]
    assert refused(outcomes[2])[0] is ErrorCode.POLICY_VIOLATION


def test_the_cluster_has_a_limit_of_its_own():
    nearly_full = replace(cluster_of(1), partition_count=PARTITIONS_PER_CLUSTER_MAX - 1)
    fits, does_not = create_topics(nearly_full, [NewTopic("last"), NewTopic("one-more")], NODE, TopicIds()).response
    assert isinstance(fits.result, CreatedTopic)
    code, message = refused(does_not)
    assert code is ErrorCode.POLICY_VIOLATION
    assert str(PARTITIONS_PER_CLUSTER_MAX) in message


def test_an_id_that_is_taken_is_not_used_again():
    image = with_topics(cluster_of(1), NewTopic("first"))
    answer = create_topics(image, [NewTopic("second")], NODE, TopicIds(0)).response[0].result
    assert isinstance(answer, CreatedTopic)
    assert answer.topic_id == numbered_topic_id(2)  # 0 is no id at all, and 1 is the first topic's


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_what_coordinators_need_is_added_to_what_a_client_says(name):
    wanted = [NewTopic(name, configs=(("segment.ms", "1000"), ("segment.bytes", "1048576")))]
    decision = create_topics(cluster_of(1), wanted, NODE, TopicIds())
    made = decision.response[0].result
    assert isinstance(made, CreatedTopic)
    assert made.partition_count == 16  # as if a coordinator had made it
    set_for_it = {record.name: record.value for record in decision.records if isinstance(record, ConfigChanged)}
    assert set_for_it == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "max.message.bytes": "16777216",
        "segment.bytes": "1048576",
        "segment.ms": "1000",
    }


@pytest.mark.parametrize(
    "setting", [("cleanup.policy", "delete"), ("cleanup.policy", ""), ("max.message.bytes", "1000")]
)
def test_what_would_harm_a_coordinator_is_refused(setting):
    decision = create_topics(cluster_of(1), [NewTopic("__consumer_offsets", configs=(setting,))], NODE, TopicIds())
    code, message = refused(decision.response[0])
    assert (code, f"needs {setting[0]}" in message) == (ErrorCode.INVALID_CONFIG, True)
    assert decision.records == ()
