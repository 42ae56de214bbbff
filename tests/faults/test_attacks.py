"""Hostile clients, one kind after the other, while an honest client works beside them.

What must hold is said in `attacks/siege.py`. Each test runs one attack; its attackers are in `attacks/attackers.py`,
the bytes that they send in `attacks/arms.py`. `pytest -s` prints what was measured, and a table of all at the end.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.model.errors import ErrorCode
from headrace.wire.batches.header import read_header
from headrace.wire.batches.records import decode_records
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.faults.attacks import arms, attackers
from tests.faults.attacks.honest import GROUP
from tests.faults.attacks.siege import (
    HONEST_TOPIC,
    TABLE,
    Attack,
    attended,
    besieged,
    cpu_s,
    table,
)
from tests.faults.hostile import Hostile, one_batch
from tests.faults.node_clusters import NodeCluster, Site
from tests.faults.node_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# One after the other: two sieges on the same cores would measure each other.
pytestmark = pytest.mark.xdist_group("attacks")

MIB = 1 << 20
ELSEWHERE = "127.0.0.2"  # for attackers whose address must not be that of the honest
REFUSED = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD}
OPENED = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "gzipped": {"compression.type": "gzip"},
}
"""Topics that ask in different ways for batches to be opened, or not at all."""


@pytest.fixture(scope="module", autouse=True)
def _table() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(table(TABLE))


def answers(results: list[Any]) -> dict[str, set[str]]:
    """Every answer that each thing got, from the tallies of all attackers."""
    found: dict[str, set[str]] = {}
    for tally in results:
        for line in tally:
            thing, _, answer = line.rpartition(": ")
            found.setdefault(thing, set()).add(answer)
    return found


def all_refused(results: list[Any]) -> None:
    """Each batch got an answer that says no, always."""
    allowed = {str(int(code)) for code in REFUSED}
    wrong = {thing: got for thing, got in answers(results).items() if not got <= allowed}
    assert not wrong, f"not refused as they should be: {wrong}"


# ---- 1: batches that unfold


def test_header_bombs(tmp_path: Path) -> None:
    with besieged("header bombs", tmp_path, topics=OPENED) as siege:
        backwards = {"plain with times that go back": {"max_timestamp": -1}}
        targets: dict[str, dict[str, int]] = {**{topic: {} for topic in OPENED}, **backwards}
        bombs = Attack(
            attackers.send_batches,
            {"ports": [siege.port], "arms_from": "header_bomb", "topics": targets, "connections": 3},
        )
        siege.withstand([bombs], all_refused)


def test_batches_that_unfold_to_gigabytes(tmp_path: Path) -> None:
    with besieged("size bombs, every codec", tmp_path, topics=OPENED) as siege:
        bombs = Attack(
            attackers.send_batches,
            {
                "ports": [siege.port],
                "arms_from": "size_bombs",
                "topics": {"plain": {}, "compacted": {}},
                "connections": 3,
            },
        )
        siege.withstand([bombs], all_refused)


def test_a_legal_batch_of_a_million_records(tmp_path: Path) -> None:
    """Its sender may wait, or be told that it is too much. Nobody else may notice."""

    def taken_or_refused(results: list[Any]) -> None:
        allowed = {"0", str(int(ErrorCode.MESSAGE_TOO_LARGE)), str(int(ErrorCode.INVALID_RECORD))}
        wrong = {thing: got for thing, got in answers(results).items() if not got <= allowed}
        assert not wrong, wrong

    with besieged("1.35 million legal records", tmp_path, topics=OPENED) as siege:
        topics: dict[str, dict[str, int]] = {"plain": {}, "compacted": {}}
        large = Attack(
            attackers.send_batches,
            {"ports": [siege.port], "arms_from": "legal_but_large", "topics": topics, "connections": 2},
        )
        siege.withstand([large], taken_or_refused)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodeCluster]:
    sites = [Site(tmp_path / f"data-{node_id}") for node_id in (1, 2, 3)]
    with NodeCluster(tmp_path, sites, {"headrace.durability": "written"}) as nodes:
        nodes.start()
        with Hostile(nodes.nodes[1].port) as client:
            for topic, partitions in ((HONEST_TOPIC, 1), ("ha", 3)):
                assert client.create_topic(topic, partitions, replicas=3) == 0
            wait_until(lambda: bool(leadership(client)), "every partition has its replicas in sync")
        yield nodes
        nodes.check_logs()
        nodes.stop()


def leadership(client: Hostile) -> dict[tuple[str, int], tuple[int, int]]:
    """Leader and epoch of each partition; nothing as long as one has no leader or not all replicas in sync."""
    topics = [MetadataRequestTopic(name=topic) for topic in (HONEST_TOPIC, "ha")]
    seen = {
        (topic.name, part.partition_index): part
        for topic in client.ask(MetadataRequest(topics), 7).topics
        for part in topic.partitions
    }
    if len(seen) < 4 or any(part.leader_id < 0 or len(part.isr_nodes) < 3 for part in seen.values()):
        return {}
    return {place: (part.leader_id, part.leader_epoch) for place, part in seen.items()}


def test_header_bombs_for_every_node_of_a_cluster(cluster: NodeCluster) -> None:
    """Nine bombs once took three nodes out. Now nobody loses anything: no leader changes, no replica falls behind."""
    with Hostile(cluster.nodes[1].port) as client:
        before, controller = leadership(client), cluster.controller_id()
        leader = cluster.nodes[before[HONEST_TOPIC, 0][0]]
        with attended("header bombs, three nodes", list(cluster.nodes.values()), leader.port, commits=False) as siege:
            ports = [node.port for node in cluster.nodes.values()]
            targets = {f"ha {part}": {"partition": part, "max_timestamp": -1} for part in range(3)}
            bombs = Attack(
                attackers.send_batches,
                {"ports": ports, "arms_from": "header_bomb", "topics": targets, "connections": 3},
            )

            def refused_by_leaders(results: list[Any]) -> None:
                for thing, got in answers(results).items():
                    assert "0" not in got, thing
                    assert got & {str(int(code)) for code in REFUSED}, f"{thing}: no leader refused it: {got}"

            siege.withstand([bombs], refused_by_leaders)
        assert leadership(client) == before
        assert cluster.controller_id() == controller


# ---- 2: batches that no consumer can read


def test_poison_pills(tmp_path: Path) -> None:
    """They go where the honest client writes: whoever reads its topic meets all of its records, and nothing else."""

    def nothing_taken(results: list[Any]) -> None:
        taken = [thing for thing, got in answers(results).items() if "0" in got]
        assert not taken, f"{len(taken)} kinds were acknowledged: {taken}"
        all_refused(results)

    with besieged("poison pills", tmp_path) as siege:
        pills = Attack(
            attackers.send_batches,
            {"ports": [siege.port], "arms_from": "poison_pills", "topics": {HONEST_TOPIC: {}}, "connections": 2},
        )
        siege.withstand([pills], nothing_taken)
        written = siege.stop_the_honest().written
        values = read_by_a_consumer(siege.node.bootstrap, HONEST_TOPIC, written)
        assert values == [b"%032d" % number for number in range(written)]


def read_by_a_consumer(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """So many records from the start, as librdkafka sees them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    values: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline_s = time.monotonic() + 60
        while len(values) < count and time.monotonic() < deadline_s:
            for message in consumer.consume(1000, timeout=1):
                assert message.error() is None, message.error()
                values.append(message.value())
    finally:
        consumer.close()
    return values


