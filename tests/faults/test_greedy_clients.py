"""Clients that follow the rules of the wire and still take too much: floods, silence, deafness, sudden departure.

Memory is bounded by what a client has really sent, and what waits for it by a few megabytes. `WatchedNode.attacked`
checks that others are served meanwhile and that the node is itself again afterwards.
"""

from __future__ import annotations

import contextlib
import random
import resource
import struct
import time
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.api import ApiKey
from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.faults.hostile import (
    HEALTHY_TOPIC,
    LENGTH,
    MIB,
    WatchedNode,
    framed,
    one_batch,
    produce_request,
    request_start,
    watched_node,
)
from tests.faults.node_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.wire.api import Message

FRAME_MAX = 100 * MIB
CONNECTIONS_MAX = 1500
FLOOD = 2000
IDLE_KIB_MAX = 24  # what a connection may cost that has said a few words and is silent now


@pytest.fixture(scope="module", autouse=True)
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    with watched_node(tmp_path_factory.mktemp("greedy"), max_connections=str(CONNECTIONS_MAX)) as watched:
        with watched.connect() as client:
            assert client.create_topic("wide", 500) == 0
            assert client.create_topic("bulk") == 0
            for _ in range(40):
                assert client.produce("bulk", one_batch(b"x" * 900_000)).error_code == 0
        yield watched


def fetch_of(topic: str, offset: int = 0, *, max_wait_ms: int = 100, min_bytes: int = 1) -> FetchRequest:
    wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=64 * MIB)])
    return FetchRequest(topics=[wanted], min_bytes=min_bytes, max_wait_ms=max_wait_ms)


METADATA_OF_WIDE = MetadataRequest([MetadataRequestTopic(name="wide")])


# ---- slow, and deaf


def test_bytes_that_come_one_by_one_make_a_request(node: WatchedNode) -> None:
    request = framed(request_start(ApiKey.API_VERSIONS, 0))
    with node.attacked(), node.connect() as client:
        for place in range(len(request)):
            client.send(request[place : place + 1])
        assert client.frame() is not None


def test_memory_follows_what_is_sent_and_not_what_is_announced(node: WatchedNode) -> None:
    """200 clients announce 20 GB and send 8 MB: the node takes at most four times that."""
    crowd_size, sent = 200, 40_000
    with node.attacked(grows_mib=4 * crowd_size * sent / MIB + 20), contextlib.ExitStack() as crowd:
        for _ in range(crowd_size):
            client = crowd.enter_context(node.connect())
            client.send(LENGTH.pack(FRAME_MAX) + request_start(ApiKey.PRODUCE, 7) + bytes(sent))
        wait_until(lambda: node.metric("headrace_connections") > crowd_size, "all of them are connected")


def test_the_largest_frame_is_read_and_its_memory_given_back(node: WatchedNode) -> None:
    with node.attacked(grows_mib=100 + 64 + 20), node.connect() as client:
        start = request_start(ApiKey.METADATA, 4)
        client.send(LENGTH.pack(FRAME_MAX) + start + b"\xff" * (FRAME_MAX - len(start)))
        assert client.frame() is not None  # -1 topics means all of them; what follows is not looked at
        client.ask(ApiVersionsRequest(), 0)
        wait_until(lambda: node.memory_mib() < 100, "the large buffer is gone though its client stays")


def test_large_frames_that_nobody_finishes_share_one_budget(node: WatchedNode) -> None:
    """20 clients send 2 GB between them. The node takes 128 MiB."""
    with node.attacked(grows_mib=128 + 30), contextlib.ExitStack() as crowd:
        for _ in range(20):
            client = crowd.enter_context(node.connect())
            client.socket.settimeout(0.3)
            client.send(LENGTH.pack(FRAME_MAX) + request_start(ApiKey.METADATA, 4))
            with contextlib.suppress(TimeoutError, ConnectionError):
                for _ in range(99):
                    client.socket.sendall(bytes(MIB))
        with node.connect() as client:
            for _ in range(10):
                assert client.produce("bulk", one_batch(b"x" * 900_000)).error_code == 0


def test_a_crowd_that_never_reads_its_answers(node: WatchedNode) -> None:
    """Each may leave 4 MiB unread, and all together a sixteenth of what that would be."""
    requests = encode_request(RequestHeader(ApiKey.METADATA, 1, 1, "deaf"), METADATA_OF_WIDE) * 500
    with node.attacked(grows_mib=64 + 60), contextlib.ExitStack() as crowd:
        for _ in range(60):
            crowd.enter_context(node.connect()).send(requests)
        wait_until(lambda: "answers that nobody reads" in node.process.log, "the deaf have to go")


