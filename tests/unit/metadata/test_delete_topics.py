from __future__ import annotations

import pytest

from headrace.metadata.commands.topic_commands import DeletedTopic, NewTopic, TopicReference, delete_topics
from headrace.metadata.image.effective_configs import NodeConfigs
from headrace.metadata.image.records import TopicDeleted
from headrace.model.errors import ErrorCode
from headrace.model.names import NodeId, topic_id_text
from tests.unit.metadata.small_cluster import NODE, cluster_of, numbered_topic_id, refused, with_topics

ONE, TWO, UNKNOWN = numbered_topic_id(1), numbered_topic_id(2), numbered_topic_id(99)


@pytest.fixture
def image():
    return with_topics(cluster_of(1), NewTopic("one", 3, configs=(("retention.ms", "1"),)), NewTopic("two"))


def test_by_name_and_by_id(image):
    decision = delete_topics(image, [TopicReference("one"), TopicReference(topic_id=TWO)], NODE)
    assert decision.records == (TopicDeleted(ONE), TopicDeleted(TWO))
    assert [outcome.result for outcome in decision.response] == [DeletedTopic(ONE, "one"), DeletedTopic(TWO, "two")]
    assert [outcome.name for outcome in decision.response] == ["one", topic_id_text(TWO)]


def test_a_deleted_topic_leaves_nothing_behind(image):
    after = image.apply_all(delete_topics(image, [TopicReference("one"), TopicReference("two")], NODE).records)
    assert after == cluster_of(1)


def test_a_name_that_comes_back_is_another_topic_with_no_settings(image):
    deleted = image.apply_all(delete_topics(image, [TopicReference("one"), TopicReference("two")], NODE).records)
    again = with_topics(with_topics(deleted, NewTopic("other")), NewTopic("one"))
    assert again.topic_named("one").topic_id == numbered_topic_id(2)
    assert not again.configs


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        (TopicReference("three"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicReference("o.ne"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicReference(topic_id=UNKNOWN), ErrorCode.UNKNOWN_TOPIC_ID),
        (TopicReference(), ErrorCode.INVALID_REQUEST),
        (TopicReference("one", ONE), ErrorCode.INVALID_REQUEST),
        (TopicReference("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(image, reference, code):
    decision = delete_topics(image, [reference], NODE)
    assert decision.records == ()
    assert refused(decision.response[0])[0] is code


def test_a_topic_named_twice_stays_even_if_once_by_name_and_once_by_id(image):
    decision = delete_topics(image, [TopicReference("one"), TopicReference(topic_id=ONE), TopicReference("two")], NODE)
    assert decision.records == (TopicDeleted(TWO),)
    assert [refused(outcome)[0] for outcome in decision.response[:2]] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_node_can_forbid_it(image):
    node = NodeConfigs.checked(NodeId(1), {"delete.topic.enable": "false"})
    decision = delete_topics(image, [TopicReference("one")], node)
    assert decision.records == ()
    assert refused(decision.response[0])[0] is ErrorCode.TOPIC_DELETION_DISABLED


def test_consumer_offsets_can_be_deleted_as_in_kafka():
    image = with_topics(cluster_of(1), NewTopic("__consumer_offsets", 50))
    assert delete_topics(image, [TopicReference("__consumer_offsets")], NODE).records == (TopicDeleted(ONE),)