# ---- 3: times


def test_forged_times(tmp_path: Path) -> None:
    """Lookups by time still find what was written then, and what is old is still dropped."""

    def refused(results: list[Any]) -> None:
        allowed = {str(int(code)) for code in (*REFUSED, ErrorCode.INVALID_TIMESTAMP)}
        wrong = {thing: got for thing, got in answers(results).items() if not got <= allowed}
        assert not wrong, f"{len(wrong)} kinds were not refused: {wrong}"

    fleeting = {"retention.ms": "1000", "segment.ms": "1"}
    configs = {"log.retention.check.interval.ms": "500"}
    with besieged("forged times", tmp_path, configs=configs, topics={"fleeting": fleeting}) as siege:
        with siege.connect() as client:
            claims = client.produce("fleeting", arms.of_now_that_claims_the_end_of_time())
            assert claims.error_code in {0, ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD}
            assert client.produce("fleeting", arms.batch_with(arms.record(0), 1)).error_code == 0
        targets: dict[str, dict[str, int]] = {HONEST_TOPIC: {}, "fleeting": {}}
        forged = Attack(
            attackers.send_batches,
            {"ports": [siege.port], "arms_from": "forged_times", "topics": targets, "connections": 2},
        )
        siege.withstand([forged], refused)
        written = siege.stop_the_honest().written
        with siege.connect() as client:
            check_lookups(client, written)
            for _ in range(3):  # the newest segment stays, so let there be newer ones
                assert client.produce("fleeting", arms.batch_with(arms.record(0), 1)).error_code == 0
                time.sleep(0.01)
            wait_until(lambda: log_start(client, "fleeting") > 0, "retention drops what is old")