def test_a_client_that_never_reads_its_answers_is_not_read_from(node: WatchedNode) -> None:
    """It would ask for ever. The node makes a few megabytes of answers, and waits."""
    requests = encode_request(RequestHeader(ApiKey.METADATA, 1, 1, "deaf"), METADATA_OF_WIDE) * 1000
    with node.attacked(), node.connect() as client:
        client.send_until_nobody_takes_more(requests)


def test_answers_that_wait_behind_a_long_poll_are_bounded(node: WatchedNode) -> None:
    """The first request waits for three seconds; 70 MB of answers would gather behind it."""
    with node.attacked(), node.connect() as client:
        client.begin(fetch_of(HEALTHY_TOPIC, max_wait_ms=3_000, min_bytes=2**31 - 1), 11)
        client.begin_many(METADATA_OF_WIDE, 1, 5_000)
        time.sleep(0.5)


def test_long_polls_of_one_connection_are_bounded_and_all_answered(node: WatchedNode) -> None:
    count = 500
    with node.attacked(), node.connect() as client:
        client.begin_many(fetch_of("wide", max_wait_ms=20), 11, count)
        client.expect_in_order(count)


def test_a_client_that_never_reads_what_it_fetched(node: WatchedNode) -> None:
    with node.attacked():
        crowd = [node.connect() for _ in range(20)]
        for client in crowd:
            client.begin_many(fetch_of("bulk"), 11, 50)
        wait_until(lambda: node.metric("headrace_connections") > len(crowd), "all of them are connected")
        time.sleep(0.2)
        for number, client in enumerate(crowd):
            if number % 2:
                client.vanish()
            else:
                client.socket.close()


# ---- pipelines


def test_a_hundred_thousand_pipelined_requests_are_answered_in_order(node: WatchedNode) -> None:
    count = 100_000
    with node.attacked(), node.connect() as client:
        client.begin_many(ApiVersionsRequest(), 0, count)
        client.expect_in_order(count)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_pipelined_produces_are_all_written_and_answered(node: WatchedNode, acks: int) -> None:
    count, topic = 20_000, f"pipelined.{acks}"
    with node.connect() as client:
        assert client.create_topic(topic) == 0
    with node.attacked(), node.connect() as client:
        # A large request first: the receive buffer then holds thousands of small ones at once.
        client.begin(produce_request(topic, one_batch(b"x" * 900_000), acks=acks), 7)
        client.begin_many(produce_request(topic, one_batch(b"v"), acks=acks), 7, count)
        if acks:
            client._correlation_id -= count
            client.expect_in_order(1)
            client._correlation_id += count
            client.expect_in_order(count)
        with node.connect() as reader:
            wait_until(lambda: reader.fetch(topic, 0).high_watermark == count + 1, "everything is readable")


def test_answers_keep_the_order_of_requests_of_every_kind(node: WatchedNode) -> None:
    chance = random.Random(7)
    kinds: list[tuple[Message, int]] = [
        (ApiVersionsRequest(), 0),
        (METADATA_OF_WIDE, 1),
        (fetch_of(HEALTHY_TOPIC), 11),
        (fetch_of("wide", max_wait_ms=3), 11),
        (produce_request(HEALTHY_TOPIC, one_batch()), 7),
        (produce_request(HEALTHY_TOPIC, one_batch(), acks=-1), 7),
        (ListOffsetsRequest(topics=[ListOffsetsTopic(HEALTHY_TOPIC, [ListOffsetsPartition(0, timestamp=1)])]), 5),
        (CreateTopicsRequest([CreatableTopic("again", 1, 1)]), 4),
    ]
    count = 600
    with node.attacked(), node.connect() as client:
        for message, version in chance.choices(kinds, k=count):
            client.begin(message, version)
        client.expect_in_order(count)


# ---- groups


def test_members_that_say_too_much_of_themselves_are_refused(node: WatchedNode) -> None:
    """40 members with subscriptions of 5 MB would make the node remember 200 MB, and say so in its log."""
    with node.connect() as client:

        def is_there() -> bool:
            found = client.ask(FindCoordinatorRequest(coordinator_keys=["greedy"]), 4)
            return bool(found.coordinators[0].error_code == ErrorCode.NONE)

        wait_until(is_there, "somebody coordinates the group")
    wish = JoinGroupRequest(
        group_id="greedy",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", bytes(5 * MIB))],
    )
    with node.attacked(grows_mib=40):
        for _ in range(40):
            with node.connect() as client:
                code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                while code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    code = ErrorCode(client.ask(wish, 3).error_code)
                assert code is ErrorCode.INVALID_REQUEST


# ---- many connections


def test_connections_beyond_the_limit_are_closed_and_the_others_stay(node: WatchedNode) -> None:
    with node.attacked(grows_mib=CONNECTIONS_MAX * IDLE_KIB_MAX / 1024 + 20), contextlib.ExitStack() as crowd:
        clients = [crowd.enter_context(node.connect()) for _ in range(FLOOD)]
        alive = 0
        for client in clients:
            client.begin(ApiVersionsRequest(), 0)
            alive += client.frame() is not None
        assert CONNECTIONS_MAX - 5 <= alive <= CONNECTIONS_MAX


