"""Groups commit over and over: what they commit is compacted, so that the next coordinator reads little of it."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.frames import RequestHeader, decode_response, encode_request
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.clients.nodes import PATIENCE_S, new_name
from tests.clients.raw_connection import RawConnection
from tests.clients.raw_members import fetch, find_coordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

OFFSETS = "__consumer_offsets"
VERSION = 8
COMMITS = int(os.environ.get("COMMITS", "10000000"))
GROUPS = int(os.environ.get("COMMITTING_GROUPS", "1000"))
PARTITIONS = 100  # in one request, of each group
AT_A_TIME = 16  # requests on their way
CORRELATION_ID = 1
SHARDS = 16
COMMIT_BYTES = 100  # at least, in the log
MiB = 1 << 20


def commit_for_all(connection: RawConnection, groups: Sequence[str], topic: str, offset: int) -> None:
    """Every group commits its offset in a hundred partitions, in one request; some requests at a time share flushes.

    Requests and answers are alike but for a name, so each is encoded and decoded once: the node has the work.
    """
    parts = [OffsetCommitRequestPartition(number, offset, committed_metadata="") for number in range(PARTITIONS)]
    request = OffsetCommitRequest(groups[0], topics=[OffsetCommitRequestTopic(topic, partitions=parts)])
    sent = encode_request(RequestHeader(request.API_KEY, VERSION, CORRELATION_ID, "raw"), request)
    deadline_s = time.monotonic() + PATIENCE_S
    waiting = list(groups)
    while waiting:
        now, waiting = waiting[:AT_A_TIME], waiting[AT_A_TIME:]
        connection.send_bytes(b"".join(sent.replace(groups[0].encode(), group.encode()) for group in now))
        for group in now:
            codes = error_codes(connection.receive_frame())
            if codes != {ErrorCode.NONE}:
                # A node that its disk has held up for long takes no writes until it has heard from the controller.
                assert codes == {ErrorCode.NOT_COORDINATOR}
                assert time.monotonic() < deadline_s
                waiting.append(group)
                time.sleep(0.1)


@lru_cache(maxsize=10)
def error_codes(frame: bytes) -> set[int]:
    _, answer = decode_response(frame, OffsetCommitRequest.API_KEY, VERSION)
    assert isinstance(answer, OffsetCommitResponse)
    return {part.error_code for part in answer.topics[0].partitions}


def wait_for_answer(connection: RawConnection, group: str, topic: str) -> int:
    """The group's offset in the last partition, once its coordinator is loaded."""
    while True:
        error, found = fetch(connection, group, topic, [PARTITIONS - 1], VERSION)
        if error == ErrorCode.NONE:
            return found[PARTITIONS - 1][0]
        assert error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        time.sleep(0.01)


def stored_bytes(node: NodeProcess) -> int:
    total = 0
    for shard in range(SHARDS):
        for path in node.directory_of(OFFSETS, shard).glob("*.log"):
            try:
                total += path.stat().st_size
            except FileNotFoundError:  # just replaced
                continue
    return total


def run(start_node: Callable[[dict[str, str]], NodeProcess], commits: int, groups: int, segment_bytes: int) -> None:
    node = start_node({"log.cleaner.backoff.ms": "100", "offsets.topic.num.partitions": str(SHARDS)})
    topic = node.create_topic(new_name(), PARTITIONS)
    names = [f"group-{number:06}" for number in range(groups)]
    rounds = commits // (groups * PARTITIONS)
    began_s = time.monotonic()
    with RawConnection(node.bootstrap_servers) as connection:
        find_coordinator(connection)
        if segment_bytes:
            node.alter_topic(OFFSETS, {"segment.bytes": str(segment_bytes)})
        for number in range(rounds):
            commit_for_all(connection, names, topic, number)
    took_s = time.monotonic() - began_s
    written_bytes = commits * COMMIT_BYTES
    deadline_s = time.monotonic() + 60
    while stored_bytes(node) > written_bytes / 3:
        assert time.monotonic() < deadline_s, f"{stored_bytes(node)} bytes are left of at least {written_bytes}"
        time.sleep(0.1)
    left_bytes = stored_bytes(node)
    node.kill()
    began_s = time.monotonic()
    node.start()
    ready_s = time.monotonic() - began_s
    with RawConnection(node.bootstrap_servers) as connection:
        for group in names:
            assert wait_for_answer(connection, group, topic) == rounds - 1
    print(
        f"\n{commits} commits of {groups} groups in {took_s:.0f} s; {left_bytes / MiB:.1f} MiB are left of at least "
        f"{written_bytes / MiB:.0f}; after a kill ready in {ready_s:.2f} s, all groups answer in "
        f"{time.monotonic() - began_s:.2f} s"
    )


def test_commits_of_few_groups_stay_few(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    run(start_node, commits=120_000, groups=3, segment_bytes=MiB)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_millions_of_commits_stay_few(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    run(start_node, COMMITS, GROUPS, segment_bytes=0)