def check_lookups(client: Hostile, written: int) -> None:
    """The time of each of some records, looked up, leads to the first record with that time or later."""
    times = [record.timestamp for record in all_records(client, HONEST_TOPIC)]
    assert len(times) == written
    for offset in range(0, written, max(1, written // 20)):
        expected = next(place for place, timestamp in enumerate(times) if timestamp >= times[offset])
        assert looked_up(client, HONEST_TOPIC, times[offset]) == expected
    assert looked_up(client, HONEST_TOPIC, max(times) + 1) == -1
    assert looked_up(client, HONEST_TOPIC, -3) == times.index(max(times))


def all_records(client: Hostile, topic: str) -> list[Any]:
    found: list[Any] = []
    end = client.fetch(topic, 0).high_watermark
    while not found or found[-1].offset < end - 1:
        raw = memoryview(bytes(client.fetch(topic, found[-1].offset + 1 if found else 0).records))
        while raw:
            size = read_header(raw).size
            found += decode_records(raw[:size], inflate_max=MIB)
            raw = raw[size:]
    return found


def looked_up(client: Hostile, topic: str, timestamp: int) -> int:
    wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)])
    (found,) = client.ask(ListOffsetsRequest(topics=[wanted]), 7).topics[0].partitions
    assert found.error_code == 0
    return int(found.offset)


def log_start(client: Hostile, topic: str) -> int:
    return looked_up(client, topic, -2)


# ---- 4: forged markers


def test_forged_markers(tmp_path: Path) -> None:
    """What is acknowledged as committed is there for whoever reads what is committed, and nothing keeps it back."""
    with besieged("forged markers", tmp_path, topics={"tx": {}}) as siege, siege.connect() as client:
        producer = begin_producer(client, "victim")
        committed: list[str] = []

        def kept(results: list[Any]) -> None:
            forged, victim = results
            assert not victim["troubles"], f"the victim's own requests failed: {victim['troubles']}"
            committed.extend(victim["acknowledged"])
            goes_on["first_sequence"] = len(committed)
            assert committed_values(client, "tx") == committed
            taken = [thing for thing, got in answers([forged]).items() if "0" in got]
            assert not taken, f"markers that were taken: {taken}"

        place = {"port": siege.port, "topic": "tx", "producer_id": producer[0], "producer_epoch": producer[1]}
        goes_on: dict[str, object] = {**place, "transactional_id": "victim", "first_sequence": 0}
        attacks = [Attack(attackers.forge_markers, place), Attack(attackers.run_transactions, goes_on)]
        siege.withstand(attacks, kept)


