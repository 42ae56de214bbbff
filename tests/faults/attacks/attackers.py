"""The attackers, each a function that runs apart.

It prepares its bytes, waits for the word, strikes, says when it has done at least once what it came for, and goes on
until it is told to stop. It returns how it was answered.

None is in a hurry: what is tried here is what a few bytes can do, not how much a core can send.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from itertools import cycle
from typing import TYPE_CHECKING, Any

from headrace.wire.api import ApiKey
from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.faults.attacks import arms
from tests.faults.hostile import LENGTH, Hostile, framed, produce_request, request_start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.faults.attacks.apart import Line

MIB = 1 << 20
PAUSE_S = 0.005  # two hundred blows a second from each connection
HERD_PAUSE_S = 0.3
LAST_WORD = 0x7E57_1A57  # the number of a request that stands in no other answer
CLOSED = "closed"


class Tally:
    """How often each thing was answered in which way. For several threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, thing: str, answer: object) -> None:
        with self._lock:
            self._counts[f"{thing}: {answer}"] += 1

    def told(self) -> dict[str, int]:
        return dict(sorted(self._counts.items()))


def produced(connection: Hostile, topic: str, batch: bytes, partition: int = 0, acks: int = 1) -> str:
    """The code that a batch is answered with, or that the connection was closed."""
    connection.begin(produce_request(topic, batch, acks=acks, partition=partition), 8)
    return _code(connection, produce_request(topic, batch), 8, _produce_code)


def _produce_code(response: Any) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


def _code(connection: Hostile, message: Any, version: int, code_of: Callable[[Any], int]) -> str:
    try:
        return str(code_of(connection.answer(message, version)))
    except (AssertionError, OSError):
        return CLOSED


def asked(port: int, message: Any, version: int, code_of: Callable[[Any], int]) -> str:
    """The same for one request on a connection of its own."""
    with Hostile(port) as connection:
        connection.begin(message, version)
        return _code(connection, message, version, code_of)


def in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- batches


def send_batches(
    line: Line, ports: Sequence[int], arms_from: str, topics: Mapping[str, dict[str, int]], connections: int
) -> dict[str, int]:
    """Batches of one kind of `arms`, in turn to each topic, partition and node; several connections at once.

    `topics` says what is changed in the batch's header for it, and may name a `partition`.
    """
    made = getattr(arms, arms_from)
    aimed = []
    for topic, changes in topics.items():
        partition = changes.pop("partition", 0)
        batches = made(**changes) if changes else made()
        for what, batch in (batches if isinstance(batches, dict) else {arms_from: batches}).items():
            aimed += [(f"{what} to {topic}", port, topic.partition(" ")[0], partition, batch) for port in ports]
    tally = Tally()
    left = set(range(len(aimed)))
    line.wait_begin()

    def strike(first: int) -> None:
        for number in cycle([*range(first, len(aimed)), *range(first)]):
            what, port, topic, partition, batch = aimed[number]
            with Hostile(port) as connection:
                tally.note(what, produced(connection, topic, batch, partition))
            left.discard(number)
            if not left:
                line.struck()
            if line.is_over.wait(PAUSE_S):
                return

    in_threads(strike, connections)
    return tally.told()


def send_again(
    line: Line, port: int, message_from: str, version: int, connections: int, **arguments: int
) -> dict[str, int]:
    """One request, made here by the function of that name, again and again on many connections at once."""
    message = globals()[message_from](**arguments)
    request = encode_request(RequestHeader(message.API_KEY, version, 1, "hostile"), message)
    tally = Tally()
    waiting = set(range(connections))
    line.wait_begin()

    def strike(number: int) -> None:
        while not line.is_over.is_set():
            with Hostile(port) as connection:
                connection.send(request)
                tally.note(message_from, CLOSED if connection.frame() is None else "answered")
            waiting.discard(number)
            if not waiting:
                line.struck()
            line.is_over.wait(PAUSE_S)

    in_threads(strike, connections)
    return tally.told()


def crowd_of_batches(count: int, partitions: int) -> ProduceRequest:
    batch = bytes(encode_batch([(1_700_000_000_000, None, b"v", ())]))
    parts = [PartitionProduceData(number % partitions, batch) for number in range(count)]
    return ProduceRequest(None, 1, 5000, [TopicProduceData("crowded", partition_data=parts)])


