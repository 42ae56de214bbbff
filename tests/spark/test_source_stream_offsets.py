"""Where the batches of a streaming query begin and end, and that a batch that is read again is the same batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.model.names import TopicPartition
from headrace.testing import Broker
from headrace_spark.source.data_loss import DataLoss
from tests.spark.source_topics import (
    StreamWalk,
    add_partitions,
    delete_records,
    new_topic,
    numbered,
    produce,
    source,
    without_ids,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace_spark.source.offsets import Document

pytestmark = pytest.mark.xdist_group("spark")

EARLIEST = {"startingOffsets": "earliest", "fetchOffset__retryIntervalMs": "10"}


@pytest.fixture
def topic(broker: Broker) -> str:
    return new_topic(broker, 2)


@pytest.fixture
def walks() -> Iterator[list[StreamWalk]]:
    """Queries to be stopped."""
    walks: list[StreamWalk] = []
    yield walks
    for walk in walks:
        walk.stop()


def test_a_query_reads_what_is_there_and_then_what_comes(broker: Broker, topic: str, walks: list[StreamWalk]) -> None:
    produce(broker, topic, numbered(3))
    walks.append(walk := StreamWalk(source(broker, subscribe=topic, **EARLIEST)))
    assert walk.next_batch() == numbered(3)
    assert walk.ends == [{topic: {"0": 3, "1": 0}}]
    assert walk.reader.reportLatestOffset() == {topic: {"0": 3, "1": 0}}
    assert walk.next_batch() is None
    produce(broker, topic, ["x"], partition=1)
    assert walk.next_batch() == ["x"]
    assert walk.reader.partitions(walk.planned[-1], walk.planned[-1]) == []


def test_the_latest_offset_is_kept_by_a_batch_that_reads_nothing(
    broker: Broker, topic: str, walks: list[StreamWalk]
) -> None:
    produce(broker, topic, ["before"])
    walks.append(walk := StreamWalk(source(broker, subscribe=topic)))
    assert without_ids(walk.reader.initialOffset()) == {topic: {"0": -1, "1": -1}}
    assert walk.next_batch() == []
    assert walk.ends == [{topic: {"0": 1, "1": 0}}]
    produce(broker, topic, ["after"])
    walk.restart()
    assert walk.replay() == [], "a crash in the first batch does not move the start"
    assert walk.next_batch() == ["after"]


def test_places_for_each_partition(broker: Broker, topic: str, walks: list[StreamWalk]) -> None:
    for partition in (0, 1):
        produce(broker, topic, numbered(4), partition)
    places = json.dumps({topic: {"0": 2, "1": -1}})
    walks.append(walk := StreamWalk(source(broker, subscribe=topic, startingOffsets=places)))
    assert walk.next_batch() == ["v2", "v3"]
    assert walk.ends == [{topic: {"0": 4, "1": 4}}]
    lenient = {"startingTimestamp": "99999999999999", "startingOffsetsByTimestampStrategy": "latest"}
    walks.append(late := StreamWalk(source(broker, subscribe=topic, **lenient)))
    assert late.next_batch() == []
    assert late.next_batch() is None


def test_batches_are_limited_and_the_same_when_read_again(broker: Broker, topic: str, walks: list[StreamWalk]) -> None:
    produce(broker, topic, numbered(90))
    produce(broker, topic, numbered(10, 90), partition=1)
    walks.append(walk := StreamWalk(source(broker, subscribe=topic, maxOffsetsPerTrigger="20", **EARLIEST)))
    first = walk.next_batch()
    assert walk.ends == [{topic: {"0": 18, "1": 2}}]
    produce(broker, topic, numbered(50, 100), partition=1)
    walk.restart()
    assert walk.replay() == first
    everything = list(first or ())
    while (batch := walk.next_batch()) is not None:
        assert len(batch) <= 21
        assert walk.replay() == batch
        everything += batch
    assert sorted(everything) == sorted(numbered(150))


def test_a_trigger_without_limit_reads_all(broker: Broker, topic: str, walks: list[StreamWalk]) -> None:
    produce(broker, topic, numbered(10))
    walks.append(walk := StreamWalk(source(broker, subscribe=topic, maxOffsetsPerTrigger="1", **EARLIEST)))
    end = walk.reader.latestOffset({topic: {"0": 0, "1": 0}}, ReadAllAvailable())
    assert without_ids(end) == {topic: {"0": 10, "1": 0}}


def test_few_records_wait_for_more(broker: Broker, topic: str, walks: list[StreamWalk]) -> None:
    options = {"subscribe": topic, "minOffsetsPerTrigger": "5", "maxTriggerDelay": "1h", **EARLIEST}
    produce(broker, topic, ["first"])
    walks.append(walk := StreamWalk(source(broker, **options)))
    assert walk.next_batch() == ["first"], "nothing was read yet, so it has been waiting for ever"
    produce(broker, topic, numbered(4))
    assert walk.next_batch() is None
    produce(broker, topic, numbered(1, 4))
    assert walk.next_batch() == numbered(5)
    produce(broker, topic, ["last"])
    walks.append(
        hurried := StreamWalk(source(broker, **{**options, "maxTriggerDelay": "0"}), planned=list(walk.planned))
    )
    assert hurried.next_batch() == ["last"]


def test_available_now_ends_where_the_topic_ended(broker: Broker, topic: str, walks: list[StreamWalk]) -> None:
    produce(broker, topic, numbered(10))
    options = {"subscribe": topic, "maxOffsetsPerTrigger": "4", "minOffsetsPerTrigger": "4", **EARLIEST}
    walks.append(walk := StreamWalk(source(broker, **options), is_available_now=True))
    produce(broker, topic, ["later"])
    found = []
    while (batch := walk.next_batch()) is not None:
        found += batch
    assert found == numbered(10), "the rest is read too, although it is less than the minimum"
    walk.restart()
    assert walk.next_batch() == ["later"]
    assert walk.next_batch() is None


def test_partitions_that_are_added_are_read_from_their_beginning(
    broker: Broker, topic: str, walks: list[StreamWalk]
) -> None:
    walks.append(walk := StreamWalk(source(broker, subscribe=topic, maxOffsetsPerTrigger="2")))
    assert walk.next_batch() == []
    add_partitions(broker, topic, 3)
    produce(broker, topic, numbered(3), partition=2)
    assert walk.next_batch() == ["v0", "v1"]
    assert walk.ends[-1] == {topic: {"0": 0, "1": 0, "2": 2}}
    walk.restart()
    assert walk.replay() == ["v0", "v1"]
    assert walk.next_batch() == ["v2"]


def test_topics_that_begin_to_match_are_read_from_their_beginning(broker: Broker, walks: list[StreamWalk]) -> None:
    first = new_topic(broker, prefix="matching")
    prefix = first[:-6]
    walks.append(walk := StreamWalk(source(broker, subscribePattern=f"{prefix}.*")))
    assert walk.next_batch() == []
    broker.create_topic(f"{prefix}-second")
    produce(broker, f"{prefix}-second", ["hello"])
    assert walk.next_batch() == ["hello"]


def test_records_that_expired_are_told_before_anything_is_planned(
    broker: Broker, topic: str, walks: list[StreamWalk], caplog: pytest.LogCaptureFixture
) -> None:
    produce(broker, topic, numbered(10))
    options = {"subscribe": topic, "maxOffsetsPerTrigger": "2", **EARLIEST}
    walks.append(walk := StreamWalk(source(broker, **options)))
    assert walk.next_batch() == ["v0", "v1"]
    delete_records(broker, {TopicPartition(topic, 0): 7})
    with pytest.raises(DataLoss, match=f"topic '{topic}', partition 0: the offsets from 2 on are wanted.* 7 to 9"):
        walk.next_batch()
    assert len(walk.planned) == 1
    walk.restart(source(broker, **options, failOnDataLoss="false"))
    walks.append(walk)
    assert walk.next_batch() == ["v7", "v8"]
    assert "the offsets from 2 on are wanted" in caplog.text
    assert walk.next_batch() == ["v9"]


def test_a_topic_that_is_gone(broker: Broker, topic: str, walks: list[StreamWalk]) -> None:
    other = new_topic(broker)
    options = {"subscribe": f"{topic},{other}", **EARLIEST}
    produce(broker, topic, ["x"])
    walks.append(walk := StreamWalk(source(broker, **options)))
    assert walk.next_batch() == ["x"]
    broker.delete_topic(topic)
    produce(broker, other, ["y"])
    with pytest.raises(DataLoss, match=f"topic '{topic}', partition 0: .*no such partition any more"):
        walk.next_batch()
    walk.is_available_now = True
    walk.restart()
    with pytest.raises(DataLoss, match="no such partition any more"):
        walk.next_batch()
    walk.restart(source(broker, **options, failOnDataLoss="false"))
    assert walk.next_batch() == ["y"]
    assert walk.ends[-1] == {other: {"0": 1}}
    with pytest.raises(ValueError, match=f"there is no topic '{topic}'"):
        StreamWalk(source(broker, **options)).next_batch()


MADE_ANEW = "was deleted and made anew since it was read last"


def make_anew(broker: Broker, topic: str, values: list[str]) -> None:
    broker.delete_topic(topic)
    broker.create_topic(topic)
    produce(broker, topic, values)


@pytest.mark.parametrize("is_running", [True, False], ids=["while the query runs", "between two runs"])
@pytest.mark.parametrize("new_count", [1, 3, 5], ids=["shorter", "as long", "longer"])
def test_a_topic_that_was_made_anew_is_another_one(
    broker: Broker, walks: list[StreamWalk], caplog: pytest.LogCaptureFixture, new_count: int, is_running: bool
) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(3))
    walks.append(walk := StreamWalk(source(broker, subscribe=topic, **EARLIEST)))
    assert walk.next_batch() == numbered(3)
    make_anew(broker, topic, numbered(new_count, 100))
    if not is_running:
        walk.restart()
    with pytest.raises(DataLoss, match=f"topic '{topic}' {MADE_ANEW}.*'failOnDataLoss' to 'false'"):
        walk.next_batch()
    assert len(walk.planned) == 1, "nothing is planned on top of it"
    walk.restart(source(broker, subscribe=topic, failOnDataLoss="false", **EARLIEST))
    assert walk.next_batch() == numbered(new_count, 100)
    assert f"topic '{topic}' {MADE_ANEW}" in caplog.text
    assert "it is read from its beginning" in caplog.text
    walk.restart(source(broker, subscribe=topic, **EARLIEST))
    assert walk.replay() == numbered(new_count, 100), "the batch is the same when it is read again"
    produce(broker, topic, ["newer"])
    assert walk.next_batch() == ["newer"]


def test_a_topic_that_is_made_anew_after_its_batch_was_planned(broker: Broker, walks: list[StreamWalk]) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(3))
    hasty = {"subscribe": topic, "kafka__default__api__timeout__ms": "500", **EARLIEST}
    walks.append(walk := StreamWalk(source(broker, **hasty)))
    assert walk.next_batch() == numbered(3)
    (task,) = walk.reader.partitions(_before(walk), walk.planned[-1])
    make_anew(broker, topic, ["others"] * 5)
    with pytest.raises(DataLoss, match=MADE_ANEW):
        walk.read(task)
    with pytest.raises(DataLoss, match=MADE_ANEW):
        walk.replay()
    walk.restart(source(broker, failOnDataLoss="false", **hasty))
    assert walk.read(task) == []
    assert walk.replay() == [], "what it was to read is gone"
    assert walk.next_batch() == ["others"] * 5


def _before(walk: StreamWalk) -> Document:
    (topic,) = walk.ends[0]
    return {topic: {"0": 0}}


def test_an_available_now_query_reads_a_topic_that_is_made_anew_to_its_end(
    broker: Broker, walks: list[StreamWalk]
) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(3))
    options = {"subscribe": topic, "failOnDataLoss": "false", "maxOffsetsPerTrigger": "2", **EARLIEST}
    walks.append(walk := StreamWalk(source(broker, **options), is_available_now=True))
    assert walk.next_batch() == numbered(2)
    make_anew(broker, topic, numbered(5, 100))
    assert walk.next_batch() == numbered(2, 100)
    produce(broker, topic, ["later"])
    assert [walk.next_batch() for _ in range(3)] == [numbered(2, 102), numbered(1, 104), None]


def test_a_checkpoint_without_ids_is_read_and_gets_them(broker: Broker, walks: list[StreamWalk]) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(3))
    walks.append(walk := StreamWalk(source(broker, subscribe=topic, **EARLIEST), planned=[{topic: {"0": 2}}]))
    assert walk.next_batch() == ["v2"]
    make_anew(broker, topic, numbered(9))
    with pytest.raises(DataLoss, match=MADE_ANEW):
        walk.next_batch()


def test_a_node_that_comes_back_is_found_again(tmp_path: Path, walks: list[StreamWalk]) -> None:
    with Broker(data_dir=tmp_path) as broker:
        topic = new_topic(broker)
        produce(broker, topic, ["before"])
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        walks.append(walk := StreamWalk(source(broker, subscribe=topic, **EARLIEST)))
        assert walk.next_batch() == ["before"]
    with Broker(data_dir=tmp_path, port=port) as broker:
        produce(broker, topic, ["after"])
        assert walk.next_batch() == ["after"]