def begin_producer(client: Hostile, transactional_id: str) -> tuple[int, int]:
    answer: Any = None

    def is_there() -> bool:
        nonlocal answer
        answer = client.ask(InitProducerIdRequest(transactional_id, 60_000), 2)
        return bool(answer.error_code == 0)

    client.ask(FindCoordinatorRequest(transactional_id, key_type=1), 2)  # which makes its topic
    wait_until(is_there, "the transaction's coordinator has loaded", lambda: str(answer))
    return answer.producer_id, answer.producer_epoch


def committed_values(client: Hostile, topic: str) -> list[str]:
    """What a reader of committed records sees, once nothing is open any more."""

    def answer(offset: int) -> Any:
        wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=16 * MIB)])
        return client.ask(FetchRequest(isolation_level=1, topics=[wanted]), 11).responses[0].partitions[0]

    # Markers are written behind the answer to EndTxn.
    wait_until(lambda: answer(0).last_stable_offset == answer(0).high_watermark, "the last stable offset moves on")
    part = answer(0)
    assert not part.aborted_transactions, f"somebody else aborted: {part.aborted_transactions}"
    values, raw = [], memoryview(bytes(part.records))
    while raw:
        header = read_header(raw)
        if not header.attributes & 0x20:
            values += [(record.value or b"").decode() for record in decode_records(raw[: header.size], inflate_max=MIB)]
        raw = raw[header.size :]
    return values


# ---- 5: memory, and fair shares


def test_batches_of_unknown_producers_for_a_node_that_does_not_lead(cluster: NodeCluster) -> None:
    with Hostile(cluster.nodes[1].port) as client:
        places = leadership(client)
        node_id, _ = places[HONEST_TOPIC, 0]
        honest_node = cluster.nodes[node_id]
        partition = next(part for part in range(3) if places["ha", part][0] != node_id)
        with attended("unknown producers", [honest_node], honest_node.port, commits=False) as siege:

            def not_the_leader(results: list[Any]) -> None:
                expected = {str(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))}
                assert answers(results) == {"forged headers": expected, "large batches": expected}

            arguments = {"port": honest_node.port, "topic": "ha", "partition": partition}
            siege.withstand([Attack(attackers.send_refused_producers, arguments)], not_the_leader)


def test_frames_that_are_never_finished(tmp_path: Path) -> None:
    """Twenty times 99 MB of a request that never ends; a producer of 10 MB batches elsewhere is served beside them."""

    def large_one_is_served(results: list[Any]) -> None:
        unfinished, large = results
        assert unfinished["MiB sent"] > 0
        assert large["codes"] == ["0"]
        assert large["took_s"] < 20, large

    topics = {"large": {"max.message.bytes": str(12 * MIB)}}
    with besieged("unfinished frames", tmp_path, topics=topics) as siege:
        frames = {"port": siege.port, "address": ELSEWHERE, "connections": 20, "size": 100 * MIB}
        attacks = [
            Attack(attackers.leave_frames_unfinished, frames),
            Attack(attackers.send_large, {"port": siege.port, "topic": "large", "size": 10 * MIB}),
        ]
        siege.withstand(attacks, large_one_is_served)


@pytest.mark.parametrize("groups", [1, 40])
def test_members_with_huge_subscriptions(tmp_path: Path, groups: int) -> None:
    with besieged(f"huge subscriptions, {groups} groups", tmp_path) as siege:
        members = {"port": siege.port, "members": 40, "size": 5 * MIB, "groups": groups}
        siege.withstand([Attack(attackers.join_with_much, members)], lambda results: all_have_asked(results, 40))


def test_members_that_subscribe_to_thousands_of_names(tmp_path: Path) -> None:
    with besieged("subscriptions by the thousand", tmp_path) as siege:
        members = {"port": siege.port, "members": 150, "names": 6000}
        siege.withstand([Attack(attackers.subscribe_to_much, members)], lambda results: all_have_asked(results, 150))


def all_have_asked(results: list[Any], members: int) -> None:
    """Each was let in or not: that is the node's choice."""
    assert sum(results[0].values()) == members