def batches_to_open(count: int) -> ProduceRequest:
    """Each is a few hundred bytes, and some milliseconds of work beside the loop."""
    batch = bytes(encode_batch([(1_700_000_000_000, None, bytes(900_000), ())], codec=Codec.ZSTD))
    parts = [PartitionProduceData(0, batch) for _ in range(count)]
    return ProduceRequest(None, 1, 5000, [TopicProduceData("crowded", partition_data=parts)])


def everything_about_topics() -> MetadataRequest:
    return MetadataRequest(None)


def send_refused_producers(line: Line, port: int, topic: str, partition: int) -> dict[str, int]:
    """To a node that does not lead: batches of producers that nobody has heard of, mostly empty, some large."""
    per_request, small, large = 500, 300, 120
    tally = Tally()
    value = b"x" * 900_000
    line.wait_begin()
    producer_id = 10**12
    with Hostile(port) as connection:
        for _ in range(small):
            parts = [
                PartitionProduceData(partition, arms.bare_header_of(producer_id + number))
                for number in range(per_request)
            ]
            producer_id += per_request
            request = ProduceRequest(None, 1, 5000, [TopicProduceData(topic, partition_data=parts)])
            answer = connection.ask(request, 8).responses[0].partition_responses
            tally.note("forged headers", answer[0].error_code)
            if line.is_over.wait(2 * PAUSE_S):
                break
    for _ in range(large):
        producer_id += 1
        with Hostile(port) as connection:
            tally.note(
                "large batches", produced(connection, topic, arms.of_new_producer(producer_id, value), partition, -1)
            )
        if line.is_over.is_set():
            break
    line.struck()
    line.is_over.wait()
    return tally.told()


# ---- transactions


def forge_markers(line: Line, port: int, topic: str, producer_id: int, producer_epoch: int) -> dict[str, int]:
    """Ends of somebody else's transaction, in the name of a coordinator of the far future."""
    tally = Tally()
    line.wait_begin()
    forged = [
        (is_commit, epoch, coordinator_epoch)
        for is_commit in (False, True)
        for epoch in (producer_epoch, producer_epoch + 1, 2**15 - 1)
        for coordinator_epoch in (2**31 - 1, 10**6)
    ]
    while not line.is_over.is_set():
        for is_commit, epoch, coordinator_epoch in forged:
            targets = [WritableTxnMarkerTopic(topic, [0]), WritableTxnMarkerTopic("__consumer_offsets", [0])]
            marker = WritableTxnMarker(producer_id, epoch, is_commit, targets, coordinator_epoch)
            what = f"{'commit' if is_commit else 'abort'} of epoch {epoch - producer_epoch:+} by {coordinator_epoch}"
            tally.note(what, asked(port, WriteTxnMarkersRequest([marker]), 1, _marker_code))
            line.is_over.wait(PAUSE_S)
        line.struck()
    return tally.told()


def _marker_code(response: Any) -> int:
    """Of its first topic; a request that was refused as a whole may name none."""
    return int(next((topic.partitions[0].error_code for topic in response.markers[0].topics), -1))


CONCURRENT_TRANSACTIONS = 51
PAUSE_INSIDE_S = 0.02  # in which there is something to forge for


def run_transactions(
    line: Line, port: int, topic: str, transactional_id: str, producer_id: int, producer_epoch: int, first_sequence: int
) -> dict[str, Any]:
    """The victim: transaction after transaction, each of two records, all committed. Returns what was acknowledged."""
    acknowledged: list[str] = []
    troubles: list[str] = []
    line.wait_begin()
    with Hostile(port) as connection:
        victim = _Victim(connection, topic, transactional_id, (producer_id, producer_epoch))
        while not troubles and not (line.is_over.is_set() and acknowledged):
            sequence = first_sequence + len(acknowledged)
            codes = [victim.begin()]
            for number in (sequence, sequence + 1):
                codes.append(victim.produce(number))
                line.is_over.wait(PAUSE_INSIDE_S)
            codes.append(victim.commit())
            if any(codes):
                troubles.append(f"AddPartitionsToTxn, Produce, Produce, EndTxn: {codes}")
            else:
                acknowledged += [str(sequence), str(sequence + 1)]
            if troubles or len(acknowledged) > 2:
                line.struck()
    return {"acknowledged": acknowledged, "troubles": troubles}


