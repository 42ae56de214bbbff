"""Send every kind of the catalogue to a broker, whichever it is, and note what it answers and what can be read then.

Each kind has a topic of its own and each packing a partition, so that none disturbs another. Before and after the
malformed batch a sound one is sent: the first so that offsets have something to jump from, the second because whoever
reads it has to get past what is before it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.wire.api import ApiKey
from headrace.wire.batches.header import HEADER_SIZE, CorruptBatch, read_header
from headrace.wire.batches.records import decode_records
from headrace.wire.frames import decode_response
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.faults.hostile import PATIENCE_S, Hostile
from tests.faults.malformed.catalogue import KINDS
from tests.faults.malformed.consuming import READ, Place, consume
from tests.faults.malformed.forge import NONE, SOUND_COUNT, Forge
from tests.faults.node_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.faults.malformed.forge import Packing
    from tests.faults.malformed.kinds import Kind

PRODUCE_VERSION = 11  # the last before transactions are begun by producing; it has room for messages
LATEST = -1
TRANSACTIONS = 1  # the kind of coordinator
TOPICS_AT_ONCE = 20
SILENCE_S = 20.0  # one broker drops a request that it cannot handle, and leaves the connection open
INFLATE_MAX = 64 << 20


@dataclass
class Answer:
    """What a broker made of one batch."""

    code: int | None
    """None if there was no answer; the message says what there was instead."""
    message: str | None = None
    moved: int = 0
    """By how much the end of the log moved."""
    is_usable: bool = True
    """True if the partition takes a sound batch afterwards."""
    read: str | None = None
    """What our decoder makes of the whole partition then: `READ`, or its trouble. None if nobody tried."""
    is_max_true: bool | None = None
    """True if the greatest time that each batch says is that of its records."""
    consumed: str | None = None
    """What librdkafka makes of the whole partition: `READ`, or its trouble. None if nobody tried."""

    @property
    def is_taken(self) -> bool:
        return self.code == 0


Answers = dict[str, Answer]
"""By kind and packing."""


def cases(kinds: Sequence[Kind] = KINDS) -> Iterator[tuple[Kind, Packing, int]]:
    for kind in kinds:
        for partition, packing in enumerate(kind.packings):
            yield kind, packing, partition


def name_of(kind: Kind, packing: Packing) -> str:
    return f"{kind.id}/{packing.name}"


def ask_all(port: int, now_ms: int, kinds: Sequence[Kind] = KINDS) -> Answers:
    """On a broker that has none of the topics yet."""
    _create_topics(port, kinds)
    answers = {}
    client = Hostile(port)
    for kind, packing, partition in cases(kinds):
        answer = answers[name_of(kind, packing)] = _ask_one(client, kind, Forge(packing, now_ms), partition)
        if answer.code is None:
            client.socket.close()
            client = Hostile(port)
        answer.moved = _end(client, kind.id, partition) - SOUND_COUNT
        answer.is_usable = _send_sound(client, kind.id, partition, now_ms) == 0
        if answer.is_taken and not kind.is_heavy:
            answer.read, answer.is_max_true = _read(client, kind.id, partition)
    client.socket.close()
    return answers


def _create_topics(port: int, kinds: Sequence[Kind]) -> None:
    with Hostile(port) as client:
        for start in range(0, len(kinds), TOPICS_AT_ONCE):
            wanted = [_topic(kind) for kind in kinds[start : start + TOPICS_AT_ONCE]]
            created = client.ask(CreateTopicsRequest(wanted, timeout_ms=60_000), 5).topics
            assert not any(topic.error_code for topic in created), created


def _topic(kind: Kind) -> CreatableTopic:
    configs = [CreatableTopicConfig(name, value) for name, value in kind.configs.items()]
    return CreatableTopic(kind.id, len(kind.packings), 1, [], configs)


def _ask_one(client: Hostile, kind: Kind, forge: Forge, partition: int) -> Answer:
    wait_until(
        lambda: _send_sound(client, kind.id, partition, forge.now_ms) == 0,  # one broker needs a while to lead it
        f"the new topic {kind.id} takes a sound batch",
    )
    if kind.transactional_id is not None:
        _begin_transactions(client, kind.transactional_id)
    parts = [TopicProduceData(kind.id, partition_data=[PartitionProduceData(partition, kind.make(forge))])]
    client.begin(ProduceRequest(kind.transactional_id, -1, 10_000, parts), PRODUCE_VERSION)
    client.socket.settimeout(SILENCE_S)
    try:
        frame = client.frame()
    except TimeoutError:
        return Answer(None, "it never answers")
    finally:
        client.socket.settimeout(PATIENCE_S)
    return Answer(None, "it closes the connection") if frame is None else _understood(frame)


def _begin_transactions(client: Hostile, transactional_id: str) -> None:
    """Make sure that there is somebody to ask about it: coordinators come into being when they are first looked for."""
    client.ask(FindCoordinatorRequest(transactional_id, TRANSACTIONS), 3)
    wait_until(
        lambda: client.ask(InitProducerIdRequest(transactional_id, 60_000), 4).error_code == 0,
        f"{transactional_id} has a coordinator",
    )


def _send_sound(client: Hostile, topic: str, partition: int, now_ms: int) -> int:
    batch = Forge(NONE, now_ms).batch()
    return int(client.produce(topic, batch, acks=-1, partition=partition, version=PRODUCE_VERSION).error_code)


def _understood(frame: bytes) -> Answer:
    response: Any = decode_response(frame, ApiKey.PRODUCE, PRODUCE_VERSION)[1]
    answered = response.responses[0].partition_responses[0]
    return Answer(answered.error_code, answered.error_message)


def _end(client: Hostile, topic: str, partition: int) -> int:
    wanted = [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=LATEST)])]
    (found,) = client.ask(ListOffsetsRequest(topics=wanted), 7).topics
    return int(found.partitions[0].offset)


# ---- reading what was taken


def _read(client: Hostile, topic: str, partition: int) -> tuple[str, bool | None]:
    """Open every batch of a partition; also whether each says the true greatest time of its records."""
    offset, end, is_max_true = 0, _end(client, topic, partition), True
    while offset < end:
        fetched = client.fetch(topic, offset, partition=partition, max_wait_ms=1000, min_bytes=1)
        if fetched.error_code or not fetched.records:
            return f"fetching at {offset} gives {fetched.error_code}", None
        try:
            for batch in _batches(memoryview(fetched.records)):
                offset, is_true = _read_batch(batch, offset)
                is_max_true = is_max_true and is_true
        except CorruptBatch as damage:
            return str(damage), None
    return READ, is_max_true


def _batches(records: memoryview) -> Iterator[memoryview]:
    """The whole ones: the last may be cut by the limit of the fetch."""
    position = 0
    while len(records) - position >= HEADER_SIZE:
        size = read_header(records, position).size
        if position + size <= len(records):
            yield records[position : position + size]
        position += size


def _read_batch(batch: memoryview, offset: int) -> tuple[int, bool]:
    header = read_header(batch)
    if header.base_offset != offset:
        raise CorruptBatch(f"a batch is at {header.base_offset} where {offset} is expected")
    times = [record.timestamp for record in decode_records(batch, inflate_max=INFLATE_MAX)]
    if len(times) != header.record_count:
        raise CorruptBatch(f"{len(times)} records of {header.record_count}")
    return header.next_offset, header.max_timestamp == max(times)


def consume_taken(port: int, answers: Answers, kinds: Sequence[Kind] = KINDS) -> None:
    """Let librdkafka read what was taken: together what our decoder reads, one by one what it does not."""
    together: list[Place] = []
    alone: list[Place] = []
    for kind, packing, partition in cases(kinds):
        name = name_of(kind, packing)
        answer = answers[name]
        if answer.is_taken and not kind.is_heavy:
            place = Place(name, kind.id, partition, answer.moved + 2 * SOUND_COUNT)
            (together if answer.read == READ else alone).append(place)
    for places in (together, *([place] for place in alone)):
        for name, found in consume(port, places).items():
            answers[name].consumed = found


# ---- keeping answers


def save(answers: Mapping[str, Answer], path: Path) -> None:
    """One line each, without what says nothing, so that a change can be read."""
    lines = []
    for name, answer in answers.items():
        said = {key: value for key, value in asdict(answer).items() if key == "code" or value != _UNSAID[key]}
        lines.append(f"{json.dumps(name)}: {json.dumps(said, ensure_ascii=False)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def load(path: Path) -> Answers:
    return {name: Answer(**fields) for name, fields in json.loads(path.read_text()).items()}


_UNSAID = asdict(Answer(None))