def test_fetches_that_wait_for_ever(tmp_path: Path) -> None:
    """They wait at the honest client's own partition. Its appends must not pay for them."""

    def nobody_answered(results: list[Any]) -> None:
        assert results == [{"parked": 5120, "connections that were answered": 0}]

    with besieged("5,120 parked fetches", tmp_path) as siege:
        crowd = {"port": siege.port, "topic": HONEST_TOPIC, "connections": 320, "each": 16}
        siege.withstand([Attack(attackers.park_fetches, crowd)], nobody_answered)


def test_herds_of_fetches_that_wake_at_once(tmp_path: Path) -> None:
    def woken(results: list[Any]) -> None:
        assert results[0]["herds"] >= 2
        assert results[0]["fetches in each"] == 2000

    with besieged("herds of 2,000 fetches", tmp_path, topics={"herd": {}}) as siege:
        crowd = {"port": siege.port, "topic": "herd", "connections": 125, "each": 16}
        siege.withstand([Attack(attackers.wake_herds, crowd)], woken)


def test_one_address_that_takes_every_connection(tmp_path: Path) -> None:
    """The honest client connects anew every few requests, from another address."""

    def turned_away(results: list[Any]) -> None:
        (tally,) = results
        assert tally["turned away"] > 0
        assert tally["held"] < 100

    with besieged(
        "one address, 400 connections", tmp_path, configs={"max.connections": "100"}, reconnects=True
    ) as siege:
        flood = {"port": siege.port, "address": ELSEWHERE, "connections": 400}
        siege.withstand([Attack(attackers.take_all_connections, flood)], turned_away)


@pytest.mark.parametrize(
    ("what", "message_from", "version", "arguments"),
    [
        ("19,990 batches in a request", "crowd_of_batches", 8, {"count": 19_990, "partitions": 4}),
        ("300 batches to open", "batches_to_open", 8, {"count": 300}),
        ("everything about all topics", "everything_about_topics", 9, {}),
    ],
)
def test_requests_that_are_much_work(
    tmp_path: Path, what: str, message_from: str, version: int, arguments: dict[str, int]
) -> None:
    """Thirty connections ask for it at once, all of them from the honest client's own address."""

    def answered(results: list[Any]) -> None:
        assert answers(results)[message_from] == {"answered"}

    with besieged(what, tmp_path) as siege:
        with siege.connect() as client:
            assert client.create_topic("crowded", 2000) == 0
        work = {"port": siege.port, "message_from": message_from, "version": version, "connections": 30, **arguments}
        siege.withstand([Attack(attackers.send_again, work)], answered)


def test_answers_that_nobody_reads(tmp_path: Path) -> None:
    with besieged("unread answers", tmp_path, topics={"bulk": {}}) as siege:
        with siege.connect() as client:
            assert client.create_topic("wide", 500) == 0
            for _ in range(40):
                assert client.produce("bulk", one_batch(b"x" * 900_000)).error_code == 0
        deaf = {"port": siege.port, "topic": "bulk", "connections": 100}
        siege.withstand(
            [Attack(attackers.never_read, deaf)], lambda results: None
        )  # what they would get, they never ask


# ---- 6: settings, the cluster's own topics, HTTP

HARMFUL_FOR_NODES = {
    "log.cleaner.backoff.ms": "0",
    "log.cleaner.dedupe.buffer.size": str(2**63 - 1),
    "headrace.scrub.interval.ms": "1",
    "headrace.scrub.max.bytes.per.second": str(2**63 - 1),
    "leader.imbalance.check.interval.seconds": "1",
    "offset.metadata.max.bytes": str(2**31 - 1),
}
HARMFUL_FOR_TOPICS = {
    "segment.bytes": "1",
    "segment.ms": "1",
    "segment.index.bytes": "4",
    "index.interval.bytes": "0",
    "min.cleanable.dirty.ratio": "0",
    "max.compaction.lag.ms": "1",
}


