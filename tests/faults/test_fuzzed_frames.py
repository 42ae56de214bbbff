"""Thousands of requests that are almost right, over real sockets, in every API and version.

Each is answered or costs its sender the connection. The node must not stumble, hang, leak, or log a traceback.
A failure prints the seed; `HEADRACE_SEED` runs it again, `HEADRACE_FUZZED_FRAMES` says how many frames.
"""

from __future__ import annotations

import os
import random
import struct
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from headrace.servers.kafka.apis import SERVED
from headrace.wire.api import APIS, ApiKey
from headrace.wire.batches.header import seal
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.faults.hostile import LENGTH, Hostile, WatchedNode, one_batch, watched_node
from tests.faults.valid_frames import valid_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = os.environ.get("HEADRACE_SEED", "1")
FRAMES = int(os.environ.get("HEADRACE_FUZZED_FRAMES", "6000"))
FRAMES_LONG = 350_000  # a million, with those before and after a login over TLS
LOOK_EVERY = 500  # frames between two looks at the node
TOPIC = "fuzzed"
OPENED = "opened"  # its settings make the node open every batch: unfold it, read its records, fold it again
GROWS_MIB = 64
SENTINEL = 0x5EA1ED
SENTINEL_FRAME = encode_request(RequestHeader(ApiKey.API_VERSIONS, 0, SENTINEL, "fuzz"), ApiVersionsRequest())
MAGIC_AT = 16  # of a batch: base offset, length and leader epoch come before
NUMBERS = [0, 1, -1, 2, 7, 127, 128, 255, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]


CONFIGS = {
    "auto.create.topics.enable": "false",  # or every name that a mutation makes up becomes a topic
    "group.min.session.timeout.ms": "1",  # members that only joined are soon forgotten, and nobody waits for them
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    with watched_node(tmp_path_factory.mktemp("fuzz"), **CONFIGS) as watched:
        prepare(watched)
        yield watched


def prepare(node: WatchedNode) -> None:
    """What valid frames are about."""
    with node.connect() as client:
        assert client.create_topic(TOPIC) == 0
        assert client.create_topic(OPENED, configs={"compression.type": "gzip", "cleanup.policy": "compact"}) == 0
        for kind in (0, 1):  # the coordinators of groups and transactions
            assert client.ask(FindCoordinatorRequest("any", kind), 3).error_code == 0
        for _ in range(20):
            assert client.produce(TOPIC, one_batch()).error_code == 0


# ---- mutations: each takes the frame without its length


def flip_bits(chance: random.Random, frame: bytearray) -> None:
    for _ in range(chance.choice([1, 1, 1, 2, 8])):
        frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)


def change_bytes(chance: random.Random, frame: bytearray) -> None:
    for _ in range(chance.choice([1, 1, 1, 4])):
        frame[chance.randrange(len(frame))] = chance.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF, chance.randrange(256)])


def put_number(chance: random.Random, frame: bytearray) -> None:
    layout = chance.choice([">b", ">h", ">i", ">q"])
    size = struct.calcsize(layout)
    if len(frame) >= size:
        limit = 1 << (8 * size - 1)
        number = chance.choice([number for number in NUMBERS if -limit <= number < limit])
        struct.pack_into(layout, frame, chance.randrange(len(frame) - size + 1), number)