class _Victim:
    """Its requests, each answered with a code."""

    def __init__(self, connection: Hostile, topic: str, transactional_id: str, producer: tuple[int, int]) -> None:
        self._connection = connection
        self._topic = topic
        self._transactional_id = transactional_id
        self._producer = producer

    def begin(self) -> int:
        topics = [AddPartitionsToTxnTopic(self._topic, [0])]
        request = AddPartitionsToTxnRequest([], self._transactional_id, *self._producer, topics)

        def code_of(response: Any) -> int:
            (part,) = response.results_by_topic_v3_and_below[0].results_by_partition
            return int(part.partition_error_code)

        return self._patiently(request, code_of)

    def produce(self, number: int) -> int:
        producer_id, producer_epoch = self._producer
        batch = encode_batch(
            [(arms.now_ms(), None, str(number).encode(), ())],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=number,
            is_transactional=True,
        )
        topics = [TopicProduceData(self._topic, partition_data=[PartitionProduceData(0, bytes(batch))])]
        return _produce_code(self._connection.ask(ProduceRequest(self._transactional_id, -1, 10_000, topics), 8))

    def commit(self) -> int:
        request = EndTxnRequest(self._transactional_id, *self._producer, committed=True)
        return self._patiently(request, lambda response: int(response.error_code))

    def _patiently(self, request: Any, code_of: Callable[[Any], int]) -> int:
        """As clients do it: the transaction before may still be on its way to its partitions."""
        while (code := code_of(self._connection.ask(request, 3))) == CONCURRENT_TRANSACTIONS:
            time.sleep(PAUSE_S)
        return code


# ---- memory


def leave_frames_unfinished(line: Line, port: int, address: str, connections: int, size: int) -> dict[str, int]:
    """Each announces a large request and sends all of it but the end."""
    start = LENGTH.pack(size) + request_start(ApiKey.METADATA, 4)
    chunk = bytes(MIB)
    sent, closed = 0, 0
    line.wait_begin()
    with ExitStack() as stack:
        crowd = [stack.enter_context(Hostile(port, address)) for _ in range(connections)]
        left = dict.fromkeys(crowd, size - MIB)
        for client in crowd:
            client.send(start)
            client.socket.setblocking(False)
        quiet_since_s = time.monotonic()
        # Done when all is sent, or when the node has taken no more for a while.
        while left and time.monotonic() < quiet_since_s + 1.0:
            for client in list(left):
                try:
                    count = client.socket.send(chunk[: left[client]])
                except BlockingIOError:
                    continue
                except OSError:
                    closed += 1
                    del left[client]
                    continue
                sent += count
                left[client] -= count
                quiet_since_s = time.monotonic()
                if left[client] <= 0:
                    del left[client]
            time.sleep(0.001)
        line.struck()
        line.is_over.wait()
    return {"MiB sent": sent // MIB, "closed": closed, "held back": len(left)}


def send_large(line: Line, port: int, topic: str, size: int) -> dict[str, Any]:
    """An honest producer whose batches are large: each must be taken, however long the others are."""
    batch = bytes(encode_batch([(arms.now_ms(), None, b"x" * size, ())]))
    codes = []
    line.wait_begin()
    line.is_over.wait(1.0)  # the others are in the middle of it
    with Hostile(port) as connection:
        began_s = time.monotonic()
        codes.append(produced(connection, topic, batch))
        took_s = time.monotonic() - began_s
    line.struck()
    line.is_over.wait()
    return {"codes": codes, "took_s": round(took_s, 2)}


def join_with_much(line: Line, port: int, members: int, size: int, groups: int) -> dict[str, int]:
    """Members of classic groups whose subscription is large, as their client's own bytes; they stay."""
    tally = Tally()
    subscription = b"x" * size
    line.wait_begin()
    with ExitStack() as stack:
        for number in range(members):
            group = f"greedy-{number % groups}-{arms.now_ms() if groups == members else 0}"
            connection = stack.enter_context(Hostile(port))
            member_id = connection.ask(_join(group, "", b""), 5).member_id
            connection.begin(_join(group, member_id, subscription), 5)
            # The first of a group waits for others: that it is taken shows in that nobody answers yet.
            connection.socket.settimeout(0.02)
            try:
                frame = connection.frame()
            except TimeoutError:
                tally.note("join", "waits")
            else:
                tally.note("join", CLOSED if frame is None else f"{struct.unpack_from('>h', frame, 8)[0]}")
            if line.is_over.is_set():
                break
        line.struck()
        line.is_over.wait()
    return tally.told()


def _join(group: str, member_id: str, subscription: bytes) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", subscription)]
    return JoinGroupRequest(group, 1_800_000, 2**31 - 1, member_id, None, "consumer", protocols)


def subscribe_to_much(line: Line, port: int, members: int, names: int) -> dict[str, int]:
    """The same in the newer protocol: members that subscribe to thousands of long names."""
    tally = Tally()
    wanted = [f"{number:06}" + "n" * 240 for number in range(names)]
    line.wait_begin()
    run = arms.now_ms()
    for number in range(members):
        request = ConsumerGroupHeartbeatRequest(
            "greedy-too", f"{run}-{number}", 0, None, None, 60_000, wanted, None, None, []
        )
        tally.note("join", asked(port, request, 1, lambda response: int(response.error_code)))
        if line.is_over.wait(4 * PAUSE_S):
            break
    line.struck()
    line.is_over.wait()
    return tally.told()


def park_fetches(line: Line, port: int, topic: str, connections: int, each: int) -> dict[str, int]:
    """Fetches that no append can satisfy, as many as a connection may have waiting."""
    wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=MIB)])
    request = FetchRequest(max_wait_ms=60_000, min_bytes=2**31 - 1, topics=[wanted])
    frames = encode_request(RequestHeader(ApiKey.FETCH, 11, 1, "crowd"), request) * each
    line.wait_begin()
    with ExitStack() as stack:
        crowd = []
        for _ in range(connections):
            crowd.append(stack.enter_context(Hostile(port)))
            crowd[-1].send(frames)
        line.struck()
        line.is_over.wait()
        for client in crowd:
            client.socket.setblocking(False)
        answered = sum(map(_has_heard, crowd))
    return {"parked": connections * each, "connections that were answered": answered}