@pytest.mark.parametrize("is_from_start", [True, False])
def test_settings_that_would_make_a_node_spin(tmp_path: Path, is_from_start: bool) -> None:
    """Set at the start, or by anybody while it runs. What is refused is harmless, too."""
    configs = {"log.cleaner.backoff.ms": "0" if is_from_start else "100"}
    topics = {"compacted": {"cleanup.policy": "compact"}}
    with besieged("harmful settings", tmp_path, configs=configs, topics=topics) as siege:
        if not is_from_start:
            settings = {"topics": {"compacted": HARMFUL_FOR_TOPICS}, "node": HARMFUL_FOR_NODES}
            siege.withstand([Attack(attackers.alter, {"port": siege.port, **settings})], set_or_refused)
        siege.stop_the_honest()
        # A share of a core, and the least of three looks: a node that spins takes all that it can get, always.
        shares = [cpu_share(siege.node.pid, 1.0) for _ in range(3)]
        assert min(shares) < 0.1, f"an idle node takes {[f'{share:.0%}' for share in shares]} of a core"


def set_or_refused(results: list[Any]) -> None:
    allowed = {0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION}
    for setting, codes in answers(results).items():
        assert codes <= {str(int(code)) for code in allowed}, f"{setting}: {codes}"


def cpu_share(pid: int, seconds: float) -> float:
    began_s, used_s = time.monotonic(), cpu_s(pid)
    time.sleep(seconds)
    return (cpu_s(pid) - used_s) / (time.monotonic() - began_s)


def test_internal_topics_with_harmful_settings(tmp_path: Path) -> None:
    """Somebody is faster than the cluster, or alters its topics later: what was committed survives, a restart too."""
    harmful = {"cleanup.policy": "delete", "retention.ms": "1", "segment.ms": "1"}
    internal = ("__consumer_offsets", "__transaction_state")
    configs = {"log.retention.check.interval.ms": "200"}
    with NodeCluster(tmp_path, [Site(tmp_path / "data")], {"headrace.durability": "written", **configs}) as nodes:
        (node,) = nodes.start().nodes.values()
        with Hostile(node.port) as client:
            for topic in internal:
                client.create_topic(topic, configs=harmful)
            for topic in (HONEST_TOPIC, "fleeting"):
                assert client.create_topic(topic, configs=harmful if topic == "fleeting" else {}) == 0
            begin_producer(client, "anybody")  # now both internal topics are there, whoever made them
        with attended("internal topics", [node], node.port) as siege:
            settings = {"topics": dict.fromkeys(internal, harmful), "node": {}}
            siege.withstand([Attack(attackers.alter, {"port": node.port, **settings})], set_or_refused)
            committed = siege.stop_the_honest().committed
        with Hostile(node.port) as client:
            wait_until(lambda: retention_has_passed(client), "whatever may be dropped has been")
        assert node.stop() == 0
        node.start()
        with Hostile(node.port) as client:
            wait_until(lambda: committed_offset(client) is not None, "the group's coordinator has loaded")
            assert committed_offset(client) == committed
        nodes.stop()


def retention_has_passed(client: Hostile) -> bool:
    """True once a topic with the same settings has lost its oldest records."""
    assert client.produce("fleeting", arms.batch_with(arms.record(0), 1)).error_code == 0
    return log_start(client, "fleeting") > 2


def committed_offset(client: Hostile) -> int | None:
    """None while the coordinator loads."""
    request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(HONEST_TOPIC, [0])])
    answer = client.ask(request, 5)
    part = answer.topics[0].partitions[0] if answer.topics else None
    return None if answer.error_code or part is None or part.error_code else part.committed_offset


def test_http_that_is_slow_huge_or_none(tmp_path: Path) -> None:
    def probes_get_through(results: list[Any]) -> None:
        got = answers(results)
        assert got.pop("a probe") == {"200"}
        for thing, statuses in got.items():
            assert statuses <= {"400", "404", "405", "413", "414", "431", attackers.CLOSED}, f"{thing}: {statuses}"

    with besieged("HTTP", tmp_path) as siege:
        crowd = {"port": siege.node.http_port, "connections": 600}
        siege.withstand([Attack(attackers.harass_http, crowd)], probes_get_through)