def test_a_flood_on_a_system_with_few_descriptors_leaves_enough_for_the_logs(tmp_path: Path) -> None:
    with watched_node(tmp_path, files_max=1024) as node:
        with node.connect() as client:
            assert client.create_topic("spread", 100) == 0
        with node.attacked(), node.connect() as healthy, contextlib.ExitStack() as crowd:
            healthy.ask(ApiVersionsRequest(), 0)
            for _ in range(FLOOD):
                client = crowd.enter_context(node.connect())
                client.send(framed(request_start(ApiKey.API_VERSIONS, 0)))
            for partition in range(100):
                assert healthy.produce("spread", one_batch(), partition=partition).error_code == 0


def test_a_thousand_idle_connections_cost_little(node: WatchedNode) -> None:
    count = 1000
    with node.attacked(grows_mib=count * IDLE_KIB_MAX / 1024 + 10), contextlib.ExitStack() as crowd:
        before_mib = node.memory_mib()
        clients = [crowd.enter_context(node.connect()) for _ in range(count)]
        for client in clients:
            client.ask(ApiVersionsRequest(), 0)
        cost_kib = (node.memory_mib() - before_mib) * 1024 / count
        print(f"\n{cost_kib:.1f} KiB for each of {count} connections that have spoken once")


def test_connections_that_come_and_go_leave_nothing_behind(node: WatchedNode) -> None:
    with node.attacked():
        for number in range(1000):
            client = node.connect()
            if number % 3:
                client.send(framed(request_start(ApiKey.API_VERSIONS, 0))[: number % 20])
            if number % 2:
                client.vanish()
            else:
                client.socket.close()


# ---- leaving in the middle of something


def departures() -> dict[str, list[tuple[Message, int]]]:
    new_topics = CreateTopicsRequest([CreatableTopic(f"departed.{number}", 5, 1) for number in range(20)])
    return {
        "a long poll": [(fetch_of(HEALTHY_TOPIC, 0, max_wait_ms=30_000, min_bytes=2**30), 11)],
        "a wait for the disk": [(produce_request(HEALTHY_TOPIC, one_batch(), acks=-1), 7)] * 50,
        "records on their way out": [(fetch_of("bulk"), 11)] * 3,
        "a slow admin request": [(new_topics, 4), (DeleteTopicsRequest(topic_names=["departed.3"]), 1)],
        "a lookup by time": [
            (ListOffsetsRequest(topics=[ListOffsetsTopic("bulk", [ListOffsetsPartition(0, timestamp=5)])]), 5)
        ]
        * 50,
        "everything": [
            (fetch_of("bulk"), 11),
            (produce_request(HEALTHY_TOPIC, one_batch(), acks=-1), 7),
            (fetch_of("wide", max_wait_ms=30_000), 11),
            (METADATA_OF_WIDE, 1),
            (new_topics, 4),
        ],
    }


@pytest.mark.parametrize("what", departures())
def test_leaving_in_the_middle_leaves_nothing_behind(node: WatchedNode, what: str) -> None:
    chance = random.Random(what)
    with node.attacked():
        for round_ in range(30):
            client = node.connect()
            for message, version in departures()[what]:
                client.begin(message, version)
            time.sleep(chance.choice([0, 0, 0.001, 0.01]))
            if round_ % 2:
                client.vanish()
            else:
                client.socket.close()


def test_leaving_with_half_a_frame_sent(node: WatchedNode) -> None:
    frame = framed(request_start(ApiKey.PRODUCE, 7) + struct.pack(">hhi", -1, 1, 100) + bytes(200_000))
    with node.attacked():
        for size in (1, 3, 4, 5, 11, 12, 100, 16_384, 70_000, len(frame) - 1):
            client = node.connect()
            client.send(frame[:size])
            client.vanish()


def test_a_deaf_crowd_on_a_system_with_few_descriptors(tmp_path: Path) -> None:
    """Each of them makes the node wait with a descriptor of its own until the socket can be written to again."""
    with watched_node(tmp_path, files_max=1024) as node:
        with node.connect() as client:
            assert client.create_topic("spread", 100) == 0
            assert client.create_topic("bulk") == 0
            for _ in range(10):
                assert client.produce("bulk", one_batch(b"x" * 900_000)).error_code == 0
        with node.attacked(grows_mib=100), node.connect() as healthy, contextlib.ExitStack() as crowd:
            healthy.ask(ApiVersionsRequest(), 0)
            for _ in range(1000):
                client = crowd.enter_context(node.connect())
                client.begin(fetch_of("bulk"), 11)
            for partition in range(100):
                assert healthy.produce("spread", one_batch(), partition=partition).error_code == 0