def put_varint(chance: random.Random, frame: bytearray) -> None:
    at = chance.randrange(len(frame))
    frame[at : at + 1] = chance.choice([b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff", b"\x80\x80\x00", b"\xff\x7f"])


def cut(chance: random.Random, frame: bytearray) -> None:
    del frame[chance.randrange(8, len(frame)) :]


def remove(chance: random.Random, frame: bytearray) -> None:
    at = chance.randrange(len(frame))
    del frame[at : at + chance.randint(1, 16)]


def insert(chance: random.Random, frame: bytearray) -> None:
    at = chance.randrange(len(frame))
    frame[at:at] = chance.randbytes(chance.randint(1, 16))


def repeat(chance: random.Random, frame: bytearray) -> None:
    at = chance.randrange(len(frame))
    piece = frame[at : at + chance.randint(1, 64)]
    frame[at:at] = piece * chance.randint(1, 20)


def change_version(chance: random.Random, frame: bytearray) -> None:
    struct.pack_into(">h", frame, 2, chance.randrange(-1, 20))


def change_api(chance: random.Random, frame: bytearray) -> None:
    key = chance.choice(list(SERVED))
    struct.pack_into(">hh", frame, 0, key, chance.randint(APIS[key].version_min, APIS[key].version_max))


MUTATIONS: list[Callable[[random.Random, bytearray], None]] = [
    flip_bits, flip_bits, change_bytes, change_bytes, put_number, put_number, put_number,
    put_varint, cut, remove, insert, repeat, change_version, change_api,
]  # fmt: skip


def mutated(chance: random.Random, valid: list[tuple[str, bytes]]) -> tuple[str, bytes]:
    """A frame, length included. The batches of a Produce sometimes get a CRC that fits, to get past that check."""
    name, whole = chance.choice(valid)
    frame = bytearray(whole[4:])
    spared = frame[:4] if chance.random() < 0.8 else b""  # mostly leave the API and version alone
    for mutate in chance.choices(MUTATIONS, k=chance.choice([1, 1, 1, 2, 3])):
        if len(frame) > 9:
            mutate(chance, frame)
    if mutate not in {change_api, change_version}:
        frame[: len(spared)] = spared
    if name.startswith("PRODUCE") and chance.random() < 0.7:
        reseal(frame)
    size = len(frame) if chance.random() < 0.97 else chance.choice([0, 3, len(frame) - 1, len(frame) + 1, 2**31 - 1])
    return name, LENGTH.pack(size) + frame


def reseal(frame: bytearray) -> None:
    """Give what still looks like a batch at the end of the frame a length and a CRC that fit."""
    if len(frame) < 4:
        return
    tail = 3 if struct.unpack_from(">h", frame, 2)[0] >= 9 else 0  # tags of partition, topic and request
    pattern = _PRODUCE_BATCH_START
    at = frame.find(pattern)
    start = at - MAGIC_AT
    end = len(frame) - tail
    if at >= 0 and start >= 0 and end - start >= 61:
        struct.pack_into(">i", frame, start + 8, end - start - 12)
        batch = frame[start:end]
        seal(batch)
        frame[start:end] = batch


_PRODUCE_BATCH_START = bytes(encode_batch([(0, None, b"", ())]))[12:17]  # leader epoch -1 and the magic byte


# ---- the run


def fuzz(
    node: WatchedNode, seed: str, count: int, valid: list[tuple[str, bytes]], connect: Callable[[], Hostile]
) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    log_start = len(node.process.log)
    client = connect()
    try:
        for number in range(count):
            name, frame = mutated(random.Random(f"{seed}:{number}"), valid)
            outcome = send_one(client, frame)
            outcomes[outcome] += 1
            if outcome != "answered":
                client.socket.close()
                client = connect()
            if number % LOOK_EVERY == 0 or number == count - 1:
                node.check_log(log_start)
                with node.connect() as healthy:
                    node.use(healthy)
    except AssertionError as trouble:
        raise AssertionError(
            f"HEADRACE_SEED={seed}, within {LOOK_EVERY} frames before frame {number}, a {name}: {frame[:400].hex()}"
        ) from trouble
    finally:
        client.socket.close()
    return outcomes


def all_valid_frames(node: WatchedNode) -> list[tuple[str, bytes]]:
    with node.connect() as client:
        known = client.ask(MetadataRequest([MetadataRequestTopic(name=name) for name in (TOPIC, OPENED)]), 12)
    ids = {topic.name: topic.topic_id for topic in known.topics}
    opened = [frame for frame in valid_frames(OPENED, ids[OPENED]) if frame[0].startswith("PRODUCE")]
    valid = valid_frames(TOPIC, ids[TOPIC]) + opened
    assert {name.split()[0] for name, _ in valid} == {key.name for key in SERVED}
    return valid


def send_one(client: Hostile, frame: bytes) -> str:
    """Send it and then a request that must be answered, unless the frame has eaten it or made the node hang up."""
    is_whole = LENGTH.unpack_from(frame)[0] == len(frame) - 4
    api_key = struct.unpack_from(">h", frame, 4)[0] if len(frame) >= 6 else 0
    may_wait = not is_whole or api_key in {ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
    client.socket.settimeout(0.05 if may_wait else 60.0)
    client.send(frame + SENTINEL_FRAME)
    try:
        while (answer := client.frame()) is not None:
            if answer[:4] == LENGTH.pack(SENTINEL):
                return "answered"
    except TimeoutError:
        assert may_wait, "neither answered nor closed"
        return "waiting"
    return "closed"


def test_fuzzed_frames_are_answered_or_close_their_connection(node: WatchedNode) -> None:
    with node.attacked(grows_mib=GROWS_MIB):
        outcomes = fuzz(node, SEED, FRAMES, all_valid_frames(node), node.connect)
    print(f"\nseed {SEED}: {dict(outcomes)}")
    assert outcomes["answered"] > FRAMES // 10, "hardly anything got past the first check: the mutations are too coarse"
    assert outcomes["closed"] > FRAMES // 10


def test_every_valid_frame_is_answered(node: WatchedNode) -> None:
    """What is mutated must be sound: else the fuzzing would only ever see the first check."""
    with node.attacked(), node.connect() as client:
        for name, frame in all_valid_frames(node):
            client.send(frame)
            answer = client.frame()
            assert answer is not None, name
            assert answer[:4] == LENGTH.pack(1), name


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_very_many_fuzzed_frames(node: WatchedNode) -> None:
    with node.attacked(grows_mib=GROWS_MIB):
        outcomes = fuzz(node, SEED, FRAMES_LONG, all_valid_frames(node), node.connect)
    print(f"\nseed {SEED}: {dict(outcomes)}")