def _has_heard(client: Hostile) -> bool:
    try:
        client.socket.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def wake_herds(line: Line, port: int, topic: str, connections: int, each: int) -> dict[str, int]:
    """Fetches that wait for two bytes more than there are, and an append that wakes them all; a few times a second."""
    batch = arms.batch_with(arms.record(0), 1)
    herds = 0
    line.wait_begin()
    with ExitStack() as stack, Hostile(port) as writer:
        crowd = [stack.enter_context(Hostile(port)) for _ in range(connections)]
        while not line.is_over.is_set():
            (found,) = writer.ask(_latest(topic), 5).topics[0].partitions
            wanted = FetchTopic(
                topic, partitions=[FetchPartition(0, fetch_offset=found.offset, partition_max_bytes=MIB)]
            )
            request = FetchRequest(max_wait_ms=60_000, min_bytes=2, topics=[wanted])
            frames = encode_request(RequestHeader(ApiKey.FETCH, 11, 1, "herd"), request) * each
            for client in crowd:
                client.send(frames)
                time.sleep(0.002)  # they gather slowly: it is the waking that is tried
            assert produced(writer, topic, batch) == "0"
            for client in crowd:
                for _ in range(each):
                    assert client.frame() is not None
            herds += 1
            if herds == 2:
                line.struck()
            line.is_over.wait(HERD_PAUSE_S)
    return {"herds": herds, "fetches in each": connections * each}


def _latest(topic: str) -> ListOffsetsRequest:
    return ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])])


def take_all_connections(line: Line, port: int, address: str, connections: int) -> dict[str, int]:
    """One address opens as many connections as it can, says a word on each, and tries again where it is turned away."""
    word = framed(request_start(ApiKey.API_VERSIONS, 0))
    held: list[socket.socket] = []
    opened, turned_away = 0, 0
    line.wait_begin()
    while not line.is_over.is_set():
        for _ in range(min(20, connections - len(held))):
            held.append(socket.create_connection(("127.0.0.1", port), 10, source_address=(address, 0)))
            opened += 1
            with suppress(OSError):
                held[-1].sendall(word)
        line.is_over.wait(4 * PAUSE_S)
        alive = [client for client in held if _is_open(client)]
        turned_away += len(held) - len(alive)
        held = alive
        if opened >= connections:
            line.struck()
    # The last ones may still wait at the door, and nobody has told them yet: only an answer shows who is inside.
    served = [client for client in held if _is_served(client)]
    turned_away += len(held) - len(served)
    for client in held:
        client.close()
    return {"held": len(served), "turned away": turned_away}


