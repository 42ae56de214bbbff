"""Places in a log by name and by time, leader epochs and where they ended: ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.clients.nodes import new_name
from tests.clients.raw_connection import RawConnection, batch_of, by_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.wire.messages.offset_for_leader_epoch import EpochEndOffset
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


@pytest.fixture
def connection(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.bootstrap_servers) as opened:
        yield opened


# ---- places


def test_the_named_places_of_a_log(connection: RawConnection, topic: str) -> None:
    connection.produce(topic, batch_of(b"0", b"1", timestamp_ms=1000))
    connection.produce(topic, batch_of(b"2", b"3", timestamp_ms=3000))
    connection.produce(topic, batch_of(b"4", timestamp_ms=2000))
    connection.ask(DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 1)])], 60_000))

    found = {
        place: (answer.error_code, answer.timestamp, answer.offset)
        for place in (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED)
        for answer in [connection.list_offset(topic, place)]
    }

    assert found == {
        LATEST: (0, -1, 5),
        EARLIEST: (0, -1, 1),
        MAX_TIMESTAMP: (0, 3000, 2),  # the first that has it
        EARLIEST_LOCAL: (0, -1, 1),
        LATEST_TIERED: (0, -1, -1),
    }


@pytest.mark.parametrize(("place", "since"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)])
def test_a_named_place_needs_its_version(connection: RawConnection, topic: str, place: int, since: int) -> None:
    assert connection.list_offset(topic, place, version=since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert connection.list_offset(topic, place, version=since).error_code == ErrorCode.NONE


@pytest.mark.parametrize("codec", Codec)
def test_a_time_is_found_to_the_record_also_inside_compressed_batches(
    connection: RawConnection, topic: str, codec: Codec
) -> None:
    for base in (1000, 2000):
        records = [(base + 10 * number, None, b"value " * 20, ()) for number in range(50)]
        connection.produce(topic, encode_batch(records, codec=codec))

    found = {
        time: (answer.timestamp, answer.offset)
        for time in (0, 1000, 1001, 1490, 1491, 2123, 2490, 2491)
        for answer in [connection.list_offset(topic, time)]
    }

    assert found == {
        0: (1000, 0),
        1000: (1000, 0),
        1001: (1010, 1),
        1490: (1490, 49),
        1491: (2000, 50),
        2123: (2130, 63),
        2490: (2490, 99),
        2491: (-1, -1),
    }


def test_an_empty_log_has_no_times(connection: RawConnection, topic: str) -> None:
    for place in (MAX_TIMESTAMP, 0):
        answer = connection.list_offset(topic, place)
        assert (answer.error_code, answer.timestamp, answer.offset) == (ErrorCode.NONE, -1, -1)


# ---- epochs


def test_an_older_epoch_is_fenced_and_a_newer_one_unknown(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name())
    own_node.stop()
    own_node.start()  # each start takes a new epoch
    with RawConnection(own_node.bootstrap_servers) as connection:
        connection.produce(topic, batch_of(b"0"))
        current = connection.list_offset(topic, -1).leader_epoch
        assert current > 0
        expected = {
            current - 1: ErrorCode.FENCED_LEADER_EPOCH,
            current: ErrorCode.NONE,
            current + 1: ErrorCode.UNKNOWN_LEADER_EPOCH,
            -1: ErrorCode.NONE,
        }
        for epoch, code in expected.items():
            part = by_topic(connection.fetch(topic, 0, current_leader_epoch=epoch))[topic]
            assert part.error_code == code
            assert connection.list_offset(topic, -1, leader_epoch=epoch).error_code == code
            assert ask_epoch_end(connection, topic, current, current_epoch=epoch).error_code == code


def test_where_an_epoch_ended(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name())
    ends: dict[int, int] = {}
    for start in range(3):
        with RawConnection(own_node.bootstrap_servers) as connection:
            connection.produce(topic, batch_of(*[b"x"] * (start + 1)))
            epoch = connection.list_offset(topic, -1).leader_epoch
            ends[epoch] = connection.list_offset(topic, -1).offset
        own_node.kill()
        own_node.start()
    with RawConnection(own_node.bootstrap_servers) as connection:
        assert list(ends.values()) == [1, 3, 6]
        for epoch, end in ends.items():
            answer = ask_epoch_end(connection, topic, epoch)
            assert (answer.leader_epoch, answer.end_offset) == (epoch, end)
        unheard_of = ask_epoch_end(connection, topic, 1000)
        assert (unheard_of.leader_epoch, unheard_of.end_offset) == (-1, -1)


def ask_epoch_end(connection: RawConnection, topic: str, epoch: int, *, current_epoch: int = -1) -> EpochEndOffset:
    wanted = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, current_epoch, epoch)])
    answer = connection.ask(OffsetForLeaderEpochRequest(topics=[wanted]))
    found: EpochEndOffset = answer.topics[0].partitions[0]
    return found