def _is_served(client: socket.socket) -> bool:
    """Whether the node answers another word. It has a number of its own, as earlier answers may not be read yet."""
    client.settimeout(60)
    number = LAST_WORD.to_bytes(4, "big")
    answers = b""
    try:
        client.sendall(encode_request(RequestHeader(ApiKey.API_VERSIONS, 0, LAST_WORD, "flood"), ApiVersionsRequest()))
        while number not in answers:
            more = client.recv(4096)
            if not more:
                return False
            answers += more
    except ConnectionError:
        return False
    return True


def _is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        if client.recv(4096):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    client.close()
    return False


def never_read(line: Line, port: int, topic: str, connections: int) -> dict[str, int]:
    """Ask for much, again and again, and read nothing of it: records, and what is known of all topics."""
    wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=64 * MIB)])
    fetch = encode_request(
        RequestHeader(ApiKey.FETCH, 11, 1, "deaf"), FetchRequest(max_bytes=64 * MIB, topics=[wanted])
    )
    metadata = encode_request(RequestHeader(ApiKey.METADATA, 7, 1, "deaf"), MetadataRequest(None))
    line.wait_begin()
    with ExitStack() as stack:
        for number in range(connections):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(10)
            client.connect(("127.0.0.1", port))
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.send((fetch if number % 20 else metadata) * 8)
            line.is_over.wait(2 * PAUSE_S)
        line.struck()
        line.is_over.wait()
    return {"deaf": connections}


# ---- settings


def alter(line: Line, port: int, topics: dict[str, dict[str, str]], node: dict[str, str]) -> dict[str, int]:
    """Settings that harm, for topics and for the node, one after the other."""
    tally = Tally()
    line.wait_begin()
    while not line.is_over.is_set():
        for kind, name, settings in [*((2, topic, wanted) for topic, wanted in topics.items()), (4, "1", node)]:
            for setting, value in settings.items():
                resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, 0, value)])
                request = IncrementalAlterConfigsRequest([resource])
                code = asked(port, request, 1, lambda response: int(response.responses[0].error_code))
                tally.note(f"{name} {setting}={value}", code)
                line.is_over.wait(PAUSE_S)
        if not line.is_over.is_set():
            line.struck()
            line.is_over.wait()
    return tally.told()


# ---- HTTP

LIVE = b"GET /livez HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"


def harass_http(line: Line, port: int, connections: int) -> dict[str, int]:
    """Slow headers on many connections, huge ones on others, answers that nobody reads, and what is not HTTP."""
    tally = Tally()
    line.wait_begin()
    with ExitStack() as stack:
        slow = []
        for number in range(connections):
            slow.append(stack.enter_context(_http(port)))
            if number % 20 == 0:
                line.is_over.wait(PAUSE_S)
        deaf = stack.enter_context(_http(port))
        deaf.setblocking(False)
        with suppress(BlockingIOError):
            deaf.send(LIVE.replace(b"livez", b"metrics").replace(b"close", b"keep-alive") * 2000)
        blows = cycle(_not_quite_http().items())
        rounds = 0
        while not line.is_over.is_set():
            place = min(rounds, len(LIVE) - 2)
            # A few at a time: it is about what slow clients hold, and not about six hundred packets at once.
            for start in range(0, connections, 20):
                for client in slow[start : start + 20]:
                    with suppress(OSError):
                        client.sendall(LIVE[place : place + 1])
                line.is_over.wait(PAUSE_S)
                if start % 100 == 0:
                    what, request = next(blows)
                    tally.note(what, _status(port, request))
            tally.note("a probe", _status(port, LIVE))
            rounds += 1
            if rounds == 2:
                line.struck()
    return tally.told()


def _http(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 10)


def _not_quite_http() -> dict[str, bytes]:
    return {
        "a header of 5 MB": LIVE[:-2] + b"X: " + b"y" * 5 * MIB + b"\r\n\r\n",
        "50,000 headers": LIVE[:-2] + b"X: y\r\n" * 50_000 + b"\r\n",
        "a path of 100 KB": LIVE.replace(b"livez", b"x" * 100_000),
        "a Kafka request": framed(request_start(ApiKey.API_VERSIONS, 0)) * 100,
        "an endless chunk": LIVE[:-2].replace(b"GET", b"POST")
        + b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n"
        + bytes(MIB),
    }


def _status(port: int, request: bytes) -> str:
    with _http(port) as client:
        with suppress(OSError):
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(OSError):
            while piece := client.recv(65536):
                answer += piece
        return answer[9:12].decode() or CLOSED
